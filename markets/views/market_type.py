"""One accelerator type of the market: its price over time and why it is what it is. The chart, its table, its
CSV file and the sentence above them come from one reading of the same history.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from laissez import clock
from markets.engine.money import MICRO_PER_DOLLAR
from markets.selectors import exchange, overview, prices, receipts, traces
from markets.selectors.exchange import ExchangeRow
from markets.selectors.prices import History
from markets.selectors.receipts import Receipt
from markets.selectors.traces import BidTrace
from markets.views import ranges
from markets.views.market import market_page, sees_bids, stream_of
from markets.views.ranges import Range
from markets.views.rendering import cursors, page
from tenants.auth import Principal
from tenants.views import viewer
from workers.models import AcceleratorType, Lease

ROWS_SHOWN = 100
DEPTH_WORDS = ("within 1 %", "1 to 5 %", "5 to 10 %", "10 to 25 %", "over 25 %")
FAR_ABOVE = 1.5
"""What lies above the highest price by more than this factor stays above the picture, or the price were a flat line."""
MARGIN = 0.12


@dataclass(frozen=True, slots=True)
class Bucket:
    """Losing bids at some distance below the price. `width`: per cent of the fullest bucket."""

    words: str
    count: int
    width: str


@dataclass(frozen=True, slots=True)
class Why:
    """What set the price at one clearing, as its receipt says it of one type."""

    receipt: Receipt
    figures: dict[str, Any]
    is_newest: bool


@require_safe
@market_page
def market_type(request: HttpRequest, cluster: str, slug: str) -> HttpResponse:
    """The price of one type over a range, its depth, and the receipt behind the price."""
    kind = _found(cluster, slug)
    streams = cursors([stream_of(kind.cluster)])
    now = clock.now()
    table = exchange.of(kind.cluster, now=now, with_trends=True)
    row = table.row(kind.slug)
    if row is None:
        raise Http404
    reader = viewer(request)
    shown = ranges.of(request.GET, now=now)
    history = prices.history(kind, shown.start, shown.end)
    return page(
        request,
        "markets/type.html",
        reader,
        streams=streams,
        now=now,
        table=table,
        row=row,
        shown=shown,
        choices=tuple(ranges.CHOICES),
        history=history,
        newest=history.points[::-1][:ROWS_SHOWN],
        buckets=_buckets(row.depth),
        losing=sum(row.depth),
        in_use=row.units_total - row.units_free,
        why=_why(kind, row, request.GET.get("clearing", "")),
        kept=_kept(request),
        own=_own(reader, row, table),
        sees_bids=sees_bids(reader),
    )


@require_safe
@market_page
def series(request: HttpRequest, cluster: str, slug: str) -> HttpResponse:
    """What the chart draws, as JSON (static/chart.js says how it is read)."""
    kind = _found(cluster, slug)
    now = clock.now()
    shown = ranges.of(request.GET, now=now)
    history = prices.history(kind, shown.start, shown.end)
    reader = viewer(request)
    own: list[BidTrace] = []
    held: list[Lease] = []
    if reader is not None and sees_bids(reader):
        known_until = history.points[-1].at if history.points else shown.end
        own = traces.bids(reader.tenant, kind, shown.start, max(known_until, shown.start))
        held = traces.leases(reader.tenant, kind, shown.start, shown.end)
    answer = JsonResponse(drawn(history, shown, own, held))
    answer["Cache-Control"] = "private, no-store"
    return answer


@require_safe
@market_page
def price_csv(request: HttpRequest, cluster: str, slug: str) -> HttpResponse:
    """The drawn prices as a file, one line a point; an empty price begins a gap."""
    kind = _found(cluster, slug)
    shown = ranges.of(request.GET, now=clock.now())
    history = prices.history(kind, shown.start, shown.end)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{kind.cluster.slug}-{kind.slug}.csv"'
    answer["Cache-Control"] = "private, no-store"
    writer = csv.DictWriter(answer, prices.COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(prices.rows_json(history))
    return answer


def drawn(history: History, shown: Range, own: Sequence[BidTrace], held: Sequence[Lease]) -> dict[str, Any]:
    """A chart's series. `points` are the prices exactly, as the API has them; the rest is for drawing."""
    points = history.points
    cap = next((point.cap_price for point in reversed(points) if point.cap_price is not None), None)
    low, high = _heights(history, own)
    is_far = high is not None and cap is not None and cap > high * MICRO_PER_DOLLAR
    return {
        "title": f"Price of {history.type.slug}",
        "as_of": _time(points[-1].at if points else shown.end),
        "follows": shown.follows,
        "window_seconds": (shown.end - shown.start).total_seconds(),
        "range": [_time(max(shown.start, points[0].at) if points else shown.start), _time(shown.end)],
        "heights": None if low is None else [low, high],
        "points": prices.rows_json(history),
        "x": [_time(point.at) for point in points],
        "series": [
            {"name": "Price", "unit": "$/h", "kind": "step", "tone": "accent", "y": _dollars(p.price for p in points)},
            {
                "name": "Base",
                "unit": "$/h",
                "kind": "step",
                "tone": "soft",
                "weight": "thin",
                "dash": "dot",
                "y": _dollars(p.base_price for p in points),
            },
            {
                "name": "Cap, above the picture" if is_far else "Cap",
                "unit": "$/h",
                "kind": "step",
                "tone": "bad",
                "weight": "thin",
                "dash": "dot",
                "y": _dollars(p.cap_price for p in points),
            },
            *(
                {
                    "name": f"Your bid: {each.name}",
                    "unit": "$/h",
                    "kind": "step",
                    "tone": "warn",
                    "dash": "dash",
                    "x": [_time(at) for at, _ in each.steps],
                    "y": _dollars(value for _, value in each.steps),
                }
                for each in own
            ),
        ],
        "gaps": [
            {"from": _time(gap.at), "to": _time(after.at), "why": "no price"}
            for gap, after in pairwise(points)
            if gap.is_gap
        ],
        "bands": [
            {
                "from": _time(max(lease.during.lower, shown.start)),
                "to": None if lease.during.upper is None else _time(min(lease.during.upper, shown.end)),
                "label": f"Your lease: {lease.job.name}",
            }
            for lease in held
        ],
    }


