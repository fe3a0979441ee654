"""From lease time and prices to billing slices and the ledger.

A lease's bill is the once-rounded integral of price over its billed time, so slicing never changes it: a slice is the
difference of two rounded running totals. Each lease is metered under its own row's lock, in its own transaction: one
lease that cannot be billed stops no other.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import pairwise

from django.db import DatabaseError
from django.db.models import F, Q
from psycopg.types.range import TimestamptzRange

from laissez import clock
from laissez.clock import microseconds
from laissez.errors import Refused
from laissez.events import Outbox, transact
from markets.engine.money import amount, format_price, integral
from markets.models import Bid, BillingSlice, Notice, Quote
from markets.services import actions, funds, notices
from tenants.models import Transfer
from tenants.selectors import available
from tenants.services import ledger
from workers.models import Cluster, Job, Lease
from workers.models.jobs import TERMINAL_JOB_STATES
from workers.services import jobs, leases

logger = logging.getLogger(__name__)

SLICE = timedelta(seconds=funds.SLICE_SECONDS)


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


def meter_cluster(cluster_id: int) -> int:
    """Bill what is due in one cluster: whole minutes of open leases, the rest of ended ones.

    Returns:
        How many leases were billed.
    """
    now = clock.now()
    billed = 0
    for lease_id in _due(cluster_id, now):
        try:
            billed += transact(partial(_meter_lease, lease_id))
        except (DatabaseError, Refused):
            logger.exception("lease %s could not be billed; it is tried again at the next tick", lease_id)
    for job_id in _settled(cluster_id):
        _guarded(partial(_release, job_id), job_id)
    for job_id in _over_budget(cluster_id, now):
        _guarded(partial(_warn, job_id), job_id)
    return billed


def _guarded(work: Callable[[Outbox], None], job_id: int) -> None:
    """One job in a transaction of its own: what goes wrong with it stops no other."""
    try:
        transact(work)
    except (DatabaseError, Refused):
        logger.exception("the funds of job %s could not be settled; it is tried again at the next tick", job_id)


def _due(cluster_id: int, now: datetime) -> list[int]:
    rows = Lease.objects.filter(host__cluster_id=cluster_id, billed_during__isnull=False)
    open_ones = Q(
        billed_during__upper_inf=True, metered_until__lte=now - SLICE, last_heard_at__gte=F("metered_until") + SLICE
    )
    ended = Q(billed_during__upper_inf=False, billed_during__endswith__gt=F("metered_until"))
    return list(rows.filter(open_ones | ended).order_by("id").values_list("id", flat=True))


def _meter_lease(lease_id: int, outbox: Outbox) -> bool:
    """Bill one lease up to now, under the cluster's and the job's locks.

    Quotes are written under the one, bids under the other, each dated before it is visible: with both held, nothing
    that is dated before now can still appear.
    """
    row = Lease.objects.select_related("host").get(pk=lease_id)
    Cluster.objects.select_for_update(no_key=True).get(pk=row.host.cluster_id)
    jobs.lock([row.job_id])
    lease = (
        Lease.objects.select_for_update(of=("self",), no_key=True)
        .select_related("job__tenant", "job__cluster", "type")
        .get(pk=lease_id)
    )
    until = _until(lease, outbox.now())
    if until is None:
        return False
    for start, end in _minutes(lease.metered_until, until):
        _slice(lease, start, end, outbox)
    return True


def _until(lease: Lease, now: datetime) -> datetime | None:
    """Up to when the lease is billed now: its end, or the last whole slice. None when nothing is due.

    Not after the host's last word of it: should the host be lost, its lease ends there.
    """
    span = lease.billed_during
    if span is None or lease.metered_until is None:
        return None
    if span.upper is not None:
        return span.upper if span.upper > lease.metered_until else None
    whole = (min(now, lease.last_heard_at or span.lower) - span.lower) // SLICE
    until: datetime = span.lower + whole * SLICE
    return until if until > lease.metered_until else None


def _minutes(start: datetime | None, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The slices from one instant to another: whole ones, and a shorter one at the end."""
    assert start is not None
    while start < until:
        end = min(start + SLICE, until)
        yield start, end
        start = end


def _slice(lease: Lease, start: datetime, end: datetime, outbox: Outbox) -> None:
    pieces = pieces_of(lease, start, end)
    total = int(lease.integral) + sum(_integral(piece) for piece in pieces)
    due = amount(total) - lease.billed_microdollars - lease.waived_microdollars
    transfer, charged = _charge(lease, due, start, outbox)
    BillingSlice.objects.create(
        lease=lease,
        during=TimestamptzRange(start, end),
        integral=Decimal(total),
        amount_microdollars=charged,
        waived_microdollars=due - charged,
        pieces=[piece.as_json() for piece in pieces],
        transfer=transfer,
    )
    lease.integral = Decimal(total)
    lease.billed_microdollars += charged
    lease.waived_microdollars += due - charged
    lease.metered_until = end
    lease.save(update_fields=["integral", "billed_microdollars", "waived_microdollars", "metered_until"])


