"""The price setter's rows: a clearing with its receipt and roles, quotes whose terms have moved, and the supply."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime

from django.contrib.postgres.fields import DateTimeRangeField
from django.db.models import F, Func, Value
from psycopg.types.range import TimestamptzRange

from laissez.bulk import copy_in
from laissez.events import Outbox
from markets.engine.clearing import Clearing as EngineClearing
from markets.engine.depth import depth
from markets.engine.dynamics import Plan
from markets.models import Clearing, Quote, Supply
from markets.selectors import exchange
from markets.selectors.floor import Snapshot
from markets.selectors.receipts import RULE_VERSION, hash_of, receipts_of
from markets.selectors.roles import to_keep
from markets.services import roles
from markets.services.telling import tell_changes
from workers.models import AcceleratorType, Cluster


def moved(cluster: Cluster, clearing: EngineClearing, per_mille: int) -> set[int]:
    """Types whose public price differs from the present quote by more than so many thousandths."""
    present = _present(cluster)
    return {
        type_id
        for type_id, price in clearing.prices.items()
        if (quote := present.get(type_id)) is not None
        and abs(price.public - quote.price_per_hour) * 1000 > per_mille * quote.price_per_hour
    }


def write(cluster: Cluster, snapshot: Snapshot, decided: Plan, *, acted: bool, outbox: Outbox) -> Clearing | None:
    """Record what a clearing has changed, and tell of it. One that changed nothing leaves no trace.

    Args:
        acted: whether the work scheduler has done anything, which is a change too.
    """
    before = exchange.rows_of(cluster)
    clearing = _write_quotes(cluster, snapshot, decided, acted=acted, outbox=outbox)
    _write_supply(cluster, decided)
    tell_changes(cluster, before, outbox)
    return clearing


def _write_quotes(
    cluster: Cluster, snapshot: Snapshot, decided: Plan, *, acted: bool, outbox: Outbox
) -> Clearing | None:
    present = _present(cluster)
    types = {row.pk: row for row in AcceleratorType.objects.filter(cluster=cluster)}
    offers = decided.book.offers
    supplies = dict(zip(offers["type"].tolist(), offers["supply"].tolist(), strict=True))
    fresh = [
        quote
        for type_id, row in sorted(types.items())
        if (quote := _quote(row, decided.clearing, supplies.get(type_id, 0), present.get(type_id))) is not None
    ]
    if not fresh and not acted:
        return None
    clearing = _record(cluster, snapshot, decided, types, outbox.now())
    _replace(fresh, present, clearing, outbox.now())
    return clearing


_COUNTS = ("units_total", "units_free", "units_leaving", "waiting_awards", "depth")


def _write_supply(cluster: Cluster, decided: Plan) -> None:
    """What the tick leaves behind of every type; hosts may have taken or given units since the floor was read."""
    units = exchange.units_now(cluster)
    present = {row.type_id: row for row in Supply.objects.filter(type__cluster=cluster)}
    rows = [
        Supply(
            type_id=type_id,
            units_total=units[type_id].total,
            units_free=units[type_id].free,
            units_leaving=units[type_id].leaving,
            waiting_awards=units[type_id].waiting,
            depth=list(counts),
        )
        for type_id, counts in depth(decided.clearing).items()
    ]
    Supply.objects.bulk_create(
        (row for row in rows if row.type_id not in present or _units(present[row.type_id]) != _units(row)),
        update_conflicts=True,
        unique_fields=["type"],
        update_fields=_COUNTS,
    )


def _units(row: Supply) -> tuple[object, ...]:
    return (row.units_total, row.units_free, row.units_leaving, row.waiting_awards, tuple(row.depth))


def _present(cluster: Cluster) -> dict[int, Quote]:
    rows = Quote.objects.filter(type__cluster=cluster, during__upper_inf=True)
    return {row.type_id: row for row in rows}


def _quote(row: AcceleratorType, clearing: EngineClearing, supply: int, present: Quote | None) -> Quote | None:
    """The quote that the clearing asks for; None where the present one says the same."""
    price = clearing.prices[row.pk]
    quote = Quote(
        type=row,
        price_per_hour=price.public,
        lease_price_per_hour=price.lease,
        base_price_per_hour=row.base_price_per_hour,
        cap_price_per_hour=row.cap_price_per_hour,
        supply=supply,
        cause=_cause(row, supply, present),
    )
    return None if present is not None and _terms(present) == _terms(quote) else quote


def _terms(quote: Quote) -> tuple[int, int, int, int, int]:
    return (
        quote.price_per_hour,
        quote.lease_price_per_hour,
        quote.base_price_per_hour,
        quote.cap_price_per_hour,
        quote.supply,
    )


def _cause(row: AcceleratorType, supply: int, present: Quote | None) -> str:
    if present is None:
        return "opened"
    if present.base_price_per_hour != row.base_price_per_hour:
        return "base"
    if present.cap_price_per_hour != row.cap_price_per_hour:
        return "cap"
    return "supply" if present.supply != supply else "bids"


def _record(
    cluster: Cluster, snapshot: Snapshot, decided: Plan, types: Mapping[int, AcceleratorType], now: datetime
) -> Clearing:
    salt = secrets.token_hex(16)
    number = cluster.tick_number + 1
    roles.keep(cluster, number, to_keep(snapshot.floor, snapshot.absent, decided.roles))
    return Clearing.objects.create(
        cluster=cluster,
        number=number,
        keeps_roles=True,
        at=now,
        rule=cluster.rule,
        rule_version=RULE_VERSION,
        watermark=snapshot.watermark,
        salt=salt,
        book_hash=hash_of(salt, decided.book),
        receipt=receipts_of(decided.clearing, {row.pk: row.slug for row in types.values()}),
    )


_TOLD = (
    "type_id",
    "clearing_id",
    "during",
    "price_per_hour",
    "lease_price_per_hour",
    "base_price_per_hour",
    "cap_price_per_hour",
    "supply",
    "previous_price_per_hour",
    "priced_at",
    "cause",
)


def _replace(fresh: Iterable[Quote], present: Mapping[int, Quote], clearing: Clearing, now: datetime) -> None:
    """End the present quotes of these types, and open the fresh ones."""
    quotes = [_succeeding(quote, present.get(quote.type_id), clearing, now) for quote in fresh]
    ended = [present[quote.type_id].pk for quote in quotes if quote.type_id in present]
    until_now = Func(F("during__startswith"), Value(now), function="tstzrange", output_field=DateTimeRangeField())
    Quote.objects.filter(pk__in=ended).update(during=until_now)
    copy_in(Quote, _TOLD, ([getattr(quote, name) for name in _TOLD] for quote in quotes))


def _succeeding(quote: Quote, present: Quote | None, clearing: Clearing, now: datetime) -> Quote:
    if present is not None and present.price_per_hour == quote.price_per_hour:
        quote.previous_price_per_hour = present.previous_price_per_hour
        quote.priced_at = present.priced_at or present.during.lower
    else:
        quote.previous_price_per_hour = None if present is None else present.price_per_hour
        quote.priced_at = now
    quote.clearing = clearing
    quote.during = TimestamptzRange(now, None)
    return quote
