from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markets.engine.money import (
    MAX_PRICE,
    MICROSECONDS_PER_HOUR,
    MICROSECONDS_PER_SECOND,
    amount,
    format_price,
    integral,
    parse_price,
)


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.687", 687_000),
        ("0.000001", 1),
        ("2", 2_000_000),
        ("2.50000000000", 2_500_000),
        ("1000000", MAX_PRICE),
        ("1e2", 100_000_000),
        (Decimal("0.606"), 606_000),
        ("0.1000000000000000000000000000000000000000", 100_000),
    ],
)
def test_a_price_is_read_exactly(text, price):
    assert parse_price(text) == price


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("NaN", "finite"),
        ("sNaN", "finite"),
        ("Infinity", "finite"),
        ("-Infinity", "finite"),
        ("0", "above zero"),
        ("-0", "above zero"),
        ("-0.5", "above zero"),
        ("0.0000001", "decimals"),
        ("0.6870001", "decimals"),
        ("1e-999999", "decimals"),
        ("1000000.000001", "above 1000000"),
        ("1e999999", "above 1000000"),
        ("", "not a decimal"),
        ("$1", "not a decimal"),
        ("1,5", "not a decimal"),
        ("1_000", "not a decimal"),
        (" 1", "not a decimal"),
        ("٣", "not a decimal"),
        (None, "not a decimal"),
        (True, "not a decimal"),
        (0.687, "not a decimal"),
    ],
)
def test_what_is_no_price_is_refused_by_name(text, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        parse_price(text)
    assert repr(text) in str(refused.value)


@given(st.integers(1, MAX_PRICE))
def test_a_written_price_reads_back_the_same(price):
    assert parse_price(format_price(price)) == price


def test_prices_are_written_with_six_decimals():
    assert format_price(687_000) == "0.687000"
    assert format_price(2_000_001) == "2.000001"
    assert format_price(-1) == "-0.000001"


def test_an_hour_at_0_687_in_one_second_slices_bills_0_6870():
    price, total, billed = parse_price("0.687"), 0, 0
    for second in range(3600):
        start = second * MICROSECONDS_PER_SECOND
        before = amount(total)
        total += integral(price, start, start + MICROSECONDS_PER_SECOND)
        billed += amount(total) - before
    assert billed == amount(total) == 687_000


@given(
    st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 10**9)), max_size=8),
    st.lists(st.integers(0, 10**9), max_size=8),
)
def test_slicing_never_changes_a_bill(segments, cuts):
    total = sum(price * duration for price, duration in segments)
    steps = [0, *sorted(min(cut, total) for cut in cuts), total]
    assert sum(amount(after) - amount(before) for before, after in pairwise(steps)) == amount(total)


@given(st.integers(0, 10**24))
def test_an_amount_is_the_integral_rounded_half_to_even(total):
    assert amount(total) == round(Fraction(total, MICROSECONDS_PER_HOUR))


def test_a_huge_price_for_a_century_stays_exact():
    century = 100 * 365 * 24 * MICROSECONDS_PER_HOUR
    assert amount(integral(MAX_PRICE, 0, century)) == MAX_PRICE * 100 * 365 * 24
