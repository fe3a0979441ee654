"""Writing the launch table. A change closes a row and opens one, so that history is kept and ties keep their order.

Bids are written without the cluster's lock: a tick reads them as of its own snapshot. Callers hold the job's lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from laissez.errors import Fault, Invalid
from laissez.events import Outbox
from markets.engine.money import format_price, parse_price
from markets.models import Bid
from markets.selectors import rows as as_rows
from tenants.models import CurrentTransaction
from workers.models import AcceleratorType, Cluster, Job

CAP = "cap"
MAX_ROWS = 16


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a launch table as asked for. `max_price` None bids the cap; `keep_price` None is the maximum."""

    type: AcceleratorType
    max_price: int | None
    keep_price: int | None


def parse_table(rows: object, cluster: Cluster, *, at: str = "/rows") -> list[TableRow]:
    """Check a launch table as submitted against its cluster.

    Args:
        rows: a list of objects with accelerator_type, max_price_per_hour and optionally keep_price_per_hour.
        at: the JSON pointer of the list, for the faults.

    Raises:
        Invalid: with every fault, each naming its row and field.
    """
    if not isinstance(rows, list) or not rows:
        raise Invalid([Fault("empty_table", "The launch table has no row; give at least one accelerator type.", at)])
    if len(rows) > MAX_ROWS:
        raise Invalid([Fault("too_many_rows", f"The launch table has {len(rows)} rows; at most {MAX_ROWS} fit.", at)])
    types = {row.slug: row for row in AcceleratorType.objects.filter(cluster=cluster)}
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
    faults.extend(_price_faults(found, highest, keep, place, at))
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


def _price_faults(found: AcceleratorType, highest: int | None, keep: int | None, place: int, at: str) -> list[Fault]:
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


def replace_table(job: Job, table: Sequence[TableRow], *, origin: Bid.Origin, outbox: Outbox) -> int:
    """Make the launch table exactly these rows. A row whose value is unchanged keeps the moment it was accepted.

    Returns:
        How many rows were closed or opened.
    """
    now = outbox.now()
    present = {bid.type_id: bid for bid in _open(job)}
    wanted = {row.type.pk: (place, row) for place, row in enumerate(table)}
    leaving = [bid for type_id, bid in present.items() if not _is_same(bid, wanted.get(type_id))]
    _close(job, leaving, outbox)
    kept = {bid.type_id for bid in present.values()} - {bid.type_id for bid in leaving}
    opened = [
        _new(job, row, place, origin, _accepted(present.get(type_id), row, now), now)
        for type_id, (place, row) in wanted.items()
        if type_id not in kept
    ]
    Bid.objects.bulk_create(opened)
    _tell(job, opened, "opened", outbox)
    return len(leaving) + len(opened)


def change_prices(job: Job, prices: Mapping[str, int], *, origin: Bid.Origin, outbox: Outbox) -> int:
    """Give some rows of the launch table new maxima, by accelerator type; rows it does not name stay.

    A keep price below a new maximum falls away, so that keeping never bids less than taking.

    Returns:
        How many rows changed.

    Raises:
        Invalid: a named type is not in the launch table.
    """
    table = []
    unknown = set(prices)
    for bid in _open(job):
        unknown.discard(bid.type.slug)
        highest = prices.get(bid.type.slug, bid.max_price_per_hour)
        keep = bid.keep_price_per_hour
        if keep is not None and (highest is None or keep < highest):
            keep = None
        table.append(TableRow(type=bid.type, max_price=highest, keep_price=keep))
    if unknown:
        names = ", ".join(sorted(unknown))
        raise Invalid([Fault("unknown_row", f"The launch table has no row for {names}.", "/bids")])
    return replace_table(job, table, origin=origin, outbox=outbox) // 2


def close_all(job: Job, *, outbox: Outbox) -> None:
    """Take a job out of the book for good."""
    _close(job, _open(job), outbox)


def _open(job: Job) -> list[Bid]:
    return list(Bid.objects.filter(job=job, closed_at=None).select_related("type").order_by("position"))


def _close(job: Job, rows: Sequence[Bid], outbox: Outbox) -> None:
    if rows:
        Bid.objects.filter(pk__in=[bid.pk for bid in rows], closed_at=None).update(
            closed_at=outbox.now(), closed_in=CurrentTransaction()
        )
        _tell(job, rows, "closed", outbox)


def _tell(job: Job, rows: Sequence[Bid], change: str, outbox: Outbox) -> None:
    for bid in rows:
        outbox.add(f"job:{job.public_id}", f"org.laissez.market.bid.{change}.v1", bid.public_id, as_rows.bid(bid))


def _is_same(bid: Bid, wanted: tuple[int, TableRow] | None) -> bool:
    if wanted is None:
        return False
    place, row = wanted
    return (bid.position, bid.max_price_per_hour, bid.keep_price_per_hour) == (place, row.max_price, row.keep_price)


def _accepted(former: Bid | None, row: TableRow, now: datetime) -> datetime:
    unchanged = former is not None and former.max_price_per_hour == row.max_price
    return former.accepted_at if former is not None and unchanged else now


def _new(job: Job, row: TableRow, place: int, origin: Bid.Origin, accepted_at: datetime, now: datetime) -> Bid:
    return Bid(
        cluster_id=job.cluster_id,
        job=job,
        type=row.type,
        position=place,
        max_price_per_hour=row.max_price,
        keep_price_per_hour=row.keep_price,
        origin=origin,
        accepted_at=accepted_at,
        opened_at=now,
    )
