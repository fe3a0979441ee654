"""The price setter's rows: a clearing with its receipt, and a quote for every type whose terms have moved."""

import secrets
from datetime import datetime
from hashlib import sha256

from psycopg.types.range import TimestamptzRange

from laissez.events import Outbox
from markets.engine.book import Book, Offer
from markets.engine.clearing import Clearing as EngineClearing
from markets.engine.dynamics import Plan
from markets.engine.money import format_price
from markets.models import Clearing, Quote
from markets.selectors.floor import Snapshot
from workers.models import AcceleratorType, Cluster

RULE_VERSION = 1


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
    """Record what a clearing has changed. One that changed nothing leaves no trace.

    Args:
        acted: whether the work scheduler has done anything, which is a change too.
    """
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
        _tell(cluster, types[type_id], quote, present.get(type_id), clearing, outbox)
    return clearing


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
    return Clearing.objects.create(
        cluster=cluster,
        number=cluster.tick_number + 1,
        at=now,
        rule=cluster.rule,
        rule_version=RULE_VERSION,
        watermark=snapshot.watermark,
        salt=salt,
        book_hash=sha256((salt + repr(book)).encode()).hexdigest(),
        receipt={types[offer.type].slug: _receipt(offer, result) for offer in book.offers},
    )


def _receipt(offer: Offer, result: EngineClearing) -> dict[str, object]:
    """What one type's price came from. The losing bid that set it is the price itself; its owner is not named."""
    price = result.prices[offer.type]
    return {
        "supply": offer.supply,
        "base_price_per_hour": format_price(offer.base),
        "cap_price_per_hour": format_price(offer.cap),
        "price_per_hour": format_price(price.public),
        "lease_price_per_hour": format_price(price.lease),
        "set_by": "base price" if price.setter is None else "losing bid",
        "accepted": price.accepted,
        "rejected": price.rejected,
    }


def _replace(quote: Quote, present: Quote | None, clearing: Clearing, now: datetime) -> None:
    if present is not None:
        present.during = TimestamptzRange(present.during.lower, now)
        present.save(update_fields=["during"])
    quote.clearing = clearing
    quote.during = TimestamptzRange(now, None)
    quote.save()


def _tell(
    cluster: Cluster, row: AcceleratorType, quote: Quote, present: Quote | None, clearing: Clearing, outbox: Outbox
) -> None:
    if present is not None and present.price_per_hour == quote.price_per_hour:
        return
    data = {
        "accelerator_type": row.slug,
        "price_per_hour": format_price(quote.price_per_hour),
        "previous_price_per_hour": None if present is None else format_price(present.price_per_hour),
        "cause": quote.cause,
        "receipt": clearing.number,
    }
    outbox.add(f"market:{cluster.slug}", "org.laissez.market.price.changed.v1", row.slug, data)
