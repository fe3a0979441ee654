"""How money, spans and times look."""

from datetime import UTC, datetime, timedelta

import pytest

from markets.templatetags import figures

NOW = datetime(2026, 3, 4, 14, 2, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("price", "shown"),
    [
        (687_000, "$0.6870/h"),
        (None, "—"),
        (1, "$0.0000/h"),
        (50, "$0.0000/h"),
        (150, "$0.0002/h"),
        (1_234_567_890_000, "$1,234,567.8900/h"),
    ],
)
def test_a_price_has_four_decimals_and_its_unit(price: int | None, shown: str) -> None:
    assert figures.per_hour(price) == shown


@pytest.mark.parametrize(
    ("price", "shown"), [(30_000, "+$0.0300/h"), (-30_000, "\N{MINUS SIGN}$0.0300/h"), (0, "$0.0000/h")]
)
def test_a_difference_has_its_sign(price: int, shown: str) -> None:
    assert figures.signed_per_hour(price) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.44, "0.4 s"), (59, "59 s"), (61, "1 min 01 s"), (3661, "1 h 01 min"), (86_400 * 3, "3 days"), (None, "—")],
)
def test_a_span_is_said_in_words(seconds: float | None, shown: str) -> None:
    assert figures.duration(seconds) == shown


def test_a_time_names_its_zone_and_its_day_when_it_is_another() -> None:
    assert ">14:02:11 UTC</time>" in figures.moment(NOW, NOW)
    assert ">03 Mar 2026 14:02:11 UTC</time>" in figures.moment(NOW - timedelta(days=1), NOW)
    assert figures.moment(None, NOW) == "—"


@pytest.mark.parametrize(("fraction", "shown"), [(0.25, "25 %"), (0.3584, "35.8 %"), (1.0, "100 %"), (None, "—")])
def test_a_share_is_a_percentage(fraction: float | None, shown: str) -> None:
    assert figures.percent(fraction) == shown
