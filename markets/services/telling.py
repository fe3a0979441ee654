"""What a market's stream says of its exchange: the whole public row of a type, whenever it differs from before.

Whoever may change a row takes the rows before and hands them in afterwards, so that the rows and the stream can never
come apart: a snapshot and the events after it are the next snapshot.
"""

from collections.abc import Mapping

from laissez.events import Outbox
from markets.selectors import exchange
from markets.selectors.exchange import ExchangeRow

PRICES = ("price_per_hour", "lease_price_per_hour", "base_price_per_hour", "cap_price_per_hour")


def tell_changes(before: Mapping[int, ExchangeRow], after: Mapping[int, ExchangeRow], outbox: Outbox) -> None:
    """Say which rows of the exchange are not what they were."""
    for type_id, row in after.items():
        former = before.get(type_id)
        now = exchange.public(row)
        then = None if former is None else exchange.public(former)
        if now != then:
            tell_row(row, _kind(then, now), outbox)


def tell_row(row: ExchangeRow, what: str, outbox: Outbox) -> None:
    """Say the row of one type: `price.changed`, `supply.changed` or `type.opened`."""
    stream = f"market:{row.type.cluster.slug}"
    outbox.add(stream, f"org.laissez.market.{what}.v1", row.type.slug, exchange.public(row))


def _kind(then: Mapping[str, object] | None, now: Mapping[str, object]) -> str:
    if then is not None and all(then[name] == now[name] for name in PRICES):
        return "supply.changed"
    return "price.changed"
