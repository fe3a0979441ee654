"""What a place is worth to a job, in exact decimals: the break-even bid (LaissezCloud 2025, section 5).

Prices are dollars per accelerator-hour, hours are for the whole job on that type, shares are between 0 and 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

MICRO_DOLLAR = Decimal("0.000001")
_PRECISION = 40


@dataclass(frozen=True, slots=True)
class Alternative:
    """A place where the job could go on: its price per hour, hours for the whole job, and the share to do there."""

    price_per_hour: Decimal
    expected_hours: Decimal
    share: Decimal


def break_even_bid(
    expected_hours: Decimal,
    *,
    left: Decimal,
    alternatives: Sequence[Alternative],
    at_most: Decimal,
) -> Decimal:
    """Return the price per hour at which staying on a row costs as much as its cheapest alternative.

    `left` is the share of the job still to do if it stays. The result is rounded to micro-dollars and lies between
    one micro-dollar and at_most. ValueError without alternatives.
    """
    if not alternatives:
        raise ValueError("a break-even bid needs at least one alternative")
    if expected_hours * left <= 0:
        return at_most
    with localcontext() as context:
        context.prec = _PRECISION
        cheapest = min(expected_cost(other.price_per_hour, other.expected_hours, other.share) for other in alternatives)
        bid = cheapest / (expected_hours * left)
        return max(MICRO_DOLLAR, min(at_most, bid).quantize(MICRO_DOLLAR, rounding=ROUND_HALF_EVEN))


def expected_cost(price_per_hour: Decimal, expected_hours: Decimal, share: Decimal) -> Decimal:
    """Return the dollars that a share of the job costs at a price that does not move."""
    return price_per_hour * expected_hours * share