def _charge(lease: Lease, due: int, start: datetime, outbox: Outbox) -> tuple[Transfer | None, int]:
    """Take what is due from the hold and the balance. What they do not cover is waived, and operators are told.

    A hold covers everything but what an outage of the control plane itself let run on.
    """
    hold = funds.open_hold(lease.job)
    covered = (hold.amount_microdollars if hold else 0) + max(0, available(lease.job.tenant))
    charged = min(due, covered)
    if charged < due:
        data = {"lease": lease.public_id, "due_microdollars": due, "charged_microdollars": charged}
        outbox.add("ops", "org.laissez.ops.charge.uncovered.v1", lease.job.public_id, data)
    if charged == 0:
        return None, 0
    transfer = ledger.charge(
        lease.job.tenant,
        amount_microdollars=charged,
        reference=lease.public_id,
        key=f"slice:{lease.public_id}:{microseconds(start)}",
        from_hold=hold,
        outbox=outbox,
    )
    return transfer, charged


def _integral(piece: Piece) -> int:
    return integral(piece.price_per_hour, microseconds(piece.start), microseconds(piece.end)) * funds.speedup()


def pieces_of(lease: Lease, start: datetime, end: datetime) -> list[Piece]:
    """The stretches of one price that a lease pays over a time: the lease price, never more than its own bid then."""
    return _Prices.of([lease], start, end).pieces(lease, start, end)


@dataclass(frozen=True, slots=True)
class _Prices:
    """Quotes by type, and bids by job and type, in the order in which they came into force."""

    quotes: Mapping[int, list[Quote]]
    bids: Mapping[tuple[int, int], list[Bid]]

    @classmethod
    def of(cls, leases: Sequence[Lease], start: datetime, end: datetime) -> "_Prices":
        """What was in force for these leases between two instants, in two queries."""
        quotes, bids = defaultdict(list), defaultdict(list)
        types = {lease.type_id for lease in leases}
        span = TimestamptzRange(start, end)
        for quote in Quote.objects.filter(type_id__in=types, during__overlap=span).order_by("during"):
            quotes[quote.type_id].append(quote)
        own = Bid.objects.filter(job_id__in={lease.job_id for lease in leases}, type_id__in=types, opened_at__lt=end)
        for bid in own.order_by("opened_at", "id"):
            bids[bid.job_id, bid.type_id].append(bid)
        return cls(quotes, bids)

    def pieces(self, lease: Lease, start: datetime, end: datetime) -> list[Piece]:
        """The pieces of one lease."""
        bids = self.bids.get((lease.job_id, lease.type_id), [])
        return list(_merged(_pieces(self.quotes.get(lease.type_id, []), bids, start, end)))


def _pieces(quotes: list[Quote], bids: list[Bid], start: datetime, end: datetime) -> Iterator[Piece]:
    marks = {start, end}
    marks |= {quote.during.lower for quote in quotes} | {bid.opened_at for bid in bids}
    marks |= {bid.closed_at for bid in bids if bid.closed_at is not None}
    inside = sorted(mark for mark in marks if start <= mark <= end)
    for lower, upper in pairwise(inside):
        quote = next((each for each in reversed(quotes) if each.during.lower <= lower), None)
        if quote is None:
            continue  # before the first quote there was no price, and nothing is owed
        own = _own_bid(bids, lower, quote)
        price = quote.lease_price_per_hour if own is None else min(quote.lease_price_per_hour, own)
        yield Piece(lower, upper, price, quote.pk, own is not None and own < quote.lease_price_per_hour)


def _own_bid(bids: list[Bid], instant: datetime, quote: Quote) -> int | None:
    """What the job bid for the row it held at an instant: its last word binds until a newer one, even as it leaves."""
    for bid in reversed(bids):
        if bid.opened_at <= instant:
            stated = bid.keep_price_per_hour or bid.max_price_per_hour
            return quote.cap_price_per_hour if stated is None else min(stated, quote.cap_price_per_hour)
    return None