def _heights(history: History, own: Sequence[BidTrace]) -> tuple[float | None, float | None]:
    """The lowest and highest dollars to draw, so that the price itself can be read."""
    if history.lowest is None or history.highest is None:
        return None, None
    near = FAR_ABOVE * history.highest
    bids = [value for each in own for _, value in each.steps if value is not None and value <= near]
    bases = [point.base_price for point in history.points if point.base_price is not None]
    caps = [point.cap_price for point in history.points if point.cap_price is not None and point.cap_price <= near]
    low, high = min([history.lowest, *bids, *bases]), max([history.highest, *bids, *caps])
    margin = MARGIN * max(high - low, high / 10)
    return round((low - margin) / MICRO_PER_DOLLAR, 6), round((high + margin) / MICRO_PER_DOLLAR, 6)


def _found(cluster: str, slug: str) -> AcceleratorType:
    found = AcceleratorType.objects.filter(cluster__slug=cluster, slug=slug).select_related("cluster").first()
    if found is None:
        raise Http404
    return found


def _why(kind: AcceleratorType, row: ExchangeRow, asked: str) -> Why | None:
    """The receipt that was asked for, else the one of the present price."""
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 18 else row.receipt
    receipt = None if number is None else receipts.of(kind.cluster, number)
    if receipt is None or kind.slug not in receipt.types:
        return None
    return Why(receipt, dict(receipt.types[kind.slug]), is_newest=number == row.receipt)


def _kept(request: HttpRequest) -> str:
    """The part of the address that links to other clearings keep: the range and the zone."""
    kept = {name: request.GET[name] for name in ("range", "from", "to", "zone") if request.GET.get(name)}
    return f"&{urlencode(kept)}" if kept else ""


def _own(reader: Principal | None, row: ExchangeRow, table: exchange.Exchange) -> list[overview.OwnBid]:
    if reader is None or not sees_bids(reader):
        return []
    bids = overview.own_bids(reader.tenant, table.cluster, table)
    return [each for each in bids if each.bid.type_id == row.type.pk]


def _buckets(depth: Sequence[int]) -> list[Bucket]:
    fullest = max([*depth, 1])
    return [
        Bucket(words, count, f"{100 * count / fullest:.1f}") for words, count in zip(DEPTH_WORDS, depth, strict=True)
    ]


def _dollars(values: Iterable[int | None]) -> list[float | None]:
    """Prices for drawing only: what is written as a number comes from the exact points."""
    return [None if value is None else value / MICRO_PER_DOLLAR for value in values]


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
