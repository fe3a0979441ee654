"""From the floor to the book, and from the clearing to what has to happen on the floor.

Pure and shared: the live scheduler calls `plan` on a snapshot read under the cluster's lock, the simulator on its own
memory with a virtual clock. Nothing is reserved: the whole book is cleared afresh, and awards and notices are the
differences between what the clearing says and who sits where.

`plan` is idempotent: applying it and planning again at the same instant asks only for what has become possible since.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from markets.engine.actions import (
    MARKET_REASONS,
    Action,
    CloseAward,
    CoolDown,
    ExecuteNotice,
    GiveNotice,
    HandOver,
    LapseMove,
    NoticeReason,
    OpenAward,
    ReturnDestination,
    WithdrawNotice,
)
from tests.engine.objects.bidding import book_as_it_stands, own_bid, prices_paid, roles_as_they_stand, tenures
from tests.engine.objects.book import Book, participant_of, source_participant_of
from tests.engine.objects.clearing import RULES, Clearing
from tests.engine.objects.deadlines import (
    COOL_DOWN_US,
    abort,
    cool_down,
    is_upgrade,
    next_deadline,
    without_spent_destinations,
)
from tests.engine.objects.floor import Floor, FloorJob, Tenure, Unit
from tests.engine.objects.roles import Role

__all__ = [
    "COOL_DOWN_US",
    "MARKET_REASONS",
    "Action",
    "CloseAward",
    "CoolDown",
    "ExecuteNotice",
    "GiveNotice",
    "HandOver",
    "LapseMove",
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
    "roles_of",
]

LEASES_PER_JOB = 2
_Fate: TypeAlias = Literal["kept", "outgrown"] | NoticeReason
"""Of the unit a job runs on: it keeps it, it has won a better row, or why it loses it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A clearing of the whole book and the actions that bring the floor towards it, in the order to apply them."""

    clearing: Clearing
    actions: tuple[Action, ...]
    book: Book


def book_of(floor: Floor) -> Book:
    """Return the book that the floor puts forward at this instant (MECHANISM section 2)."""
    return book_as_it_stands(without_spent_destinations(floor)[0])


def roles_of(floor: Floor) -> dict[int, Role]:
    """Return what every job is in that book besides its bids, by job."""
    return roles_as_they_stand(without_spent_destinations(floor)[0])


def plan(floor: Floor, rule: str = "launch_table") -> Plan:
    """Clear the book by the named rule and say what has to happen (MECHANISM section 3)."""
    present, returned = without_spent_destinations(floor)
    book = book_as_it_stands(present)
    clearing = RULES[rule](book)
    return Plan(clearing, (*returned, *_Planner(present, clearing).actions()), book)


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


class _Planner:
    """One plan in the making: a present floor, its clearing, and what they leave of every type."""

    def __init__(self, floor: Floor, clearing: Clearing) -> None:
        self.floor = floor
        self.clearing = clearing
        self.offers = {offer.id: offer for offer in floor.types}
        self.usable = {unit.id for unit in floor.units if unit.usable}
        self.free = _free_units(floor.units)
        self.fates = {job.id: self._fate(job, job.source) for job in floor.jobs if job.source is not None}
        self.waiting: dict[int, list[_Win]] = defaultdict(list)
        self.staying: set[int] = set()
        self.leaving: dict[int, int] = defaultdict(int)

    def actions(self) -> Iterator[Action]:
        """Yield destinations given back, awards, hand-overs, then notices: each reads what the one before left."""
        for job in self.floor.jobs:
            yield from self._destination(job)
        self._count_leavers()
        for job in self.floor.jobs:
            yield from self._award(job)
        yield from self._hand_overs()
        yield from self._notices()

    def _assigned(self, job: FloorJob) -> int | None:
        return self.clearing.assignment[participant_of(job.id)]

    def _fate(self, job: FloorJob, source: Tenure) -> _Fate:
        """Return what the clearing means for the unit that the job runs on."""
        if source.unit not in self.usable:
            return "drained"
        assigned = self._assigned(job)
        if job.destination is not None:
            assigned = self.clearing.assignment[source_participant_of(job.id)]
        if assigned == source.type:
            return "kept"
        if assigned is not None and is_upgrade(job, assigned):
            return "outgrown"
        offer = self.offers[source.type]
        return "below_base" if own_bid(job, offer) < offer.base else "outbid"

    def _destination(self, job: FloorJob) -> Iterator[Action]:
        """Abort a migration whose destination is lost, or was a fall-back that is not needed any more."""
        source, destination = job.source, job.destination
        if source is None or destination is None:
            return
        if self._assigned(job) is None:
            yield from abort(job, destination, "lost")
        elif not job.leaving and not is_upgrade(job, destination.type) and self.fates[job.id] == "kept":
            yield ReturnDestination(destination.lease, job.id, "not_needed")
        else:
            self.staying.add(destination.lease)

    def _count_leavers(self) -> None:
        """Count the occupied units that become free whether or not anybody claims them.

        Whoever is not a source or a destination that stays is leaving, leases of finished jobs among them.
        """
        for job in self.floor.jobs:
            if job.source is not None and self.fates[job.id] in ("kept", "outgrown"):
                self.staying.add(job.source.lease)
        for unit in self.floor.units:
            if unit.usable and unit.lease is not None and unit.lease not in self.staying:
                self.leaving[unit.type] += 1

    def _award(self, job: FloorJob) -> Iterator[Action]:
        """Close the award that the clearing does not repeat, open the one it makes, and note who waits."""
        wins = self._win(job)
        award = job.award
        if award is not None and award.type != wins:
            yield CloseAward(award.id, job.id)
            if is_upgrade(job, award.type) and (wins is None or job.rank(wins) > job.rank(award.type)):
                yield CoolDown(job.id, award.type)
        if wins is None:
            return
        if award is not None and award.type == wins:
            self.waiting[wins].append(_Win(award.since, job.id, award.id, _room(job)))
        else:
            yield OpenAward(job.id, wins)
            self.waiting[wins].append(_Win(self.floor.now, job.id, None, _room(job)))

    def _win(self, job: FloorJob) -> int | None:
        """Return the type that the job is assigned and does not sit on."""
        if job.destination is not None or self.fates.get(job.id) == "kept":
            return None
        return self._assigned(job)

    def _hand_overs(self) -> Iterator[Action]:
        """Give free units to the earliest awards of their type whose jobs have room for one more lease."""
        for type_id in sorted(self.waiting):
            free = self.free[type_id]
            still_waiting = []
            for win in sorted(self.waiting[type_id]):
                if free and win.has_room:
                    yield HandOver(win.job, type_id, free.pop(), win.award)
                else:
                    still_waiting.append(win)
            self.waiting[type_id] = still_waiting

    def _notices(self) -> Iterator[Action]:
        """Give, withdraw and execute notices; a wish to leave lapses where there is nothing to leave for."""
        claimed = self._claimed()
        for job in self.floor.jobs:
            source = job.source
            if source is None:
                continue
            fate = self.fates[job.id]
            if fate == "kept" and job.leaving and job.destination is None:
                yield LapseMove(job.id)
            yield from self._notice(job, source, _grounds(fate, claimed=source.lease in claimed))

    def _notice(self, job: FloorJob, source: Tenure, reason: NoticeReason | None) -> Iterator[Action]:
        notice = source.notice
        if notice is None:
            if reason is not None:
                yield GiveNotice(source.lease, job.id, reason, self.floor.now + self.floor.notice_us)
        elif reason is None and notice.reason in MARKET_REASONS:
            yield WithdrawNotice(notice.id, source.lease, job.id)
        elif notice.deadline <= self.floor.now:
            yield ExecuteNotice(notice.id, source.lease, job.id)

    def _claimed(self) -> set[int]:
        """Return the leases of winners of a better row whose units are needed by waiting awards.

        Those already under notice come first, so that a notice does not wander, then the lowest bids.
        """
        leavers: dict[int, list[tuple[bool, int, int, int]]] = defaultdict(list)
        for job in self.floor.jobs:
            source = job.source
            if source is not None and self.fates[job.id] == "outgrown":
                bid = own_bid(job, self.offers[source.type])
                leavers[source.type].append((source.notice is None, bid, -job.id, source.lease))
        return {
            lease
            for type_id, candidates in leavers.items()
            for *_, lease in sorted(candidates)[: self._needed(type_id)]
        }

    def _needed(self, type_id: int) -> int:
        """Return how many more units of a type its waiting awards need than are free or leaving."""
        return max(0, len(self.waiting[type_id]) - len(self.free[type_id]) - self.leaving[type_id])


@dataclass(frozen=True, slots=True, order=True)
class _Win:
    """An award in line for a unit, ordered by since when it waits, then by job."""

    since: int
    job: int
    award: int | None
    has_room: bool


def _grounds(fate: _Fate, *, claimed: bool) -> NoticeReason | None:
    """Return for what a job with this fate is to be under notice, if at all."""
    if fate == "outgrown":
        return "claimed" if claimed else None
    return None if fate == "kept" else fate


def _room(job: FloorJob) -> bool:
    """Return whether the job may occupy one more unit."""
    return len(tenures(job)) < LEASES_PER_JOB


def _free_units(units: Iterable[Unit]) -> dict[int, list[int]]:
    """Return the unoccupied usable units by type, the lowest id last."""
    free: dict[int, list[int]] = defaultdict(list)
    for unit in sorted(units, key=lambda unit: -unit.id):
        if unit.usable and unit.lease is None:
            free[unit.type].append(unit.id)
    return free
