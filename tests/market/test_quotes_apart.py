"""A type has one quote at any instant: the database refuses what would overlap, by a microsecond as by a year."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from psycopg.types.range import TimestamptzRange

from laissez.bulk import copy_in
from markets.models import Quote
from workers.models import AcceleratorType, Cluster

MICROSECOND = timedelta(microseconds=1)
NAMES = ("type_id", "during", "price_per_hour", "lease_price_per_hour", "base_price_per_hour")
NAMES = (*NAMES, "cap_price_per_hour", "supply", "cause")
FROM, TO = datetime(1950, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def _type(position: int = 0) -> AcceleratorType:
    cluster, _ = Cluster.objects.get_or_create(slug="apart", name="apart")
    return AcceleratorType.objects.create(
        cluster=cluster,
        slug=f"kind-{position}",
        name="kind",
        position=position,
        base_price_per_hour=1,
        cap_price_per_hour=2,
    )


def _write(*quotes: tuple[AcceleratorType, datetime | None, datetime | None], bounds: str = "[)") -> None:
    rows: list[tuple[Any, ...]] = [
        (kind.pk, TimestamptzRange(start, end, bounds), 1, 1, 1, 2, 1, "bids") for kind, start, end in quotes
    ]
    with transaction.atomic():
        copy_in(Quote, NAMES, rows)


def _refused(*quotes: tuple[AcceleratorType, datetime | None, datetime | None], bounds: str = "[)") -> bool:
    try:
        _write(*quotes, bounds=bounds)
    except IntegrityError:
        return True
    return False


class Neighbours(TestCase):
    """Two quotes at a random instant of the years that quotes may lie in."""

    @given(
        st.datetimes(FROM.replace(tzinfo=None) + timedelta(days=1), TO.replace(tzinfo=None) - timedelta(days=1)),
        st.timedeltas(MICROSECOND, timedelta(hours=20)),
    )
    def test_quotes_that_touch_are_apart_and_a_microsecond_more_is_refused(
        self, naive: datetime, half: timedelta
    ) -> None:
        kind, other, at = _type(), _type(1), naive.replace(tzinfo=UTC)
        _write((kind, at - half, at), (kind, at, at + half), (other, at - half, at + half))
        assert _refused((kind, at - MICROSECOND, at))
        assert _refused((kind, at, at + MICROSECOND))
        assert _refused((kind, at + half - MICROSECOND, None))
        _write((kind, at + half, None))
        assert _refused((kind, TO - 2 * MICROSECOND, TO - MICROSECOND))


@pytest.mark.django_db
def test_a_quote_that_keeps_its_last_instant_meets_the_one_that_begins_there() -> None:
    kind, at = _type(), datetime(2026, 1, 1, tzinfo=UTC)
    _write((kind, at, at + MICROSECOND), bounds="[]")
    assert _refused((kind, at + MICROSECOND, None))
    _write((kind, at + 2 * MICROSECOND, None))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("start", "end", "bounds"),
    [
        (None, FROM, "[)"),
        (FROM - MICROSECOND, FROM, "[)"),
        (TO - MICROSECOND, TO, "[)"),
        (TO, None, "[)"),
        (FROM, None, "()"),
        (FROM, FROM, "[)"),
    ],
)
def test_a_quote_without_a_beginning_or_of_another_age_is_refused(
    start: datetime | None, end: datetime | None, bounds: str
) -> None:
    assert _refused((_type(), start, end), bounds=bounds)


@pytest.mark.django_db
def test_what_is_quoted_in_a_range_is_found_by_the_index_of_the_rule() -> None:
    kind = _type()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT * FROM markets_quote WHERE markets_quoted(type_id, during, %s, tstzrange(%s, %s))",
            [kind.pk, at, at + MICROSECOND],
        )
        assert "type_has_one_quote_at_a_time" in "\n".join(row[0] for row in cursor.fetchall())
