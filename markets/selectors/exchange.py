"""The exchange table: one row per accelerator type with price, supply and what waits. Public; no bid is in it."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from markets.models import Award, Notice, Quote
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Lease

STALE_AFTER = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """One type of one cluster as everybody may see it. Prices in micro-dollars per accelerator-hour.

    `price` is None until the first tick. `leaving` counts units under notice or closing.
    """

    type: AcceleratorType
    price: int | None
    lease_price: int | None
    since: datetime | None
    units_total: int
    units_free: int
    units_leaving: int
    waiting_awards: int

    @property
    def bid_needed(self) -> int:
        """The lowest bid that could win a unit now: the price where one is free, above it where none is."""
        price = self.price if self.price is not None else self.type.base_price_per_hour
        return price if self.units_free > 0 else min(price + 1, self.type.cap_price_per_hour)


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


def of(cluster: Cluster, *, now: datetime) -> Exchange:
    """The exchange of a cluster."""
    quotes = {quote.type_id: quote for quote in Quote.objects.filter(type__cluster=cluster, during__upper_inf=True)}
    total, free = _units(cluster)
    leaving = _leaving(cluster)
    waiting = Counter(
        Award.objects.filter(type__cluster=cluster, state=Award.State.WAITING).values_list("type_id", flat=True)
    )
    rows = tuple(
        _row(kind, quotes.get(kind.pk), total[kind.pk], free[kind.pk], leaving[kind.pk], waiting[kind.pk])
        for kind in AcceleratorType.objects.filter(cluster=cluster)
    )
    age = None if cluster.last_tick_at is None else now - cluster.last_tick_at
    return Exchange(
        cluster=cluster,
        rows=rows,
        as_of=cluster.last_tick_at,
        age_seconds=None if age is None else age.total_seconds(),
        is_stale=age is None or age > STALE_AFTER,
    )


def _row(kind: AcceleratorType, quote: Quote | None, total: int, free: int, leaving: int, waiting: int) -> ExchangeRow:
    return ExchangeRow(
        type=kind,
        price=None if quote is None else quote.price_per_hour,
        lease_price=None if quote is None else quote.lease_price_per_hour,
        since=None if quote is None else quote.during.lower,
        units_total=total,
        units_free=free,
        units_leaving=leaving,
        waiting_awards=waiting,
    )


def _units(cluster: Cluster) -> tuple[dict[int, int], dict[int, int]]:
    """Usable units, and those of them that nobody occupies, by type."""
    total: dict[int, int] = defaultdict(int)
    free: dict[int, int] = defaultdict(int)
    occupied = set(
        Lease.objects.filter(host__cluster=cluster)
        .exclude(state=Lease.State.CLOSED)
        .values_list("accelerator_id", flat=True)
    )
    usable = Accelerator.objects.filter(host__cluster=cluster, healthy=True, host__state=Host.State.READY)
    for pk, type_id in usable.values_list("pk", "type_id"):
        total[type_id] += 1
        free[type_id] += pk not in occupied
    return total, free


def _leaving(cluster: Cluster) -> dict[int, int]:
    closing = Lease.objects.filter(host__cluster=cluster, state=Lease.State.CLOSING).values_list("type_id", flat=True)
    told = Notice.objects.filter(lease__host__cluster=cluster, state=Notice.State.OPEN).exclude(
        lease__state=Lease.State.CLOSING
    )
    return Counter([*closing, *told.values_list("lease__type_id", flat=True)])
