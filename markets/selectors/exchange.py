"""The exchange table: one row per accelerator type with price, supply and what waits. Public; no bid is in it.

Everything shown was written by the last tick: the open quote, and the supply beside it. `public` is the one form in
which events, snapshots and the API give a row away.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from laissez.clock import rfc3339
from laissez.prepared import run
from laissez.records import Reading
from markets.engine.money import format_price
from markets.models import Clearing, PriceChange, Quote, Supply
from markets.selectors import prices
from markets.selectors.prices import Trend
from workers.models import AcceleratorType, Cluster

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


_OF_TYPES = "WHERE row.type_id = ANY (%s::bigint[])"
_TYPES = Reading(AcceleratorType, rest='WHERE row.cluster_id = %s ORDER BY row."position", row.id')
_QUOTES = Reading(Quote, rest=f"{_OF_TYPES} AND upper_inf(row.during)")
_CLEARINGS = Reading(Clearing, rest="WHERE row.id = ANY (%s::bigint[])")
_SUPPLIES = Reading(Supply, rest=_OF_TYPES)
_SCHEDULED = Reading(PriceChange, rest=f"{_OF_TYPES} AND row.state = 'scheduled' ORDER BY row.effective_at, row.id")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the rows of a cluster's table are made of, by type: types as in `types_of`, open quotes, and supply."""

    types: Mapping[int, AcceleratorType]
    quotes: Mapping[int, Quote]
    supplies: Mapping[int, Supply]

    @classmethod
    def of(cls, cluster: Cluster) -> "Parts":
        """Read them."""
        types = types_of(cluster)
        quotes = {quote.type_id: quote for quote in _QUOTES(list(types))}
        named = {quote.clearing_id for quote in quotes.values()} - {None}
        clearings = {clearing.pk: clearing for clearing in _CLEARINGS(list(named))}  # few, with long receipts
        for quote in quotes.values():
            if quote.clearing_id is not None:
                quote.clearing = clearings[quote.clearing_id]
        return cls(types, quotes, {supply.type_id: supply for supply in _SUPPLIES(list(types))})

    def rows(
        self, *, announced: Mapping[int, Sequence[PriceChange]] | None = None, trends: Mapping[int, Trend] | None = None
    ) -> dict[int, ExchangeRow]:
        """Every row by type, in the order of the pages, with what is given of announced changes and trends."""
        return {
            type_id: _row(
                kind,
                self.quotes.get(type_id),
                self.supplies.get(type_id) or Supply(type=kind),
                tuple((announced or {}).get(type_id, ())),
                (trends or {}).get(type_id),
            )
            for type_id, kind in self.types.items()
        }


def types_of(cluster: Cluster) -> dict[int, AcceleratorType]:
    """The types of a cluster, in the order of its pages."""
    types = {kind.pk: kind for kind in _TYPES(cluster.pk)}
    for kind in types.values():
        kind.cluster = cluster  # whoever tells of a row names it
    return types


def rows_of(cluster: Cluster, *, trends: Mapping[int, Trend] | None = None) -> dict[int, ExchangeRow]:
    """Every row of a cluster's table by type, in the order of its pages."""
    parts = Parts.of(cluster)
    return parts.rows(announced=_announced(parts.types), trends=trends)


def _announced(types: Mapping[int, AcceleratorType]) -> Mapping[int, Sequence[PriceChange]]:
    """The price changes to come, by type, the next one first."""
    announced: dict[int, list[PriceChange]] = defaultdict(list)
    for change in _SCHEDULED(list(types)):
        change.type = types[change.type_id]
        announced[change.type_id].append(change)
    return announced


def _row(
    kind: AcceleratorType, quote: Quote | None, supply: Supply, announced: tuple[PriceChange, ...], trend: Trend | None
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
        receipt=None if quote is None or quote.clearing is None else quote.clearing.number,
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


_LEAVING_AND_WAITING = """
    SELECT it.type_id, sum(it.leaving)::bigint, sum(it.waiting)::bigint FROM (
        SELECT type_id, 1 AS leaving, 0 AS waiting FROM workers_lease WHERE state = 'closing'
        UNION ALL
        SELECT lease.type_id, 1, 0
        FROM markets_notice AS notice JOIN workers_lease AS lease ON lease.id = notice.lease_id
        WHERE notice.state = 'open' AND lease.state <> 'closing'
        UNION ALL
        SELECT type_id, 0, 1 FROM markets_award WHERE state = 'waiting'
    ) AS it WHERE it.type_id = ANY(%s::bigint[]) GROUP BY it.type_id
"""


def leaving_and_waiting(types: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Count, of types that have any, the units under notice or closing, and the awards that wait."""
    return {type_id: (leaving, waiting) for type_id, leaving, waiting in run(_LEAVING_AND_WAITING, [list(types)])}


def _price(value: int | None) -> str | None:
    return None if value is None else format_price(value)
