"""From the floor to the book: what every job bids at this instant, and what it pays (MECHANISM section 2)."""

from collections import defaultdict
from collections.abc import Iterator

from markets.engine.book import Book, Offer, Participant, Row, participant_of, source_participant_of
from markets.engine.clearing import Clearing
from markets.engine.floor import Floor, FloorJob, TableRow, Tenure, TypeOffer


def book_as_it_stands(floor: Floor) -> Book:
    """Return the book of a floor on which every tenure counts."""
    supply: dict[int, int] = defaultdict(int)
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


def _participants(job: FloorJob, now: int, offers: dict[int, TypeOffer], usable: set[int]) -> Iterator[Participant]:
    """Yield the one or two participants of a job; rows of foreign types are left out."""
    source = job.source if job.source is not None and job.source.unit in usable else None
    if job.destination is not None:
        if source is not None:
            yield _holder(job, source_participant_of(job.id), source.type, offers)
        yield _holder(job, participant_of(job.id), job.destination.type, offers)
        return
    rows = _awake_rows(job, source, now)
    table = tuple(_row(row, offers[row.type], keep=keep) for row, keep in rows if row.type in offers)
    if source is not None or job.award is None:
        holds = source.type if source is not None else None
        yield Participant(participant_of(job.id), job.id, job.tenant, table, holds)
    else:
        yield Participant(participant_of(job.id), job.id, job.tenant, table, job.award.type, waits=True)


def _holder(job: FloorJob, participant: int, type_id: int, offers: dict[int, TypeOffer]) -> Participant:
    """Return the one-row participant for a unit that a job on two units sits on."""
    row = job.row(type_id)
    table = (_row(row, offers[type_id], keep=True),) if row is not None and type_id in offers else ()
    return Participant(participant, job.id, job.tenant, table, type_id)


def _awake_rows(job: FloorJob, source: Tenure | None, now: int) -> Iterator[tuple[TableRow, bool]]:
    """Yield the rows that take part, each with whether it bids its keep price."""
    held = job.rank(source.type) if source is not None else -1
    for place, row in enumerate(job.rows):
        if place >= held or (job.seeking and row.closed_until <= now):
            yield row, place == held


def _row(row: TableRow, offer: TypeOffer, *, keep: bool) -> Row:
    return Row(row.type, _stated(row, offer, keep=keep), row.accepted_at)


def _stated(row: TableRow, offer: TypeOffer, *, keep: bool) -> int:
    """Return the bid of a row, at its max price or its keep price, which counts as at least its max price.

    An agent may raise a max price above the keep price; a job that bid less to stay than to come would never rest.
    """
    if row.max_price is None:
        return offer.cap
    return max(row.max_price, row.keep_price) if keep and row.keep_price is not None else row.max_price


def own_bid(job: FloorJob, offer: TypeOffer) -> int:
    """Return the most a job pays where it sits: its keep price, at most the cap; the base price without a row."""
    row = job.row(offer.id)
    return offer.base if row is None else min(offer.cap, _stated(row, offer, keep=True))


def tenures(job: FloorJob) -> tuple[Tenure, ...]:
    """Return every lease of the job that occupies a unit."""
    own = tuple(tenure for tenure in (job.source, job.destination) if tenure is not None)
    return own + job.closing


def prices_paid(floor: Floor, clearing: Clearing) -> dict[int, int]:
    """Return what every occupied lease pays from now on: the lease price in force, never above its own bid there.

    Micro-dollars per hour by lease. Whether a lease is billed at all (only once active) is the applier's to know.
    """
    offers = {offer.id: offer for offer in floor.types}
    return {
        tenure.lease: min(clearing.prices[tenure.type].lease, own_bid(job, offers[tenure.type]))
        for job in floor.jobs
        for tenure in tenures(job)
    }
