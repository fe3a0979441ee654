"""Price history of one type, as charts, tables and cost panels read it: steps between quotes, gaps never bridged.

The price in force is what the quotes say, whether or not the cluster ticked meanwhile: it was billed at that price.
So a gap is a stretch that no quote covers, and nothing is said of the time after the last tick.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection

from laissez.clock import rfc3339
from markets.engine.money import format_price
from workers.models import AcceleratorType, Cluster

MOST_POINTS = 2000
LONGEST_RANGE = timedelta(days=31)
DAY = timedelta(days=1)
SPARKLINE_STRETCHES = 24
COARSE_ABOVE = 20_000
"""With more quotes than this in a range the database picks the extremes first, so that an answer stays small."""


@dataclass(frozen=True, slots=True)
class Point:
    """The prices in force from `at` until the next point, in micro-dollars per hour; all None where a gap begins."""

    at: datetime
    price: int | None
    lease_price: int | None = None
    base_price: int | None = None
    cap_price: int | None = None

    @property
    def is_gap(self) -> bool:
        """Whether nothing is known from here to the next point."""
        return self.price is None


@dataclass(frozen=True, slots=True)
class History:
    """A step series. It begins with what was in force at `start` and ends with a point at the end of what is known.

    `changes` counts the points that there are, `points` may be fewer: then each kept one is real, and in every stretch
    the lowest and the highest price were kept.
    """

    type: AcceleratorType
    start: datetime
    end: datetime
    points: tuple[Point, ...]
    changes: int

    @property
    def is_decimated(self) -> bool:
        """Whether points were left out."""
        return self.changes > len(self.points)

    @property
    def lowest(self) -> int | None:
        """The lowest price in it."""
        return min(_known(self.points), default=None)

    @property
    def highest(self) -> int | None:
        """The highest price in it."""
        return max(_known(self.points), default=None)


def history(type_: AcceleratorType, start: datetime, end: datetime, *, limit: int = MOST_POINTS) -> History:
    """The prices of a type from `start` to `end`, at most `limit` points (2 to 2,000)."""
    known_until = min(end, type_.cluster.last_tick_at or start)
    quotes, counted = _quotes(type_, start, known_until)
    points = _steps(quotes, known_until)
    kept = decimated(points, max(2, min(limit, MOST_POINTS)))
    left_out = counted - len(quotes)
    return History(type_, start, end, tuple(kept), changes=len(points) + left_out)


def decimated(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` of the points, in their order. Pure.

    The first and the last survive, every gap with the point after it, and of each stretch of neighbours the lowest and
    the highest price, so that no peak is lost. Only a series with more gaps than points allowed stays longer.
    """
    if len(points) <= limit:
        return list(points)
    kept = {0, len(points) - 1}
    for place, point in enumerate(points):
        if point.is_gap:
            kept |= {place, min(place + 1, len(points) - 1)}
    room = (limit - len(kept)) // 2
    inner = [place for place in range(len(points)) if place not in kept]
    for stretch in range(room):
        part = inner[len(inner) * stretch // room : len(inner) * (stretch + 1) // room]
        if part:
            kept.add(min(part, key=lambda place: (points[place].price or 0, place)))
            kept.add(max(part, key=lambda place: (points[place].price or 0, -place)))
    return [points[place] for place in sorted(kept)]


_Quote = tuple[datetime, datetime | None, int, int, int, int]

_COUNT = """
    SELECT count(*) FROM markets_quote
    WHERE markets_quoted(type_id, during, %(type)s, tstzrange(%(start)s, %(end)s, '[]'))
"""

_ALL = """
    SELECT lower(during), upper(during), price_per_hour, lease_price_per_hour, base_price_per_hour, cap_price_per_hour
    FROM markets_quote
    WHERE markets_quoted(type_id, during, %(type)s, tstzrange(%(start)s, %(end)s, '[]'))
    ORDER BY lower(during)
"""

_COARSE = """
    WITH quote AS (
        SELECT id, lower(during) AS began, upper(during) AS ended, price_per_hour AS price, lease_price_per_hour,
               base_price_per_hour, cap_price_per_hour,
               lead(lower(during)) OVER (ORDER BY lower(during)) IS DISTINCT FROM upper(during) AS is_last,
               width_bucket(
                   extract(epoch FROM greatest(lower(during), %(start)s)), extract(epoch FROM %(start)s::timestamptz),
                   extract(epoch FROM %(end)s::timestamptz) + 1, %(stretches)s
               ) AS stretch
        FROM markets_quote
        WHERE markets_quoted(type_id, during, %(type)s, tstzrange(%(start)s, %(end)s, '[]'))
    ), kept AS (
        SELECT unnest(ARRAY[
            min(id), max(id), (array_agg(id ORDER BY price, id))[1], (array_agg(id ORDER BY price DESC, id))[1]
        ]) AS id
        FROM quote GROUP BY stretch
        UNION SELECT id FROM quote WHERE is_last
    )
    SELECT began, CASE WHEN is_last THEN ended ELSE lead(began) OVER (ORDER BY began) END,
           price, lease_price_per_hour, base_price_per_hour, cap_price_per_hour
    FROM quote WHERE id IN (SELECT id FROM kept) ORDER BY began
"""


def _quotes(type_: AcceleratorType, start: datetime, end: datetime) -> tuple[list[_Quote], int]:
    """The quotes that touch the range as (began, ended, prices), thinned out where very many, and their count."""
    if end < start:
        return [], 0
    given: dict[str, int | datetime] = {"type": type_.pk, "start": start, "end": end, "stretches": COARSE_ABOVE // 4}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, given)
        count: int = cursor.fetchone()[0]
        cursor.execute(_COARSE if count > COARSE_ABOVE else _ALL, given)
        return [(max(began, start), *rest) for began, *rest in cursor.fetchall()], count


def _steps(quotes: Sequence[_Quote], known_until: datetime) -> list[Point]:
    """A point where something changes, a gap where nothing covers, and a last point at the end of what is known."""
    points: list[Point] = []
    covered: datetime | None = None
    for began, ended, *figures in quotes:
        if covered is not None and began > covered:
            points.append(Point(covered, None))
        if not points or points[-1].is_gap or _figures(points[-1]) != tuple(figures):
            points.append(Point(began, *figures))
        covered = ended
    if not points:
        return []
    if covered is not None and covered < known_until:
        return [*points, Point(covered, None)]
    return points if points[-1].at >= known_until else [*points, Point(known_until, *_figures(points[-1]))]


def _figures(point: Point) -> tuple[int | None, ...]:
    return (point.price, point.lease_price, point.base_price, point.cap_price)


def _known(points: Sequence[Point]) -> list[int]:
    return [point.price for point in points if point.price is not None]


COLUMNS = ("at", "price_per_hour", "lease_price_per_hour", "base_price_per_hour", "cap_price_per_hour")


def rows_json(series: History) -> list[dict[str, str | None]]:
    """The points as rows of COLUMNS: what the API, its CSV and a chart's table show. Empty prices: a gap begins."""
    return [dict(zip(COLUMNS, _cells(point), strict=True)) for point in series.points]


def history_json(series: History) -> dict[str, Any]:
    """The points as rows, below what they are."""
    return {**_caption(series), "points": rows_json(series)}


def series_json(series: History) -> dict[str, Any]:
    """The points as one list per column, for a chart, below what they are."""
    columns = list(zip(*map(_cells, series.points), strict=True)) or [()] * len(COLUMNS)
    return _caption(series) | {name: list(column) for name, column in zip(COLUMNS, columns, strict=True)}


def _caption(series: History) -> dict[str, Any]:
    return {
        "cluster": series.type.cluster.slug,
        "accelerator_type": series.type.slug,
        "currency": "USD",
        "from": rfc3339(series.start),
        "to": rfc3339(series.end),
        "changes": series.changes,
        "decimated": series.is_decimated,
        "lowest_per_hour": _price(series.lowest),
        "highest_per_hour": _price(series.highest),
    }


def _cells(point: Point) -> tuple[str | None, ...]:
    return (rfc3339(point.at), *map(_price, _figures(point)))


# The last day


@dataclass(frozen=True, slots=True)
class Trend:
    """A type's last day in small. `change` is None without a price a day ago; `points` are at most 48, in order."""

    change: int | None
    points: tuple[int, ...]


_TREND = """
    SELECT type.id,
           width_bucket(
               extract(epoch FROM greatest(lower(during), %(start)s)), extract(epoch FROM %(start)s::timestamptz),
               extract(epoch FROM %(end)s::timestamptz) + 1, %(stretches)s
           ) AS stretch,
           min(price_per_hour), max(price_per_hour), (array_agg(price_per_hour ORDER BY quote.id DESC))[1],
           (array_agg(price_per_hour ORDER BY quote.id))[1], min(lower(during))
    FROM workers_acceleratortype AS type CROSS JOIN LATERAL (
        SELECT * FROM markets_quote
        WHERE markets_quoted(type_id, during, type.id, tstzrange(%(start)s, %(end)s, '[]'))
        OFFSET 0  -- one type's quotes at a time, by their index
    ) AS quote
    WHERE type.cluster_id = %(cluster)s
    GROUP BY type.id, stretch ORDER BY type.id, stretch
"""


def trends(cluster: Cluster, *, now: datetime) -> dict[int, Trend]:
    """Every type's last day, in one query: by the hour the price it began with, its lowest and its highest."""
    start = now - DAY
    given: dict[str, int | datetime] = {
        "cluster": cluster.pk,
        "start": start,
        "end": now,
        "stretches": SPARKLINE_STRETCHES,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TREND, given)
        rows = cursor.fetchall()
    hours: dict[int, dict[int, tuple[int, int, int]]] = defaultdict(dict)
    opened: dict[int, tuple[int, datetime]] = {}
    for type_id, stretch, lowest, highest, last, first, began in rows:
        hours[type_id][stretch] = (lowest, highest, last)
        opened.setdefault(type_id, (first, began))
    return {type_id: _trend(by_hour, *opened[type_id], start) for type_id, by_hour in hours.items()}


def _trend(by_hour: dict[int, tuple[int, int, int]], first: int, began: datetime, start: datetime) -> Trend:
    points: list[int] = []
    price: int | None = None
    for stretch in range(1, SPARKLINE_STRETCHES + 1):
        lowest, highest, last = by_hour.get(stretch, (price, price, price))
        if lowest is None or highest is None or last is None:
            continue
        ends_low = last - lowest < highest - last
        points += [lowest] if lowest == highest else [highest, lowest] if ends_low else [lowest, highest]
        price = last
    change = None if price is None or began > start else price - first
    return Trend(change=change, points=tuple(points))


@dataclass(frozen=True, slots=True)
class Outlook:
    """The last day as a hint for a bid: prices in micro-dollars per hour, shares of the time that is known of.

    `kept` is the share of that time in which the price was at most the maximum: a holder wins ties, so it would have
    kept its unit then. It says what was, not what will be. All None when nothing is known.
    """

    median: int | None
    ninetieth: int | None
    lowest: int | None
    highest: int | None
    kept: Decimal | None
    known_seconds: int


_SPENT_AT = """
    SELECT price_per_hour, sum(extract(epoch FROM least(coalesce(upper(during), %(end)s), %(end)s)
                                                 - greatest(lower(during), %(start)s)))
    FROM markets_quote
    WHERE markets_quoted(type_id, during, %(type)s, tstzrange(%(start)s, %(end)s))
    GROUP BY price_per_hour ORDER BY price_per_hour
"""


def outlook(type_: AcceleratorType, max_price: int | None, *, now: datetime) -> Outlook:
    """How the price of a type has stood over the last day, and for how much of it at or below `max_price`.

    Args:
        max_price: in micro-dollars per hour; None bids the cap, which no price exceeds.
    """
    end = min(now, type_.cluster.last_tick_at or now)
    start = min(now - DAY, end)
    with connection.cursor() as cursor:
        cursor.execute(_SPENT_AT, {"type": type_.pk, "start": start, "end": end})
        spent = [(price, seconds) for price, seconds in cursor.fetchall() if seconds > 0]
    known = sum((seconds for _, seconds in spent), Decimal(0))
    if not spent:
        return Outlook(None, None, None, None, None, 0)
    kept = sum((seconds for price, seconds in spent if max_price is None or price <= max_price), Decimal(0))
    return Outlook(
        median=_quantile(spent, known * Decimal("0.5")),
        ninetieth=_quantile(spent, known * Decimal("0.9")),
        lowest=spent[0][0],
        highest=spent[-1][0],
        kept=(kept / known).quantize(Decimal("0.0001")),
        known_seconds=int(known),
    )


def _quantile(spent: Sequence[tuple[int, Decimal]], seconds: Decimal) -> int:
    """The lowest price at or under which the type stood for so long."""
    passed = Decimal(0)
    for price, stood in spent:
        passed += stood
        if passed >= seconds:
            return price
    return spent[-1][0]


def _price(value: int | None) -> str | None:
    return None if value is None else format_price(value)
