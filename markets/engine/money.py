"""Exact money: the only place where prices are read from text and where amounts are rounded.

A price is an integer of micro-dollars per accelerator-hour. A bill is the integral of price over time, kept exact in
micro-dollars per hour times microseconds and rounded once, so that slicing a lease never changes what it costs.
"""

from decimal import Decimal, InvalidOperation

MICRO_PER_DOLLAR = 1_000_000
DECIMALS = 6
MICROSECONDS_PER_SECOND = 1_000_000
MICROSECONDS_PER_HOUR = 3600 * MICROSECONDS_PER_SECOND
MAX_PRICE = 1_000_000 * MICRO_PER_DOLLAR
"""A million dollars per accelerator-hour: beyond it a price is a typing error, and sums could leave 64 bits."""


def parse_price(value: str | Decimal) -> int:
    """Return the micro-dollars per hour that a decimal text or Decimal of dollars per hour means.

    ValueError, naming the value, unless it is finite, above zero, at most MAX_PRICE and has at most six decimals.
    """
    dollars = _decimal(value)
    if not dollars.is_finite():
        raise ValueError(f"{value!r} is not a finite price")
    if dollars <= 0:
        raise ValueError(f"{value!r} is not above zero")
    if dollars > MAX_PRICE // MICRO_PER_DOLLAR:
        raise ValueError(f"{value!r} is above {MAX_PRICE // MICRO_PER_DOLLAR} dollars per hour")
    if not _fits_micro_dollars(dollars):
        raise ValueError(f"{value!r} has more than {DECIMALS} decimals")
    return int(dollars.scaleb(DECIMALS))


def format_price(price: int) -> str:
    """Return micro-dollars (a price per hour or an amount) as dollars with six decimals: 687000 is "0.687000"."""
    sign = "-" if price < 0 else ""
    dollars, micro = divmod(abs(price), MICRO_PER_DOLLAR)
    return f"{sign}{dollars}.{micro:06d}"


def integral(price: int, start: int, end: int) -> int:
    """Return the exact integral of a constant price (micro-dollars per hour) from start to end (microseconds)."""
    return price * (end - start)


def amount(total: int) -> int:
    """Round an integral of price over time to micro-dollars, half to even. Call it once per bill, never per slice.

    The differences of rounded cumulative integrals are what slices carry: they add up to the rounded whole.
    """
    quotient, rest = divmod(total, MICROSECONDS_PER_HOUR)
    twice = 2 * rest
    round_up = twice > MICROSECONDS_PER_HOUR or (twice == MICROSECONDS_PER_HOUR and quotient % 2 == 1)
    return quotient + 1 if round_up else quotient


def _decimal(value: str | Decimal) -> Decimal:
    """Read plain decimal text; no underscores, no foreign digits, no surrounding blanks, all of which Decimal takes."""
    if isinstance(value, Decimal):
        return value
    try:
        if not isinstance(value, str) or not value.isascii() or "_" in value or value != value.strip():
            raise InvalidOperation
        return Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a decimal number of dollars per hour") from None


def _fits_micro_dollars(dollars: Decimal) -> bool:
    """Return whether no digit other than zero stands beyond the sixth decimal, whatever the decimal context."""
    _, digits, exponent = dollars.as_tuple()
    beyond = -int(exponent) - DECIMALS
    return beyond <= 0 or not any(digits[-beyond:])
