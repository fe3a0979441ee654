"""What a job of the form would cost: per row at the present price and at worst, and what is expected of it.

The hold behind it is no business of this page: it is what a rehearsed submission has set aside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from markets.engine.money import parse_price
from markets.selectors import prices
from markets.selectors.exchange import Exchange, ExchangeRow
from markets.views.job_draft import Draft, Row

FIXED_BIDS = ("hold", "checkpoint_boundary")
"""Policies that leave the bids as they were stated."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """A launch table's row and its market: prices in micro-dollars per accelerator-hour, costs in micro-dollars."""

    number: int
    slug: str
    quote: ExchangeRow | None
    own_max: int | None
    is_cap: bool
    highest: int | None
    expected: int | None
    worst: int | None
    day: prices.Outlook | None

    @property
    def standing(self) -> str:
        """In words, what this row would meet now."""
        if self.quote is None or self.own_max is None:
            return ""
        if self.own_max < self.quote.base_price:
            return "never wins: it is under the base price"
        if self.quote.units_free:
            return (
                "would win a free unit now" if self.own_max >= self.quote.bid_needed else "would wait: under the price"
            )
        return "may outbid a holder" if self.own_max >= self.quote.bid_needed else "would wait: under the price"


@dataclass(frozen=True, slots=True)
class Costs:
    """All rows, and the job as a whole: the range of expected costs, and the most that any row can come to."""

    rows: Sequence[RowCost]
    least: int | None
    most: int | None
    worst: int | None
    budget: int | None


def of(draft: Draft, table: Exchange | None, *, now: datetime) -> Costs:
    """The costs of what is typed so far; what cannot be read yet is unknown."""
    rows = [_row(draft, place, row, table, now) for place, row in enumerate(draft.rows)]
    expected = [row.expected for row in rows]
    known = [amount for amount in expected if amount is not None]
    worst = [row.worst for row in rows]
    return Costs(
        rows=rows,
        least=min(known, default=None),
        most=max(known, default=None) if None not in expected else None,
        worst=None if None in worst else max((amount for amount in worst if amount is not None), default=None),
        budget=_money(draft.value("budget")),
    )


def expected(row: Mapping[str, str], table: Exchange | None) -> int | None:
    """What a row is expected to cost: its hours at the present price."""
    quote = None if table is None else table.row(row.get("accelerator_type", ""))
    return None if quote is None else _product(row.get("expected_hours", ""), quote.price)


def _row(draft: Draft, place: int, row: Row, table: Exchange | None, now: datetime) -> RowCost:
    slug = row.get("accelerator_type", "")
    quote = None if table is None else table.row(slug)
    own = _own_max(row, quote)
    highest = _highest(draft, place, row, own, quote)
    return RowCost(
        number=place + 1,
        slug=slug,
        quote=quote,
        own_max=own,
        is_cap=bool(row.get("cap")),
        highest=highest,
        expected=expected(row, table),
        worst=_product(row.get("expected_hours", ""), highest),
        day=_day(table, quote, own, now),
    )


def _day(table: Exchange | None, quote: ExchangeRow | None, own: int | None, now: datetime) -> prices.Outlook | None:
    if table is None or quote is None:
        return None
    quote.type.cluster = table.cluster  # known already: no query for it
    return prices.outlook(quote.type, own, now=now)


def _own_max(row: Row, quote: ExchangeRow | None) -> int | None:
    """What the row bids, counted at most at its cap."""
    if quote is None:
        return None
    cap = quote.cap_price
    price = cap if row.get("cap") else _money(row.get("max_price_per_hour", ""))
    return None if price is None else min(price, cap)


def _highest(draft: Draft, place: int, row: Row, own: int | None, quote: ExchangeRow | None) -> int | None:
    """The most an hour on this row may cost: the cap where an agent may bid again, else the larger of max and keep."""
    if quote is None or own is None:
        return None
    cap = quote.cap_price
    is_policy = (draft.value("agent-kind") or "policy") == "policy"
    is_last = place == len(draft.rows) - 1
    if not is_policy or ((draft.value("agent-policy") or FIXED_BIDS[0]) not in FIXED_BIDS and not is_last):
        return cap
    return max(own, min(cap, _money(row.get("keep_price_per_hour", "")) or 0))


def _money(text: str) -> int | None:
    try:
        return parse_price(text.strip())
    except ValueError:
        return None


def _product(hours: str, price: int | None) -> int | None:
    """Hours times a price, in micro-dollars."""
    try:
        span = Decimal(hours.strip())
    except InvalidOperation:
        return None
    if price is None or not span.is_finite() or not 0 < span <= 1_000_000:
        return None
    return int((span * price).to_integral_value())