def _merged(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Neighbours of the same price and quote as one piece."""
    last: Piece | None = None
    for piece in pieces:
        same = last is not None and (last.price_per_hour, last.quote, last.is_own_bid) == (
            piece.price_per_hour,
            piece.quote,
            piece.is_own_bid,
        )
        if last is not None and same:
            last = Piece(last.start, piece.end, last.price_per_hour, last.quote, last.is_own_bid)
        else:
            if last is not None:
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
    prices = _Prices.of(unbilled, min(starts), now) if starts else None
    costs = {}
    for lease, span in spans.items():
        if span is None or prices is None:
            costs[lease.pk] = lease.billed_microdollars + lease.waived_microdollars
        else:
            costs[lease.pk] = amount(int(lease.integral) + sum(map(_integral, prices.pieces(lease, *span))))
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
    moved = Quote.objects.filter(type_id__in=types, during__overlap=TimestamptzRange(first, now))
    if moved[: most_quotes + 1].count() > most_quotes:
        return {}
    prices = _Prices.of(list(spans), first, now)
    return {lease.pk: prices.pieces(lease, *span) for lease, span in spans.items()}


def price_of(pieces: Iterable[Piece], until: datetime) -> int:
    """Micro-dollars that pieces have cost up to an instant."""
    clipped = (replace(piece, end=min(piece.end, until)) for piece in pieces if piece.start < until)
    return amount(sum(map(_integral, clipped)))


def _unbilled(lease: Lease, now: datetime) -> tuple[datetime, datetime] | None:
    """From when to when a lease has been used but not yet billed."""
    span = lease.billed_during
    if span is None or lease.metered_until is None:
        return None
    until = min(now, span.upper) if span.upper is not None else now
    return (lease.metered_until, until) if until > lease.metered_until else None


def cost_of(job: Job, now: datetime) -> int:
    """Micro-dollars that a job has cost by now over all its leases."""
    return sum(running_costs(Lease.objects.filter(job=job), now).values())


def _settled(cluster_id: int) -> list[int]:
    """Jobs that are over or stopped, whose leases are all closed and billed, and whose hold is still open."""
    done = (*TERMINAL_JOB_STATES, Job.State.STOPPED)
    candidates = Job.objects.filter(cluster_id=cluster_id, state__in=done)
    held = funds.references(candidates.values_list("public_id", flat=True))
    owing = Lease.objects.exclude(state=Lease.State.CLOSED) | Lease.objects.filter(
        billed_during__isnull=False, billed_during__endswith__gt=F("metered_until")
    )
    return list(
        candidates.filter(public_id__in=held)
        .exclude(pk__in=owing.filter(job__cluster_id=cluster_id).values("job_id"))
        .values_list("pk", flat=True)
    )


def _release(job_id: int, outbox: Outbox) -> None:
    job = jobs.lock([job_id]).get(job_id)
    if job is not None and (jobs.is_over(job) or job.state == Job.State.STOPPED):
        actions.retire(job, now=outbox.now(), outbox=outbox)
        funds.release(job, outbox)


def _over_budget(cluster_id: int, now: datetime) -> list[int]:
    """Running jobs whose budget is spent or whose hold can no longer be renewed."""
    rows = Job.objects.filter(cluster_id=cluster_id, state=Job.State.RUNNING).exclude(
        notices__state=Notice.State.OPEN, notices__reason=Notice.Reason.BUDGET
    )
    return [job.pk for job in rows.select_related("tenant", "cluster") if _is_short(job, now)]


def _is_short(job: Job, now: datetime) -> bool:
    if job.budget_microdollars is not None and cost_of(job, now) >= job.budget_microdollars:
        return True
    hold = funds.open_hold(job)
    needed = funds.needed_for(job)
    return (hold.amount_microdollars if hold else 0) < needed


def _warn(job_id: int, outbox: Outbox) -> None:
    """Renew the hold; where that fails, or the budget is spent, give notice: state saved, then stopped."""
    job = jobs.lock([job_id]).get(job_id)
    if job is None or job.state != Job.State.RUNNING:
        return
    now = outbox.now()
    spent = job.budget_microdollars is not None and cost_of(job, now) >= job.budget_microdollars
    if not spent and funds.renew(job, outbox):
        return
    for lease in leases.open_leases(job):
        if lease.state not in leases.LIVE_STATES or not leases.is_primary(lease):
            continue
        superseded = [notice for notice in notices.open_of([job]) if notice.lease_id == lease.pk]
        endings = [notices.Ending(notice, Notice.State.WITHDRAWN) for notice in superseded]
        notices.close_all(endings, now=now, outbox=outbox)
        opening = notices.Opening(job, lease, Notice.Reason.BUDGET, price_per_hour=None)
        notices.open_all([opening], seconds=job.cluster.notice_seconds, now=now, outbox=outbox)
