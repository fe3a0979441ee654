"""The price setter's rows: a clearing with its receipt and roles, quotes whose terms have moved, and the supply."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.contrib.postgres.fields import DateTimeRangeField
from django.db.models import F, Func, Value
from psycopg.types.range import TimestamptzRange

from laissez.bulk import copy_in
from laissez.events import Outbox
from markets.engine.actions import Action
from markets.engine.clearing import Clearing as EngineClearing
from markets.engine.dynamics import Plan
from markets.models import Clearing, Quote
from markets.selectors import exchange
from markets.selectors.exchange import Parts
from markets.selectors.floor import Snapshot
from markets.selectors.receipts import RULE_VERSION, hash_of, receipts_of
from markets.selectors.roles import KeptRoles, to_keep
from markets.services import roles, supply
from markets.services.telling import tell_changes
from workers.models import AcceleratorType, Cluster


def moved(present: Mapping[int, Quote], clearing: EngineClearing, per_mille: int) -> set[int]:
    """Types whose public price differs from the present quote by more than so many thousandths."""
    return {
        type_id
        for type_id, price in clearing.prices.items()
        if (quote := present.get(type_id)) is not None
        and abs(price.public - quote.price_per_hour) * 1000 > per_mille * quote.price_per_hour
    }


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What a clearing has left in rows: what the exchange shows, and the roles in force, None where nobody looked."""

    exchange: Parts
    roles: KeptRoles | None

    def with_types_of(self, cluster: Cluster) -> "Record":
        """The same with the types as they are now: only ticks write the rest."""
        return replace(self, exchange=replace(self.exchange, types=exchange.types_of(cluster)))


def write(
    cluster: Cluster, snapshot: Snapshot, decided: Plan, *, before: Record, applied: Sequence[Action], outbox: Outbox
) -> Record:
    """Record what a clearing has changed, and tell of it. One that changed nothing leaves no trace.

    Args:
        before: what the rows say so far.
        applied: what the work scheduler has done, which is a change too.
    """
    fresh = _fresh_quotes(decided, before.exchange)
    roles_in_force = before.roles
    if fresh or applied:
        clearing = _record(cluster, snapshot, decided, before.exchange.types, outbox.now())
        wanted = to_keep(snapshot.floor, snapshot.absent, decided.roles)
        roles_in_force = roles.keep(cluster, clearing.number, before.roles, wanted)
        _replace(fresh, before.exchange.quotes, clearing, outbox.now())
    written = supply.write(snapshot.floor, decided, before.exchange.supplies, applied)
    after = replace(
        before.exchange,
        quotes={**before.exchange.quotes, **{quote.type_id: quote for quote in fresh}},
        supplies={**before.exchange.supplies, **written},
    )
    tell_changes(before.exchange.rows(), after.rows(), outbox)
    return Record(after, roles_in_force)


def _fresh_quotes(decided: Plan, present: Parts) -> list[Quote]:
    offers = decided.book.offers
    supplies = dict(zip(offers["type"].tolist(), offers["supply"].tolist(), strict=True))
    quotes = (
        _quote(row, decided.clearing, supplies.get(type_id, 0), present.quotes.get(type_id))
        for type_id, row in sorted(present.types.items())
    )
    return [quote for quote in quotes if quote is not None]


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
    return Clearing.objects.create(
        cluster=cluster,
        number=cluster.tick_number + 1,
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
    until_now = Func(F("during__startswith"), Value(now), function="tstzrange", output_field=DateTimeRangeField())
    ended = Quote.objects.filter(type_id__among=[quote.type_id for quote in quotes], during__upper_inf=True)
    ended.update(during=until_now)
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
