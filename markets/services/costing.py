"""What leases cost: the prices in force while they were used, never above their jobs' own bids, as pieces and as sums.

A lease pays the lease price of its type at each instant, at most what its job had last bid for that row by then. The
sum is the once-rounded integral of that price over time.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol

from django.db import connection

from laissez.clock import microseconds
from markets.engine.money import amount, format_price, integral
from markets.services import funds
from workers.models import Job, Lease

NEVER = datetime.max.replace(tzinfo=UTC)
QUOTES = """
    SELECT type.id, quote.id, quote.began, quote.ended, quote.lease_price_per_hour, quote.cap_price_per_hour
    FROM unnest(%(types)s::bigint[]) AS type(id) CROSS JOIN LATERAL (
        SELECT quote.*, lower(during) AS began, upper(during) AS ended FROM markets_quote AS quote
        WHERE markets_quoted(type_id, during, type.id, tstzrange(%(start)s, %(end)s))
        OFFSET 0  -- one type's few quotes at a time, by their index
    ) AS quote
    ORDER BY type.id, quote.began
"""
COUNT_QUOTES = """
    SELECT count(*) FROM (
        SELECT FROM unnest(%(types)s::bigint[]) AS type(id) CROSS JOIN LATERAL (
            SELECT FROM markets_quote
            WHERE markets_quoted(type_id, during, type.id, tstzrange(%(start)s, %(end)s))
            OFFSET 0
        ) AS quote
        LIMIT %(most)s
    ) AS counted
"""
OWN_BIDS = """
    SELECT own.job, own.type, bid.opened_at, coalesce(bid.keep_price_per_hour, bid.max_price_per_hour)
    FROM unnest(%(jobs)s::bigint[], %(types)s::bigint[]) AS own(job, type)
    CROSS JOIN LATERAL (
        (
            SELECT * FROM markets_bid
            WHERE job_id = own.job AND type_id = own.type AND opened_at <= %(start)s
            ORDER BY opened_at DESC, id DESC LIMIT 1
        )
        UNION ALL
        SELECT * FROM markets_bid
        WHERE job_id = own.job AND type_id = own.type AND opened_at > %(start)s AND opened_at < %(end)s
    ) AS bid
    ORDER BY own.job, own.type, bid.opened_at, bid.id
"""


class Tenure(Protocol):
    """What has a price: a lease, or as much of one as says whose bids on which type it pays at most."""

    @property
    def job_id(self) -> int:
        """The job's primary key."""

    @property
    def type_id(self) -> int:
        """The accelerator type's primary key."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of one price. `is_own_bid`: the job's own bid was below the exchange price, and is what it pays."""

    start: datetime
    end: datetime
    price_per_hour: int
    quote: int
    is_own_bid: bool

    def as_json(self) -> dict[str, object]:
        """The piece as it stands in its slice."""
        return {
            "from": self.start.isoformat(),
            "until": self.end.isoformat(),
            "price_per_hour": format_price(self.price_per_hour),
            "quote": self.quote,
            "own_bid": self.is_own_bid,
            "speedup": funds.speedup(),
        }

    def integral(self) -> int:
        """Micro-dollars per hour times microseconds, as the meter counts time."""
        return integral(self.price_per_hour, microseconds(self.start), microseconds(self.end)) * funds.speedup()


@dataclass(frozen=True, slots=True)
class _Quote:
    number: int
    start: datetime
    end: datetime
    price_per_hour: int
    cap_per_hour: int


@dataclass(slots=True)
class _Quotes:
    """The quotes of one type, in the order in which they came into force."""

    rows: list[_Quote] = field(default_factory=list)
    starts: list[datetime] = field(default_factory=list)
    ends: list[datetime] = field(default_factory=list)

    def add(self, row: _Quote) -> None:
        self.rows.append(row)
        self.starts.append(row.start)
        self.ends.append(row.end)

    def between(self, start: datetime, end: datetime) -> list[_Quote]:
        """Those in force at some instant between two."""
        return self.rows[bisect_right(self.ends, start) : bisect_left(self.starts, end)]


@dataclass(frozen=True, slots=True)
class _Bid:
    """What a job said for a row from an instant on; None is the cap."""

    opened_at: datetime
    stated_per_hour: int | None


@dataclass(frozen=True, slots=True)
class Prices:
    """Quotes by type, and bids by job and type, in the order in which they came into force."""

    quotes: Mapping[int, _Quotes]
    bids: Mapping[tuple[int, int], list[_Bid]]

    @classmethod
    def of(cls, leases: Collection[Tenure], start: datetime, end: datetime) -> "Prices":
        """What was in force for these leases between two instants, in two queries.

        Of each row's bids that is the last one by the start, however old, and what came after it.
        """
        quotes: dict[int, _Quotes] = defaultdict(_Quotes)
        with connection.cursor() as cursor:
            cursor.execute(QUOTES, {"types": sorted({lease.type_id for lease in leases}), "start": start, "end": end})
            for type_id, number, began, ended, price, cap in cursor.fetchall():
                quotes[type_id].add(_Quote(number, began, ended or NEVER, price, cap))
        return cls(quotes, _own_bids({(lease.job_id, lease.type_id) for lease in leases}, start, end))

    def pieces(self, lease: Tenure, start: datetime, end: datetime) -> list[Piece]:
        """The stretches of one price of one lease; none where no price had been quoted yet."""
        quotes = self.quotes.get(lease.type_id)
        if quotes is None:
            return []
        bids = self.bids.get((lease.job_id, lease.type_id), [])
        return list(_merged(_pieces(quotes.between(start, end), bids, start, end)))


