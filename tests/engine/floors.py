"""Small floors written by hand: types 0, 1, 2 with base 10 and cap 100, instants in whole numbers."""

from dataclasses import replace

from markets.engine.floor import Floor, FloorJob, OpenNotice, TableRow, Tenure, TypeOffer, Unit, WaitingAward
from tests.engine.objects import floor as objects

NOTICE = 30


def row(type_id: int, bid: int | None, keep: int | None = None, *, at: int = 0, closed_until: int = 0) -> TableRow:
    return TableRow(type_id, bid, keep, at, closed_until)


def job(job_id: int, *rows: TableRow, tenant: int | None = None, **fields) -> FloorJob:
    """A job; on=unit and to=unit seat it on the unit of that number, notice=(reason, deadline) warns it."""
    source = _tenure(job_id * 10, fields.pop("on", None), rows)
    destination = _tenure(job_id * 10 + 1, fields.pop("to", None), rows)
    notice = fields.pop("notice", None)
    if source is not None and notice is not None:
        source = replace(source, notice=OpenNotice(job_id * 100, *notice))
    award = fields.pop("award", None)
    return FloorJob(
        job_id,
        job_id if tenant is None else tenant,
        rows,
        source,
        destination,
        award=None if award is None else WaitingAward(job_id * 1000, award, fields.pop("since", 0)),
        **fields,
    )


def _tenure(lease: int, seat: tuple[int, int] | None, rows: tuple[TableRow, ...]) -> Tenure | None:
    return None if seat is None else Tenure(lease, seat[0], seat[1], "active", 0)


def floor(units: list[int], *jobs: FloorJob, **fields) -> Floor:
    """A floor whose n-th unit is of the n-th type given; seats are (unit, type)."""
    return floor_values(units, *jobs, **fields).arrays()


def floor_values(
    units: list[int], *jobs: FloorJob, now: int = 0, broken: tuple[int, ...] = (), types: int = 3
) -> objects.Floor:
    """The same as values in tuples."""
    leases = {
        tenure.unit: tenure.lease
        for one in jobs
        for tenure in (one.source, one.destination, *one.closing)
        if tenure is not None
    }
    return objects.Floor(
        now,
        NOTICE,
        tuple(TypeOffer(type_id, 10, 100) for type_id in range(types)),
        tuple(Unit(n, type_id, n not in broken, leases.get(n)) for n, type_id in enumerate(units)),
        jobs,
    )
