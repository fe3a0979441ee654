"""Price history: steps between quotes, gaps where nothing is known, and no peak lost when there are too many points."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.range import TimestamptzRange

from laissez.events import transact
from markets.models import Quote
from markets.selectors import prices
from markets.selectors.prices import Point
from tenants.services import accounts
from tests import scenes
from workers.models import AcceleratorType, Cluster

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
database = pytest.mark.django_db


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def series(values: Sequence[int | None]) -> list[Point]:
    return [Point(at(minute), price) for minute, price in enumerate(values)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 1000), max_size=300), st.integers(2, 60))
def test_thinning_out_keeps_both_ends_and_both_extremes(values: list[int], limit: int) -> None:
    points = series(values)
    kept = prices.decimated(points, limit)
    assert len(kept) <= limit
    assert [point for point in points if point in kept] == kept
    if values:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
    if limit >= 4 and values:
        assert {min(values), max(values)} <= {point.price for point in kept}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=50, max_size=300), st.integers(10, 40))
def test_every_stretch_keeps_its_own_lowest_and_highest(values: list[int], limit: int) -> None:
    kept = prices.decimated(series(values), limit)
    room = (limit - 2) // 2
    inner = range(1, len(values) - 1)
    for stretch in range(room):
        part = [values[place] for place in inner[len(inner) * stretch // room : len(inner) * (stretch + 1) // room]]
        assert {min(part), max(part)} <= {point.price for point in kept}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 1000) | st.none(), min_size=20, max_size=200))
def test_no_gap_is_bridged(values: list[int | None]) -> None:
    points = series(values)
    kept = prices.decimated(points, 100)
    gaps = [point for point in points if point.is_gap]
    assert [point for point in kept if point.is_gap] == gaps
    for gap in gaps:
        following = points[points.index(gap) + 1 : points.index(gap) + 2]
        assert all(point in kept for point in following)


@pytest.fixture
def a10(db: None) -> AcceleratorType:
    scenes.make_cluster()
    Cluster.objects.update(last_tick_at=at(60))
    return AcceleratorType.objects.select_related("cluster").get(slug="nvidia-a10")


def quote(row: AcceleratorType, since: float, until: float | None, price: int, **terms: Any) -> None:
    during = TimestamptzRange(at(since), None if until is None else at(until))
    given = {"lease_price_per_hour": price, "base_price_per_hour": 100, "cap_price_per_hour": 2000, "supply": 1} | terms
    Quote.objects.create(type=row, during=during, price_per_hour=price, cause="bids", **given)


def drawn(row: AcceleratorType, start: float, end: float, **options: int) -> list[tuple[float, int | None]]:
    history = prices.history(row, at(start), at(end), **options)
    return [((point.at - NOON).total_seconds() / 60, point.price) for point in history.points]


def test_a_series_opens_with_what_was_in_force_and_ends_with_what_is_known(a10: AcceleratorType) -> None:
    quote(a10, 0, 10, 500)
    quote(a10, 10, 20, 500, supply=2)
    quote(a10, 20, None, 600)
    assert drawn(a10, 5, 30) == [(5, 500), (20, 600), (30, 600)]
    assert drawn(a10, 5, 90) == [(5, 500), (20, 600), (60, 600)]
    assert drawn(a10, 70, 90) == []
    assert drawn(a10, -30, -20) == []


def test_a_change_of_base_or_cap_is_a_point_of_its_own(a10: AcceleratorType) -> None:
    quote(a10, 0, 10, 500)
    quote(a10, 10, None, 500, cap_price_per_hour=3000)
    history = prices.history(a10, at(0), at(20))
    assert [point.cap_price for point in history.points] == [2000, 3000, 3000]


def test_what_no_quote_covers_is_a_gap(a10: AcceleratorType) -> None:
    quote(a10, 0, 10, 500)
    quote(a10, 15, 20, 500)
    assert drawn(a10, -5, 30) == [(0, 500), (10, None), (15, 500), (20, None)]


def test_very_many_quotes_are_thinned_out_in_the_database_without_losing_a_peak(
    a10: AcceleratorType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in range(40):
        quote(a10, minute, None if minute == 39 else minute + 1, {13: 1900, 27: 120}.get(minute, 500 + minute))
    whole = drawn(a10, 0, 50)
    monkeypatch.setattr(prices, "COARSE_ABOVE", 20)
    coarse = drawn(a10, 0, 50)
    assert set(coarse) <= set(whole)
    assert {(0, 500), (13, 1900), (27, 120), (50, 539)} <= set(coarse)
    assert prices.history(a10, at(0), at(50)).is_decimated


def test_the_last_day_as_median_and_odds(a10: AcceleratorType) -> None:
    Cluster.objects.update(last_tick_at=at(24 * 60))
    a10 = AcceleratorType.objects.select_related("cluster").get(pk=a10.pk)
    quote(a10, -600, 12 * 60, 500)
    quote(a10, 12 * 60, 22 * 60, 600)
    quote(a10, 22 * 60, None, 900)
    found = prices.outlook(a10, 600, now=at(24 * 60))
    assert (found.median, found.ninetieth, found.lowest, found.highest) == (500, 600, 500, 900)
    assert found.kept == Decimal("0.9167")
    assert found.known_seconds == 24 * 3600
    assert prices.outlook(a10, None, now=at(24 * 60)).kept == 1
    assert prices.outlook(a10, 499, now=at(24 * 60)).kept == 0


def test_nothing_known_gives_no_odds(a10: AcceleratorType) -> None:
    assert prices.outlook(a10, 600, now=at(60)) == prices.Outlook(None, None, None, None, None, 0)
    assert prices.trends(a10.cluster, now=at(60)) == {}


def test_the_trend_of_a_day(a10: AcceleratorType) -> None:
    quote(a10, -24 * 60 - 5, -600, 500)
    quote(a10, -600, -599, 700)
    quote(a10, -599, -590, 450)
    quote(a10, -590, None, 650)
    trend = prices.trends(a10.cluster, now=at(0))[a10.pk]
    assert trend.change == 150
    assert len(trend.points) <= 48
    assert (min(trend.points), max(trend.points)) == (450, 700)
    assert (trend.points[0], trend.points[-1]) == (500, 650)


def test_a_type_younger_than_a_day_has_no_change_over_it(a10: AcceleratorType) -> None:
    quote(a10, -60, None, 500)
    trend = prices.trends(a10.cluster, now=at(0))[a10.pk]
    assert (trend.change, set(trend.points)) == (None, {500})


@pytest.fixture
def reader(a10: AcceleratorType) -> Client:
    tenant = scenes.make_tenant("reader")
    _, secret = transact(
        lambda outbox: accounts.create_token(
            tenant, name="t", scopes=["prices:read"], days=1, actor="test", outbox=outbox
        )
    )
    return Client(headers={"Authorization": f"Bearer {secret}"})


PATH = "/api/v1/markets/gemm/types/nvidia-a10/history"
RANGE = {"from": "2026-11-29T11:55:00Z", "to": "2026-11-29T12:30:00+00:00"}


def test_the_api_answers_the_same_rows_as_json_and_as_csv(a10: AcceleratorType, reader: Client) -> None:
    quote(a10, 0, 10, 500)
    quote(a10, 15, None, 687_200, cap_price_per_hour=2_000_000)
    answer = reader.get(PATH, RANGE).json()
    assert [point["price_per_hour"] for point in answer["points"]] == ["0.000500", None, "0.687200", "0.687200"]
    assert answer["points"][0]["at"] == "2026-11-29T12:00:00Z"
    assert (answer["changes"], answer["decimated"], answer["highest_per_hour"]) == (4, False, "0.687200")
    asked = reader.get(PATH, RANGE | {"format": "csv"})
    accepted = reader.get(PATH, RANGE, headers={"Accept": "text/csv"})
    assert asked["Content-Type"] == "text/csv; charset=utf-8"
    assert asked.content == accepted.content
    lines = [line.split(",") for line in asked.content.decode().splitlines()]
    assert lines[0] == list(prices.COLUMNS)
    assert [dict(zip(lines[0], line, strict=True)) for line in lines[1:]] == [
        {name: value or "" for name, value in point.items()} for point in answer["points"]
    ]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"from": "yesterday"}, "bad_time"),
        ({"from": "2026-11-29T12:00:00"}, "bad_time"),
        ({"to": "9999-12-31T23:59:59-14:00"}, "bad_time"),
        ({"from": "2026-11-29T12:00:00Z", "to": "2026-11-29T12:00:00Z"}, "bad_range"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-11-29T12:00:00Z"}, "bad_range"),
        ({"to": "0001-01-01T00:00:00Z"}, "bad_time"),
        ({"limit": "1"}, "bad_limit"),
        ({"limit": "2001"}, "bad_limit"),
        ({"limit": "-5"}, "bad_limit"),
        ({"limit": "²"}, "bad_limit"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    a10: AcceleratorType, reader: Client, query: dict[str, str], code: str
) -> None:
    answer = reader.get(PATH, query)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_unknown_types_and_receipts_are_not_there(a10: AcceleratorType, reader: Client) -> None:
    for path in ("types/none/history", "types/none/price-changes", "receipts/7", f"receipts/{10**30}"):
        assert reader.get(f"/api/v1/markets/gemm/{path}").status_code == 404, path
    assert Client().get(PATH).status_code == 401
