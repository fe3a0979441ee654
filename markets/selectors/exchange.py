"""The exchange table: one row per accelerator type with price, supply and what waits. Public; no bid is in it.

Everything shown was written by the last tick: the open quote, and the supply beside it. `public` is the one form in
which events, snapshots and the API give a row away.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, QuerySet

from laissez.clock import rfc3339
from laissez.prepared import run
from laissez.records import Reading, columns, instance, width
from markets.engine.money import format_price
from markets.models import Award, Notice, PriceChange, Quote, Supply
from markets.selectors import prices
from markets.selectors.prices import Trend
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Lease

STALE_AFTER = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """One type of one cluster as everybody may see it. Prices in micro-dollars per accelerator-hour.

    `price` is None until the first tick, `previous_price` until the price has moved. `since` is the moment of that
    move. `leaving` counts units under notice or closing. `depth` counts losing bids by their distance below the price:
    within 1, 5, 10 and 25 %, and further. `announced` are the price changes to come, the next one first.
    """

    type: AcceleratorType
    price: int | None
    lease_price: int | None
    since: datetime | None
    units_total: int
    units_free: int
    units_leaving: int
    waiting_awards: int
    base_price: int
    cap_price: int
    previous_price: int | None = None
    cause: str | None = None
    receipt: int | None = None
    depth: tuple[int, ...] = (0, 0, 0, 0, 0)
    announced: tuple[PriceChange, ...] = ()
    trend: Trend | None = None

    @property
    def bid_needed(self) -> int:
        """The lowest bid that could win a unit now: the price where one is free, above it where none is."""
        price = self.price if self.price is not None else self.base_price
        return price if self.units_free > 0 else min(price + 1, self.cap_price)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A cluster's table with its age. Stale: no tick for three intervals, so the prices are frozen."""

    cluster: Cluster
    rows: tuple[ExchangeRow, ...]
    as_of: datetime | None
    age_seconds: float | None
    is_stale: bool

    def row(self, slug: str) -> ExchangeRow | None:
        """The row of a type by its name."""
        return next((row for row in self.rows if row.type.slug == slug), None)


def of(cluster: Cluster, *, now: datetime, with_trends: bool = False) -> Exchange:
    """The exchange of a cluster.

    Args:
        with_trends: read the last day too, for the change over it and the sparklines: one query more.
    """
    trends = prices.trends(cluster, now=now) if with_trends else {}
    age = None if cluster.last_tick_at is None else now - cluster.last_tick_at
    return Exchange(
        cluster=cluster,
        rows=tuple(rows_of(cluster, trends=trends).values()),
        as_of=cluster.last_tick_at,
        age_seconds=None if age is None else age.total_seconds(),
        is_stale=age is None or age > STALE_AFTER,
    )


def rows_of(cluster: Cluster, *, trends: Mapping[int, Trend] | None = None) -> dict[int, ExchangeRow]:
    """Every row of a cluster's table by type, in the order of its pages."""
    announced: dict[int, list[PriceChange]] = defaultdict(list)
    for change in _ANNOUNCED(cluster.pk):
        announced[change.type_id].append(change)
    rows, ends = {}, (width(AcceleratorType), width(AcceleratorType) + width(Quote))
    for values in run(_ROWS, [cluster.pk]):
        kind, of_quote, of_supply = (values[slice(*each)] for each in ((0, ends[0]), ends, (ends[1], -1)))
        row = instance(AcceleratorType, kind)
        row.cluster = cluster  # whoever tells of a row names it
        rows[row.pk] = _row(
            row,
            instance(Quote, of_quote) if of_quote[0] is not None else None,
            instance(Supply, of_supply) if of_supply[0] is not None else Supply(type=row),
            values[-1],
            tuple(announced[row.pk]),
            (trends or {}).get(row.pk),
        )
    return rows


_ROWS = f"""
    SELECT {columns(AcceleratorType, "type")}, {columns(Quote, "quote")}, {columns(Supply, "supply")}, clearing.number
    FROM workers_acceleratortype AS type
    LEFT JOIN markets_quote AS quote ON quote.type_id = type.id AND upper_inf(quote.during)
    LEFT JOIN markets_supply AS supply ON supply.type_id = type.id
    LEFT JOIN markets_clearing AS clearing ON clearing.id = quote.clearing_id
    WHERE type.cluster_id = %s ORDER BY type."position", type.id
"""  # noqa: S608 - names of our own columns
_ANNOUNCED = Reading(
    PriceChange,
    "type",
    rest="WHERE type.cluster_id = %s AND row.state = 'scheduled' ORDER BY row.effective_at, row.id",
)