def _own_bids(rows: Collection[tuple[int, int]], start: datetime, end: datetime) -> dict[tuple[int, int], list[_Bid]]:
    ordered = sorted(rows)
    bids = defaultdict(list)
    with connection.cursor() as cursor:
        named = {"jobs": [job for job, _ in ordered], "types": [kind for _, kind in ordered]}
        cursor.execute(OWN_BIDS, named | {"start": start, "end": end})
        for job, kind, opened_at, stated in cursor.fetchall():
            bids[job, kind].append(_Bid(opened_at, stated))
    return bids


def _pieces(quotes: Sequence[_Quote], bids: Sequence[_Bid], start: datetime, end: datetime) -> Iterator[Piece]:
    marks = {start, end}
    marks |= {quote.start for quote in quotes if start < quote.start < end}
    marks |= {bid.opened_at for bid in bids if start < bid.opened_at < end}
    quoted_from = [quote.start for quote in quotes]
    said_from = [bid.opened_at for bid in bids]
    for lower, upper in pairwise(sorted(marks)):
        place = bisect_right(quoted_from, lower)
        if not place:
            continue  # before the first quote there was no price, and nothing is owed
        quote = quotes[place - 1]
        said = bisect_right(said_from, lower)
        own = _counted(bids[said - 1], quote) if said else quote.price_per_hour
        yield Piece(lower, upper, min(quote.price_per_hour, own), quote.number, own < quote.price_per_hour)


def _counted(bid: _Bid, quote: _Quote) -> int:
    """What the job bid for the row it held: its last word binds until a newer one, even as it leaves."""
    return quote.cap_per_hour if bid.stated_per_hour is None else min(bid.stated_per_hour, quote.cap_per_hour)


def _merged(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of the same price and quote as one piece."""
    last: Piece | None = None
    for piece in pieces:
        if last is None:
            last = piece
        elif (last.price_per_hour, last.quote, last.is_own_bid) == (
            piece.price_per_hour,
            piece.quote,
            piece.is_own_bid,
        ):
            last = replace(last, end=piece.end)
        else:
            yield last
            last = piece
    if last is not None:
        yield last


def running_cost(lease: Lease, now: datetime) -> int:
    """Micro-dollars that a lease has cost by now, billed or not: what its bill would be if it ended at this instant."""
    return running_costs([lease], now)[lease.pk]


def running_costs(rows: Iterable[Lease], now: datetime) -> dict[int, int]:
    """`running_cost` of many leases by id, in two queries."""
    spans = {lease: _unbilled(lease, now) for lease in rows}
    starts = [span[0] for span in spans.values() if span is not None]
    unbilled = [lease for lease, span in spans.items() if span is not None]
    prices = Prices.of(unbilled, min(starts), now) if starts else None
    costs = {}
    for lease, span in spans.items():
        if span is None or prices is None:
            costs[lease.pk] = lease.billed_microdollars + lease.waived_microdollars
        else:
            costs[lease.pk] = amount(int(lease.integral) + sum(map(Piece.integral, prices.pieces(lease, *span))))
    return costs


def _unbilled(lease: Lease, now: datetime) -> tuple[datetime, datetime] | None:
    """From when to when a lease has been used but not yet billed."""
    span = lease.billed_during
    if span is None or lease.metered_until is None:
        return None
    until = min(now, span.upper) if span.upper is not None else now
    return (lease.metered_until, until) if until > lease.metered_until else None


def cost_of(job: Job, now: datetime) -> int:
    """Micro-dollars that a job has cost by now over all its leases."""
    return costs_of([job.pk], now)[job.pk]


def costs_of(job_ids: Iterable[int], now: datetime) -> dict[int, int]:
    """`cost_of` of many jobs by id, in three queries."""
    costs = dict.fromkeys(job_ids, 0)
    rows = list(Lease.objects.filter(job_id__in=list(costs)))
    by_lease = running_costs(rows, now)
    for lease in rows:
        costs[lease.job_id] += by_lease[lease.pk]
    return costs


def paid(rows: Iterable[Lease], now: datetime, *, most_quotes: int) -> dict[int, list[Piece]]:
    """What leases have paid per hour since they were confirmed, by id, in three queries.

    Empty where the price has moved more than `most_quotes` times meanwhile: what is left to say then is an average.
    """
    spans = {lease: (span.lower, min(now, span.upper or now)) for lease in rows if (span := lease.billed_during)}
    spans = {lease: (start, end) for lease, (start, end) in spans.items() if start < end}
    if not spans:
        return {}
    first, types = min(start for start, _ in spans.values()), {lease.type_id for lease in spans}
    with connection.cursor() as cursor:
        cursor.execute(COUNT_QUOTES, {"types": list(types), "start": first, "end": now, "most": most_quotes + 1})
        if cursor.fetchone()[0] > most_quotes:
            return {}
    prices = Prices.of(list(spans), first, now)
    return {lease.pk: prices.pieces(lease, *span) for lease, span in spans.items()}


def price_of(pieces: Iterable[Piece], until: datetime) -> int:
    """Micro-dollars that pieces have cost up to an instant."""
    clipped = (replace(piece, end=min(piece.end, until)) for piece in pieces if piece.start < until)
    return amount(sum(map(Piece.integral, clipped)))
