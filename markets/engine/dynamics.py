"""From the floor to the book, and from the clearing to what has to happen on the floor.

Pure and shared: the live scheduler calls `plan` on a snapshot read under the cluster's lock, the simulator on its own
memory with a virtual clock. Nothing is reserved: the whole book is cleared afresh, and awards and notices are the
differences between what the clearing says and who sits where.

`plan` is idempotent: applying it and planning again at the same instant asks only for what has become possible since.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from markets.engine.actions import (
    MARKET_REASONS,
    Action,
    CloseAward,
    CoolDown,
    ExecuteNotice,
    GiveNotice,
    HandOver,
    NoticeReason,
    OpenAward,
    ReturnDestination,
    ReturnReason,
    WithdrawNotice,
)
from markets.engine.book import Book, Offer, Participant, Row, participant_of, source_participant_of
from markets.engine.clearing import RULES, Clearing
from markets.engine.floor import Floor, FloorJob, TableRow, Tenure, TypeOffer, Unit

__all__ = [
    "COOL_DOWN_US",
    "MARKET_REASONS",
    "Action",
    "CloseAward",
    "CoolDown",
    "ExecuteNotice",
    "GiveNotice",
    "HandOver",
    "OpenAward",
    "Plan",
    "ReturnDestination",
    "WithdrawNotice",
    "book_of",
    "cool_down",
    "gives_source_back",
    "next_deadline",
    "plan",
    "prices_paid",
]

COOL_DOWN_US = 60_000_000
LEASES_PER_JOB = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """A clearing of the whole book and the actions that bring the floor towards it, in the order to apply them."""

    clearing: Clearing
    actions: tuple[Action, ...]


def book_of(floor: Floor) -> Book:
    """Return the book that the floor puts forward at this instant (MECHANISM section 2)."""
    return _book(_without_spent_destinations(floor)[0])


def plan(floor: Floor, rule: str = "launch_table") -> Plan:
    """Clear the book by the named rule and say what has to happen (MECHANISM section 3)."""
    present, returned = _without_spent_destinations(floor)
    clearing = RULES[rule](_book(present))
    return Plan(clearing, (*returned, *_Planner(present, clearing).actions()))


def next_deadline(floor: Floor) -> int | None:
    """Return the earliest instant at which `plan` would act although nothing else has changed, if there is one.

    It lies in the past when it is already due.
    """
    return min((instant for job in floor.jobs for instant in _deadlines(job, floor.now)), default=None)


def cool_down(previous_us: int, *, first_us: int = COOL_DOWN_US) -> int:
    """Return for how long a row is closed after its previous cool-down of that length (0: it never had one)."""
    return 2 * previous_us if previous_us else first_us


def gives_source_back(job: FloorJob) -> bool:
    """Return whether the job, at its moment (now or its next checkpoint, state saved), leaves the unit it runs on.

    It does when its destination is active. It does without one, for the queue and with its award, when its unit is
    claimed, or when it is under any notice and its agent has said migrate: so cycles of swaps dissolve.
    """
    if job.source is None:
        return False
    if job.destination is not None and job.destination.state == "active":
        return True
    notice = job.source.notice
    return notice is not None and (job.leaving or (notice.reason == "claimed" and job.destination is None))


def prices_paid(floor: Floor, clearing: Clearing) -> dict[int, int]:
    """Return what every occupied lease pays from now on: the lease price in force, never above its own bid there.

    Micro-dollars per hour by lease. Whether a lease is billed at all (only once active) is the applier's to know.
    """
    offers = {offer.id: offer for offer in floor.types}
    return {
        tenure.lease: min(clearing.prices[tenure.type].lease, _own_bid(job, offers[tenure.type]))
        for job in floor.jobs
        for tenure in _tenures(job)
    }


# From the floor to the book


def _book(floor: Floor) -> Book:
    supply = defaultdict(int)
    usable = set()
    for unit in floor.units:
        if unit.usable:
            supply[unit.type] += 1
            usable.add(unit.id)
    offers = {offer.id: offer for offer in floor.types}
    participants = [participant for job in floor.jobs for participant in _participants(job, floor.now, offers, usable)]
    return Book(
        offers=tuple(Offer(offer.id, supply[offer.id], offer.base, offer.cap) for offer in floor.types),
        participants=tuple(participants),
    )


def _participants(
    job: FloorJob, now: int, offers: dict[int, TypeOffer], usable: set[int]
) -> Iterator[Participant]:
    """Yield the one or two participants of a job; rows of foreign types are left out."""
    source = job.source if job.source is not None and job.source.unit in usable else None
    if job.destination is not None:
        if source is not None:
            yield _holder(job, source_participant_of(job.id), source.type, offers)
        yield _holder(job, participant_of(job.id), job.destination.type, offers)
        return
    rows = _awake_rows(job, source, now)
    holds = source.type if source is not None else job.award.type if job.award is not None else None
    table = tuple(_row(row, keep, offers[row.type]) for row, keep in rows if row.type in offers)
    yield Participant(participant_of(job.id), job.id, job.tenant, table, holds)


def _holder(job: FloorJob, participant: int, type_id: int, offers: dict[int, TypeOffer]) -> Participant:
    """Return the one-row participant for a unit that a job on two units sits on."""
    row = job.row(type_id)
    table = (_row(row, True, offers[type_id]),) if row is not None and type_id in offers else ()
    return Participant(participant, job.id, job.tenant, table, type_id)


def _awake_rows(job: FloorJob, source: Tenure | None, now: int) -> Iterator[tuple[TableRow, bool]]:
    """Yield the rows that take part, each with whether it bids its keep price."""
    held = job.rank(source.type) if source is not None else -1
    for place, row in enumerate(job.rows):
        if place >= held or (job.seeking and row.closed_until <= now):
            yield row, place == held


def _row(row: TableRow, keep: bool, offer: TypeOffer) -> Row:
    return Row(row.type, _stated(row, keep, offer), row.accepted_at)


def _stated(row: TableRow, keep: bool, offer: TypeOffer) -> int:
    """Return the bid of a row, at its keep price or its max price."""
    price = row.keep_price if keep and row.keep_price is not None else row.max_price
    return offer.cap if price is None else price


def _own_bid(job: FloorJob, offer: TypeOffer) -> int:
    """Return the most a job pays where it sits: its keep price, at most the cap; the base price without a row."""
    row = job.row(offer.id)
    return offer.base if row is None else min(offer.cap, _stated(row, True, offer))


def _tenures(job: FloorJob) -> tuple[Tenure, ...]:
    own = tuple(tenure for tenure in (job.source, job.destination) if tenure is not None)
    return own + job.closing


# Destinations whose time is up


def _without_spent_destinations(floor: Floor) -> tuple[Floor, tuple[Action, ...]]:
    """Return the floor as if destinations past their seek deadline or on unusable units were given back already."""
    usable = {unit.id for unit in floor.units if unit.usable}
    actions: list[Action] = []
    jobs = []
    for job in floor.jobs:
        reason = _spent(job, floor.now, usable)
        if job.destination is not None and reason is not None:
            actions += _abort(job, job.destination, reason)
            jobs.append(_without_destination(job, floor.now))
        else:
            jobs.append(job)
    return replace(floor, jobs=tuple(jobs)), tuple(actions)


def _spent(job: FloorJob, now: int, usable: set[int]) -> ReturnReason | None:
    """Return why the destination cannot be kept, apart from what the clearing will say."""
    if job.destination is None:
        return None
    if job.destination.unit not in usable:
        return "lost"
    if job.seek_deadline is not None and job.seek_deadline <= now:
        return "seek_expired"
    return None


def _without_destination(job: FloorJob, now: int) -> FloorJob:
    """Return the job with its destination on the way out and, for an upgrade, that row closed."""
    destination = job.destination
    assert destination is not None
    rows = job.rows
    if _is_upgrade(job, destination.type):
        rows = tuple(replace(row, closed_until=now + 1) if row.type == destination.type else row for row in rows)
    return replace(job, rows=rows, destination=None, seek_deadline=None, closing=(*job.closing, destination))


def _abort(job: FloorJob, destination: Tenure, reason: ReturnReason) -> Iterator[Action]:
    yield ReturnDestination(destination.lease, job.id, reason)
    if _is_upgrade(job, destination.type):
        yield CoolDown(job.id, destination.type)


def _is_upgrade(job: FloorJob, type_id: int) -> bool:
    """Return whether the type stands above the one that the job runs on in its table."""
    return job.source is not None and job.rank(type_id) < job.rank(job.source.type)


def _deadlines(job: FloorJob, now: int) -> Iterator[int]:
    if job.source is not None and job.source.notice is not None:
        yield job.source.notice.deadline
    if job.destination is not None and job.seek_deadline is not None:
        yield job.seek_deadline
    if job.seeking and job.source is not None and job.destination is None:
        held = job.rank(job.source.type)
        yield from (row.closed_until for row in job.rows[: max(held, 0)] if row.closed_until > now)