def _row(
    kind: AcceleratorType,
    quote: Quote | None,
    supply: Supply,
    receipt: int | None,
    announced: tuple[PriceChange, ...],
    trend: Trend | None,
) -> ExchangeRow:
    in_force: Quote | AcceleratorType = kind if quote is None else quote
    return ExchangeRow(
        type=kind,
        price=None if quote is None else quote.price_per_hour,
        lease_price=None if quote is None else quote.lease_price_per_hour,
        since=None if quote is None else quote.priced_at or quote.during.lower,
        units_total=supply.units_total,
        units_free=supply.units_free,
        units_leaving=supply.units_leaving,
        waiting_awards=supply.waiting_awards,
        base_price=in_force.base_price_per_hour,
        cap_price=in_force.cap_price_per_hour,
        previous_price=None if quote is None else quote.previous_price_per_hour,
        cause=None if quote is None else quote.cause,
        receipt=receipt,
        depth=tuple(supply.depth),
        announced=announced,
        trend=trend,
    )


def public(row: ExchangeRow) -> dict[str, Any]:
    """A row as JSON: the form of the feed's entity `exchange`, of its snapshot and of the API."""
    return {
        "accelerator_type": row.type.slug,
        "name": row.type.name,
        "price_per_hour": _price(row.price),
        "lease_price_per_hour": _price(row.lease_price),
        "base_price_per_hour": format_price(row.base_price),
        "cap_price_per_hour": format_price(row.cap_price),
        "previous_price_per_hour": _price(row.previous_price),
        "since": None if row.since is None else rfc3339(row.since),
        "cause": row.cause,
        "receipt": row.receipt,
        "units_total": row.units_total,
        "units_free": row.units_free,
        "units_leaving": row.units_leaving,
        "waiting_awards": row.waiting_awards,
        "depth": list(row.depth),
    }


def public_change(change: PriceChange) -> dict[str, Any]:
    """An announced price change as JSON: the form of the feed's entity `price_change`, and of the API."""
    return {
        "price_change": change.public_id,
        "accelerator_type": change.type.slug,
        "base_price_per_hour": format_price(change.base_price_per_hour),
        "cap_price_per_hour": format_price(change.cap_price_per_hour),
        "effective_at": rfc3339(change.effective_at),
        "policy": "fixed",
        "reason_class": str(change.reason_class),
        "state": str(change.state),
    }


def public_cluster(cluster: Cluster) -> dict[str, Any]:
    """A cluster as JSON: the form of the feed's entity `cluster`."""
    return {"cluster": cluster.slug, "name": cluster.name}


def entities(cluster: Cluster) -> dict[str, dict[str, dict[str, Any]]]:
    """The whole public state of a market: what the events of its stream add up to, by entity and subject."""
    rows = rows_of(cluster).values()
    return {
        "cluster": {cluster.slug: public_cluster(cluster)},
        "exchange": {row.type.slug: public(row) for row in rows},
        "price_change": {change.public_id: public_change(change) for row in rows for change in row.announced},
    }


@dataclass(slots=True)
class Units:
    """What there is of one type at this instant."""

    total: int = 0
    free: int = 0
    leaving: int = 0
    waiting: int = 0


def units_now(cluster: Cluster) -> Mapping[int, Units]:
    """Count units and awards of a cluster afresh, by type: for the tick, which writes down what it leaves behind."""
    found: dict[int, Units] = defaultdict(Units)
    usable = Accelerator.objects.filter(host__cluster=cluster, healthy=True, host__state=Host.State.READY)
    taken = _by_type(usable.filter(pk__in=_occupied(cluster)), "type_id")
    for type_id, total in _by_type(usable, "type_id").items():
        found[type_id].total, found[type_id].free = total, total - taken[type_id]
    for type_id, leaving in _leaving(cluster).items():
        found[type_id].leaving = leaving
    awards = Award.objects.filter(type__cluster=cluster, state=Award.State.WAITING)
    for type_id, waiting in _by_type(awards, "type_id").items():
        found[type_id].waiting = waiting
    return found


def _occupied(cluster: Cluster) -> QuerySet[Any, int]:
    """The accelerators with a lease that is not closed, for a subquery."""
    open_leases = Lease.objects.filter(host__cluster=cluster).exclude(state=Lease.State.CLOSED)
    return open_leases.values_list("accelerator_id", flat=True)


def _leaving(cluster: Cluster) -> Counter[int]:
    closing = Lease.objects.filter(host__cluster=cluster, state=Lease.State.CLOSING)
    told = Notice.objects.filter(lease__host__cluster=cluster, state=Notice.State.OPEN).exclude(
        lease__state=Lease.State.CLOSING
    )
    return _by_type(closing, "type_id") + _by_type(told, "lease__type_id")


def _by_type(rows: QuerySet[Any], type_: str) -> Counter[int]:
    return Counter(dict(rows.order_by().values_list(type_).annotate(Count("pk"))))


def _price(value: int | None) -> str | None:
    return None if value is None else format_price(value)
