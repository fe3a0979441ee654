"""Rows that are copied arrive as they were, whatever is in them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError
from psycopg.types.range import TimestamptzRange

from laissez.bulk import copy_in
from markets.models import Quote
from workers.models import AcceleratorType, Cluster

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=-7, minutes=-30)))
SECOND = timedelta(seconds=1)
ODD = ("", "\\N", "a\tb\nc\rd\\e", "\\.", "é\"'{},", "ends in \\")


def _copy(*rows: tuple[TimestamptzRange, Any, str, datetime | None]) -> None:
    kind = AcceleratorType.objects.create(
        cluster=Cluster.objects.create(slug="copied", name="copied"),
        slug="kind",
        name="kind",
        position=0,
        base_price_per_hour=1,
        cap_price_per_hour=9,
    )
    names = ("type_id", "during", "price_per_hour", "cause", "priced_at")
    given: Sequence[Any] = [(kind.pk, *row, 5, 5, 9, 3) for row in rows]
    others = ("lease_price_per_hour", "base_price_per_hour", "cap_price_per_hour", "supply")
    copy_in(Quote, (*names, *others), given)


@pytest.mark.django_db
def test_texts_with_marks_that_copying_knows_arrive_as_they_were() -> None:
    _copy(*((TimestamptzRange(AT + n * SECOND, AT + (n + 1) * SECOND), 5, text, None) for n, text in enumerate(ODD)))
    assert tuple(Quote.objects.order_by("id").values_list("cause", flat=True)) == ODD


@pytest.mark.django_db
def test_ranges_nothing_and_numbers_of_any_kind_arrive_as_they_were() -> None:
    bounded, open_ended = TimestamptzRange(AT, AT + SECOND), TimestamptzRange(AT + SECOND, None)
    _copy((bounded, Decimal(6), "bids", AT), (open_ended, 5, "bids", None))
    rows = Quote.objects.order_by("id").values_list("during", "price_per_hour", "priced_at")
    assert list(rows) == [(bounded, 6, AT.astimezone(UTC)), (open_ended, 5, None)]


@pytest.mark.django_db
@pytest.mark.parametrize("during", [TimestamptzRange(empty=True), TimestamptzRange(None, AT)])
def test_what_the_database_refuses_is_refused(during: TimestamptzRange) -> None:
    with pytest.raises(IntegrityError, match="quote_is_"):
        _copy((during, 5, "bids", None))
