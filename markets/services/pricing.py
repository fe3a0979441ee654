"""The price setter's rows: a clearing with its receipt and roles, quotes whose terms have moved, and the supply."""

import secrets
from datetime import datetime

from psycopg.types.range import TimestamptzRange

from laissez.events import Outbox
from markets.engine.book import Book
from markets.engine.clearing import Clearing as EngineClearing
from markets.engine.depth import depth
from markets.engine.dynamics import Plan, roles_of
from markets.models import Clearing, Quote, Supply
from markets.selectors import exchange
from markets.selectors.floor import Snapshot
from markets.selectors.receipts import RULE_VERSION, hash_of, receipt_of
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
    book = decided.book
    supplies = {offer.type: offer.supply for offer in book.offers}
    fresh = {
        type_id: quote
        for type_id, row in types.items()
        if (quote := _quote(row, decided.clearing, supplies.get(type_id, 0), present.get(type_id))) is not None
    }
    if not fresh and not acted:
        return None
    now = outbox.now()
    clearing = _record(cluster, snapshot, book, decided.clearing, types, now)
    for type_id, quote in sorted(fresh.items()):
        _replace(quote, present.get(type_id), clearing, now)
    return clearing


def _write_supply(cluster: Cluster, decided: Plan) -> None:
    """What the tick leaves behind of every type; hosts may have taken or given units since the floor was read."""
    units = exchange.units_now(cluster)
    losing = depth(decided.book, decided.clearing)
    present = {row.type_id: row for row in Supply.objects.filter(type__cluster=cluster)}
    for type_id, counts in losing.items():
        there = units[type_id]
        row = Supply(
            type_id=type_id,
            units_total=there.total,
            units_free=there.free,
            units_leaving=there.leaving,
            waiting_awards=there.waiting,
            depth=list(counts),
        )
        former = present.get(type_id)
        if former is None:
            row.save()
        elif _units(former) != _units(row):
            row.pk = former.pk
            row.save(force_update=True)


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
    cluster: Cluster,
    snapshot: Snapshot,
    book: Book,
    result: EngineClearing,
    types: dict[int, AcceleratorType],
    now: datetime,
) -> Clearing:
    salt = secrets.token_hex(16)
    number = cluster.tick_number + 1
    roles.keep(cluster, number, roles_of(snapshot.floor))
    return Clearing.objects.create(
        cluster=cluster,
        number=number,
        keeps_roles=True,
        at=now,
        rule=cluster.rule,
        rule_version=RULE_VERSION,
        watermark=snapshot.watermark,
        salt=salt,
        book_hash=hash_of(salt, book),
        receipt={types[offer.type].slug: receipt_of(offer, result) for offer in book.offers},
    )


def _replace(quote: Quote, present: Quote | None, clearing: Clearing, now: datetime) -> None:
    if present is not None:
        ended = TimestamptzRange(present.during.lower, now)
        Quote.objects.filter(pk=present.pk).update(during=ended)
    if present is not None and present.price_per_hour == quote.price_per_hour:
        quote.previous_price_per_hour = present.previous_price_per_hour
        quote.priced_at = present.priced_at or present.during.lower
    else:
        quote.previous_price_per_hour = None if present is None else present.price_per_hour
        quote.priced_at = now
    quote.clearing = clearing
    quote.during = TimestamptzRange(now, None)
    quote.save()
