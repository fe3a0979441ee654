"""Writing launch tables. A change closes a row and opens one, so that history is kept and ties keep their order.

Bids are written without the cluster's lock: a tick reads them as of its own snapshot. Callers hold the jobs' locks.
One job's change is a change of many with one in it: one statement, whatever their number.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from laissez.errors import Fault, Invalid
from laissez.events import Outbox
from laissez.ids import new_ids
from laissez.prepared import run
from markets.engine.money import format_price, parse_price
from markets.models import Bid
from markets.selectors import rows as as_rows
from markets.selectors import tables
from markets.selectors.tables import OpenRow
from workers.models import AcceleratorType, Cluster, Job

CAP = "cap"
MAX_ROWS = 16


class TableRow(NamedTuple):
    """One row of a launch table as asked for. `max_price` None bids the cap; `keep_price` None is the maximum."""

    type: AcceleratorType
    max_price: int | None
    keep_price: int | None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A launch table as it is and as it is to be."""

    job: Job
    present: Sequence[OpenRow]
    wanted: Sequence[TableRow]

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return len(self.present) != len(self.wanted) or any(
            not _is_same(row, place, self.wanted[place]) for place, row in enumerate(self.present)
        )


def parse_table(
    rows: object, cluster: Cluster, *, at: str = "/rows", types: Mapping[str, AcceleratorType] | None = None
) -> list[TableRow]:
    """Check a launch table as submitted against its cluster.

    Args:
        rows: a list of objects with accelerator_type, max_price_per_hour and optionally keep_price_per_hour.
        at: the JSON pointer of the list, for the faults.
        types: the cluster's types by name, where the caller has read them.

    Raises:
        Invalid: with every fault, each naming its row and field.
    """
    if not isinstance(rows, list) or not rows:
        raise Invalid([Fault("empty_table", "The launch table has no row; give at least one accelerator type.", at)])
    if len(rows) > MAX_ROWS:
        raise Invalid([Fault("too_many_rows", f"The launch table has {len(rows)} rows; at most {MAX_ROWS} fit.", at)])
    if types is None:
        types = {row.slug: row for row in tables.types_in([cluster.pk]).values()}
    faults: list[Fault] = []
    seen: dict[str, int] = {}
    table = [
        row
        for place, given in enumerate(rows)
        if (row := _parse_row(given, f"{at}/{place}", place, cluster, types, seen, faults)) is not None
    ]
    if faults:
        raise Invalid(faults)
    return table


def _parse_row(
    given: object,
    at: str,
    place: int,
    cluster: Cluster,
    types: Mapping[str, AcceleratorType],
    seen: dict[str, int],
    faults: list[Fault],
) -> TableRow | None:
    if not isinstance(given, dict):
        faults.append(Fault("bad_row", f"Row {place + 1} is not an object with accelerator_type and prices.", at))
        return None
    slug = given.get("accelerator_type")
    found = types.get(slug) if isinstance(slug, str) else None
    if found is None:
        faults.append(_unknown_type(slug, place, at, cluster, types))
        return None
    if found.slug in seen:
        detail = f"Row {place + 1} repeats {found.slug}, which row {seen[found.slug] + 1} has; keep one of them."
        faults.append(Fault("repeated_type", detail, f"{at}/accelerator_type"))
        return None
    seen[found.slug] = place
    highest, ok = _price(given, "max_price_per_hour", place, at, faults, required=True)
    keep, keep_ok = _price(given, "keep_price_per_hour", place, at, faults, required=False)
    if not (ok and keep_ok):
        return None
    faults.extend(price_faults(found, highest, keep, place, at))
    return TableRow(type=found, max_price=highest, keep_price=keep)


