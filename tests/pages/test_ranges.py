"""Which stretch of time a chart shows."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from markets.views import ranges

NOW = datetime(2026, 3, 4, 14, 2, 11, tzinfo=UTC)


def test_without_a_word_it_is_the_last_hour_and_goes_on() -> None:
    shown = ranges.of({}, now=NOW)
    assert (shown.start, shown.end, shown.follows) == (NOW - timedelta(hours=1), NOW, True)


def test_a_named_range_is_kept_in_the_address() -> None:
    assert ranges.of({"range": "7d"}, now=NOW).query == "range=7d"


def test_times_without_an_offset_are_the_readers() -> None:
    with timezone.override(ZoneInfo("Asia/Kolkata")):
        shown = ranges.of({"from": "2026-03-04T14:00", "to": "2026-03-04T15:00"}, now=NOW)
    assert shown.start == datetime(2026, 3, 4, 8, 30, tzinfo=UTC)
    assert shown.query == "from=2026-03-04T08%3A30%3A00Z&to=2026-03-04T09%3A30%3A00Z"
    assert not shown.follows


def test_an_address_of_a_fixed_range_says_the_same_to_everybody() -> None:
    asked = {"from": "2026-03-04T08:30:00Z", "to": "2026-03-04T09:30:00Z"}
    with timezone.override(ZoneInfo("America/New_York")):
        assert ranges.of(asked, now=NOW).start == datetime(2026, 3, 4, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "asked",
    [
        {"range": "<script>"},
        {"from": "yesterday"},
        {"to": "2026-03-04T14:00"},
        {"from": "2026-02-30T14:00"},
        {"from": "2026-03-04T14:00", "to": "2026-03-04T13:00"},
        {"from": "0001-01-01T00:00"},
        {"from": "0001-01-01T00:00", "to": "0001-01-02T00:00"},
        {"from": "2026-03-04T14:00", "to": "9999-12-31T23:59:59-14:00"},
        {"from": "2026-03-05T14:00"},
    ],
)
def test_what_cannot_be_shown_is_said_and_the_last_hour_shown(asked: dict[str, str]) -> None:
    shown = ranges.of(asked, now=NOW)
    assert shown.fault
    assert shown.choice == "1h"
