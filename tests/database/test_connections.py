"""Times come from the database as they went in, whatever reads them."""

from datetime import UTC, datetime

import pytest
from django.db import DataError, connection

pytestmark = pytest.mark.django_db

MOMENTS = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 2, 28, 12, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 2, 28, 12, 0, 0, 120_000, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_time_is_read_as_it_was_written(moment: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [moment])
        (found,) = cursor.fetchone()
    assert found == moment
    assert found.tzinfo is UTC


def test_no_time_is_none() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT NULL::timestamptz")
        assert cursor.fetchone() == (None,)


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0044-03-15 12:00:00 BC"])
def test_a_time_that_python_cannot_hold_is_refused(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [text])
        with pytest.raises(DataError, match=r"BC|infinity"):
            cursor.fetchone()