def _unknown_type(slug: object, place: int, at: str, cluster: Cluster, types: Mapping[str, AcceleratorType]) -> Fault:
    known = ", ".join(sorted(types)) or "no types yet"
    if isinstance(slug, str) and AcceleratorType.objects.filter(slug=slug).exists():
        detail = f"Row {place + 1}: {slug} belongs to another cluster; {cluster.slug} has {known}."
        return Fault("foreign_type", detail, f"{at}/accelerator_type")
    detail = f"Row {place + 1}: {slug!r} is not an accelerator type; {cluster.slug} has {known}."
    return Fault("unknown_type", detail, f"{at}/accelerator_type")


def _price(
    given: Mapping[str, object], name: str, place: int, at: str, faults: list[Fault], *, required: bool
) -> tuple[int | None, bool]:
    """A price field as micro-dollars per hour; None for the word `cap`, and for an absent optional one."""
    value = given.get(name)
    if value is None and not required:
        return None, True
    if value == CAP and required:
        return None, True
    try:
        if not isinstance(value, str):
            raise ValueError(f'{value!r} is not a price in quotes, such as "0.687"')
        return parse_price(value), True
    except ValueError as error:
        faults.append(Fault("bad_price", f"Row {place + 1}, {name}: {error}.", f"{at}/{name}"))
        return None, False


def price_faults(found: AcceleratorType, highest: int | None, keep: int | None, place: int, at: str) -> list[Fault]:
    """What is wrong with the prices of the row at a place, of which `at` is the JSON pointer."""
    faults = []
    if highest is not None and highest < found.base_price_per_hour:
        detail = (
            f"Row {place + 1}: the maximum {format_price(highest)} for {found.slug} is under its base price "
            f"{format_price(found.base_price_per_hour)} per accelerator-hour and never wins; raise it or drop the row."
        )
        faults.append(Fault("max_under_base", detail, f"{at}/max_price_per_hour"))
    if keep is not None and (highest is None or keep < highest):
        detail = (
            f"Row {place + 1}: the keep price {format_price(keep)} is under the maximum "
            f"{'(the cap)' if highest is None else format_price(highest)}; it must be at least that, or left out."
        )
        faults.append(Fault("keep_under_max", detail, f"{at}/keep_price_per_hour"))
    return faults


def present_tables(jobs: Sequence[Job]) -> dict[int, list[OpenRow]]:
    """The open launch tables of jobs by the job's id."""
    types = tables.types_in({job.cluster_id for job in jobs})
    return tables.open_rows([job.pk for job in jobs], types)


