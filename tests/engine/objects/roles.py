"""What a job is in the book besides its bids: where it sits, what it moves to or waits for, which rows are awake.

Bids change often and have a history of their own; roles change rarely. The two together are the whole book, so that a
receipt keeps the roles and finds the bids (MECHANISM section 3).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.engine.objects.book import Participant, Row, participant_of, source_participant_of
from tests.engine.objects.floor import FloorJob, TableRow, Tenure, TypeOffer


@dataclass(frozen=True, slots=True)
class Role:
    """Types by id. What does not matter to the book is left at its default, so that equal roles are equal.

    on: the type it runs on, where its unit is usable. to: the type it is moving to. award: the type it waits for, of
    a job that has no usable unit. seeks: a running job's rows above its own are awake, but for those closed.
    """

    on: int | None = None
    to: int | None = None
    award: int | None = None
    seeks: bool = False
    closed: tuple[int, ...] = ()


def role_of(job: FloorJob, now: int, usable: set[int]) -> Role:
    """Return the role of a job of the floor; `usable` holds the units that count."""
    source = job.source if job.source is not None and job.source.unit in usable else None
    if job.destination is not None:
        return Role(on=_type(source), to=job.destination.type)
    if source is None:
        return Role(award=None if job.award is None else job.award.type)
    if not job.seeking:
        return Role(on=source.type)
    above = job.rows[: max(job.rank(source.type), 0)]
    return Role(on=source.type, seeks=True, closed=tuple(sorted(row.type for row in above if row.closed_until > now)))


def participants(
    job: int, tenant: int, rows: Sequence[TableRow], role: Role, offers: Mapping[int, TypeOffer]
) -> Iterator[Participant]:
    """Yield the one or two participants of a job; rows of foreign types are left out."""
    if role.to is not None:
        if role.on is not None:
            yield _holder(source_participant_of(job), job, tenant, rows, role.on, offers)
        yield _holder(participant_of(job), job, tenant, rows, role.to, offers)
        return
    awake = _awake_rows(rows, role)
    table = tuple(_row(row, offers[row.type], keep=keep) for row, keep in awake if row.type in offers)
    if role.award is None:
        yield Participant(participant_of(job), job, tenant, table, role.on)
    else:
        yield Participant(participant_of(job), job, tenant, table, role.award, waits=True)


def stated(row: TableRow, offer: TypeOffer, *, keep: bool) -> int:
    """Return the bid of a row, at its max price or its keep price, which counts as at least its max price.

    An agent may raise a max price above the keep price; a job that bid less to stay than to come would never rest.
    """
    if row.max_price is None:
        return offer.cap
    return max(row.max_price, row.keep_price) if keep and row.keep_price is not None else row.max_price


def _type(tenure: Tenure | None) -> int | None:
    return None if tenure is None else tenure.type


def _holder(
    participant: int, job: int, tenant: int, rows: Sequence[TableRow], type_id: int, offers: Mapping[int, TypeOffer]
) -> Participant:
    """Return the one-row participant for a unit that a job on two units sits on."""
    row = next((row for row in rows if row.type == type_id), None)
    table = (_row(row, offers[type_id], keep=True),) if row is not None and type_id in offers else ()
    return Participant(participant, job, tenant, table, type_id)


def _awake_rows(rows: Sequence[TableRow], role: Role) -> Iterator[tuple[TableRow, bool]]:
    """Yield the rows that take part, each with whether it bids its keep price."""
    held = next((place for place, row in enumerate(rows) if row.type == role.on), -1)
    for place, row in enumerate(rows):
        if place >= held or (role.seeks and row.type not in role.closed):
            yield row, place == held


def _row(row: TableRow, offer: TypeOffer, *, keep: bool) -> Row:
    return Row(row.type, stated(row, offer, keep=keep), row.accepted_at)