def replace_table(job: Job, table: Sequence[TableRow], *, origin: Bid.Origin, outbox: Outbox) -> int:
    """Make one launch table exactly these rows; see `replace_tables`."""
    present = present_tables([job]).get(job.pk, ())
    (written,) = replace_tables([Rewrite(job, present, table)], origin=origin, outbox=outbox)
    return len(written.closed) + len(written.opened)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a launch table: the rows that left the book, those that entered it, and all that it has now."""

    job: Job
    closed: Sequence[OpenRow]
    opened: Sequence[OpenRow]
    table: Sequence[OpenRow]


def replace_tables(rewrites: Sequence[Rewrite], *, origin: Bid.Origin, outbox: Outbox) -> list[Written]:
    """Make launch tables exactly the wanted rows. A row whose value is unchanged keeps the moment it was accepted."""
    now = outbox.now()
    names = new_ids("bid", at_once=max(1, len(rewrites)))
    changes = [_change(rewrite, origin, now, names) for rewrite in rewrites]
    closed = [row for change in changes for row in change.closed]
    opened = [(change.job, row) for change in changes for row in change.opened]
    _replace(closed, opened, now)
    for change in changes:
        _tell(change.job, change.closed, "closed", outbox)
        _tell(change.job, change.opened, "opened", outbox)
    return changes


def change_prices(job: Job, prices: Mapping[str, int], *, origin: Bid.Origin, outbox: Outbox) -> int:
    """Give some rows of the launch table new maxima, by accelerator type; rows it does not name stay.

    A keep price below a new maximum falls away, so that keeping never bids less than taking.

    Returns:
        How many rows changed.

    Raises:
        Invalid: a named type is not in the launch table.
    """
    present = present_tables([job]).get(job.pk, [])
    unknown = set(prices) - {row.type.slug for row in present}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise Invalid([Fault("unknown_row", f"The launch table has no row for {names}.", "/bids")])
    table = [repriced(row, prices.get(row.type.slug, row.max_price_per_hour)) for row in present]
    (written,) = replace_tables([Rewrite(job, present, table)], origin=origin, outbox=outbox)
    return len(written.opened)


def repriced(row: OpenRow, highest: int | None) -> TableRow:
    """A row with a new maximum, None for the cap; its keep price falls away where that is less."""
    keep = row.keep_price_per_hour
    if keep is not None and (highest is None or keep < highest):
        keep = None
    return TableRow(type=row.type, max_price=highest, keep_price=keep)


def close_all(job: Job, *, outbox: Outbox) -> None:
    """Take a job out of the book for good."""
    present = present_tables([job]).get(job.pk, [])
    _replace(present, [], outbox.now())
    _tell(job, present, "closed", outbox)


def _change(rewrite: Rewrite, origin: Bid.Origin, now: datetime, names: Iterator[str]) -> Written:
    former = {row.type.id: row for row in rewrite.present}
    table, opened = [], []
    for place, wanted in enumerate(rewrite.wanted):
        row = former.get(wanted.type.id)
        if row is None or not _is_same(row, place, wanted):
            row = _new(wanted, next(names), place, origin, row, now)
            opened.append(row)
        else:
            del former[wanted.type.id]
        table.append(row)
    return Written(rewrite.job, list(former.values()), opened, table)


def _is_same(row: OpenRow, place: int, wanted: TableRow) -> bool:
    return (row.type.id, row.position, row.max_price_per_hour, row.keep_price_per_hour) == (
        wanted.type.id, place, wanted.max_price, wanted.keep_price,
    )  # fmt: skip


def _new(
    wanted: TableRow, public_id: str, place: int, origin: Bid.Origin, former: OpenRow | None, now: datetime
) -> OpenRow:
    keeps_its_moment = former is not None and former.max_price_per_hour == wanted.max_price
    return OpenRow(
        id=None,
        public_id=public_id,
        type=wanted.type,
        position=place,
        max_price_per_hour=wanted.max_price,
        keep_price_per_hour=wanted.keep_price,
        origin=origin.value,
        accepted_at=former.accepted_at if former is not None and keeps_its_moment else now,
    )


_REPLACE = """
    WITH closed AS (
        UPDATE markets_bid SET closed_at = %s, closed_in = pg_current_xact_id()::text::bigint
        WHERE id = ANY(%s::bigint[]) AND closed_at IS NULL RETURNING id
    )
    INSERT INTO markets_bid (
        public_id, cluster_id, job_id, type_id, "position", max_price_per_hour, keep_price_per_hour, origin,
        accepted_at, accelerator_count, opened_at
    )
    SELECT row.*, 1, %s
    FROM (SELECT count(*) FROM closed) AS first, unnest(
        %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::smallint[], %s::bigint[], %s::bigint[], %s::text[],
        %s::timestamptz[]
    ) AS row
"""
"""What leaves the book does so before anything enters it: the count is known when all of it has left."""


def _replace(closed: Sequence[OpenRow], opened: Sequence[tuple[Job, OpenRow]], now: datetime) -> None:
    if not closed and not opened:
        return
    figures = [
        (
            row.public_id, job.cluster_id, job.pk, row.type.pk, row.position, row.max_price_per_hour,
            row.keep_price_per_hour, row.origin, row.accepted_at,
        )
        for job, row in opened
    ]  # fmt: skip
    columns = [list(column) for column in zip(*figures, strict=True)] or [[] for _ in range(9)]
    run(_REPLACE, [now, [row.id for row in closed], now, *columns])


def _tell(job: Job, rows: Sequence[OpenRow], change: str, outbox: Outbox) -> None:
    for row in rows:
        outbox.add(f"job:{job.public_id}", f"org.laissez.market.bid.{change}.v1", row.public_id, as_rows.bid(row))
