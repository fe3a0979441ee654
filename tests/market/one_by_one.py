"""The first meter: one lease after the other, one job after the other, a query for everything it wants to know.

What the batches of `markets.services.metering` and `budgets` write is compared with what this one writes.
"""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from django.conf import settings
from django.db.models import F, Q
from psycopg.types.range import TimestamptzRange

from laissez.clock import microseconds
from laissez.errors import Refused
from laissez.events import Outbox
from markets.engine.money import MICROSECONDS_PER_SECOND, amount, format_price, integral
from markets.models import Bid, BillingSlice, Notice, Quote
from markets.services import actions, funds, metering, notices
from tenants.models import Hold
from tenants.selectors import available
from tenants.services import ledger
from workers.models import Job, Lease
from workers.models.jobs import TERMINAL_JOB_STATES
from workers.services import jobs, leases

SLICE = metering.SLICE


def due(cluster_id: int, now: datetime) -> list[int]:
    """The leases of which something is due."""
    rows = Lease.objects.filter(host__cluster_id=cluster_id, billed_during__isnull=False)
    open_ones = Q(
        billed_during__upper_inf=True, metered_until__lte=now - SLICE, last_heard_at__gte=F("metered_until") + SLICE
    )
    ended = Q(billed_during__upper_inf=False, billed_during__endswith__gt=F("metered_until"))
    return list(rows.filter(open_ones | ended).order_by("id").values_list("id", flat=True))


def meter(lease_id: int, outbox: Outbox) -> bool:
    """Bill one lease up to now."""
    lease = Lease.objects.select_related("job__tenant", "job__cluster", "type").get(pk=lease_id)
    until = _until(lease, outbox.now())
    if until is None:
        return False
    start = lease.metered_until
    assert start is not None
    while start < until:
        end: datetime = min(start + SLICE, until)
        _slice(lease, start, end, outbox)
        start = end
    return True


def _until(lease: Lease, now: datetime) -> datetime | None:
    span = lease.billed_during
    assert span is not None
    assert lease.metered_until is not None
    if span.upper is not None:
        return span.upper if span.upper > lease.metered_until else None
    until: datetime = span.lower + (min(now, lease.last_heard_at or span.lower) - span.lower) // SLICE * SLICE
    return until if until > lease.metered_until else None


def _slice(lease: Lease, start: datetime, end: datetime, outbox: Outbox) -> None:
    pieces = list(_pieces(lease, start, end))
    total = int(lease.integral) + sum(_integral(piece) for piece in pieces)
    owed = amount(total) - lease.billed_microdollars - lease.waived_microdollars
    hold = _open_hold(lease.job)
    charged = min(owed, (hold.amount_microdollars if hold else 0) + max(0, available(lease.job.tenant)))
    if charged < owed:
        data = {"lease": lease.public_id, "due_microdollars": owed, "charged_microdollars": charged}
        outbox.add("ops", "org.laissez.ops.charge.uncovered.v1", lease.job.public_id, data)
    transfer = None
    if charged:
        transfer = ledger.charge(
            lease.job.tenant,
            amount_microdollars=charged,
            reference=lease.public_id,
            key=f"slice:{lease.public_id}:{microseconds(start)}",
            from_hold=hold,
            outbox=outbox,
        )
    BillingSlice.objects.create(
        lease=lease,
        during=TimestamptzRange(start, end),
        integral=Decimal(total),
        amount_microdollars=charged,
        waived_microdollars=owed - charged,
        pieces=[_as_json(piece) for piece in pieces],
        transfer=transfer,
    )
    lease.integral = Decimal(total)
    lease.billed_microdollars += charged
    lease.waived_microdollars += owed - charged
    lease.metered_until = end
    lease.save(update_fields=["integral", "billed_microdollars", "waived_microdollars", "metered_until"])


Piece = tuple[datetime, datetime, int, int, bool]


def _integral(piece: Piece) -> int:
    start, end, price, _, _ = piece
    return integral(price, microseconds(start), microseconds(end)) * settings.METER_SPEEDUP


def _as_json(piece: Piece) -> dict[str, object]:
    start, end, price, quote, own = piece
    return {
        "from": start.isoformat(),
        "until": end.isoformat(),
        "price_per_hour": format_price(price),
        "quote": quote,
        "own_bid": own,
        "speedup": settings.METER_SPEEDUP,
    }


def _pieces(lease: Lease, start: datetime, end: datetime) -> Iterator[Piece]:
    quotes = list(
        Quote.objects.filter(type=lease.type, during__overlap=TimestamptzRange(start, end)).order_by("during")
    )
    bids = list(Bid.objects.filter(job=lease.job, type=lease.type, opened_at__lt=end).order_by("opened_at", "id"))
    marks = {start, end, *(quote.during.lower for quote in quotes), *(bid.opened_at for bid in bids)}
    marks |= {bid.closed_at for bid in bids if bid.closed_at is not None}
    last: Piece | None = None
    for lower, upper in pairwise(sorted(mark for mark in marks if start <= mark <= end)):
        quote = next((each for each in reversed(quotes) if each.during.lower <= lower), None)
        if quote is None:
            continue
        own = _own_bid(bids, lower, quote)
        price = quote.lease_price_per_hour if own is None else min(quote.lease_price_per_hour, own)
        said = (price, quote.pk, own is not None and own < quote.lease_price_per_hour)
        if last is not None and last[2:] == said:
            last = (last[0], upper, *said)
            continue
        if last is not None:
            yield last
        last = (lower, upper, *said)
    if last is not None:
        yield last


def _own_bid(bids: list[Bid], instant: datetime, quote: Quote) -> int | None:
    for bid in reversed(bids):
        if bid.opened_at <= instant:
            stated = bid.keep_price_per_hour or bid.max_price_per_hour
            return quote.cap_price_per_hour if stated is None else min(stated, quote.cap_price_per_hour)
    return None


def cost_of(job: Job, now: datetime) -> int:
    """What a job has cost by now."""
    total = 0
    for lease in Lease.objects.filter(job=job):
        total += lease.billed_microdollars + lease.waived_microdollars
        if lease.billed_during is not None and lease.metered_until is not None:
            until: datetime = min(now, lease.billed_during.upper or now)
            if until > lease.metered_until:
                unbilled = sum(_integral(piece) for piece in _pieces(lease, lease.metered_until, until))
                total += amount(int(lease.integral) + unbilled) - amount(int(lease.integral))
    return total


def needed_for(job: Job) -> int:
    """What a job's hold has to cover."""
    seconds = job.cluster.notice_seconds + leases.CLOSING_GRACE_SECONDS + funds.SLICE_SECONDS
    dearest = 0
    for bid in Bid.objects.filter(job=job, closed_at=None).select_related("type"):
        cap, highest = bid.type.cap_price_per_hour, bid.max_price_per_hour
        dearest = max(dearest, cap if highest is None else min(cap, max(highest, bid.keep_price_per_hour or 0)))
    devices = 2 if job.migration_mode == Job.MigrationMode.OVERLAP else 1
    return amount(integral(dearest, 0, seconds * MICROSECONDS_PER_SECOND * settings.METER_SPEEDUP)) * devices


def _open_hold(job: Job) -> Hold | None:
    return Hold.objects.filter(reference=job.public_id, released_at=None).first()


def settled(cluster_id: int) -> list[int]:
    """Jobs that are over or stopped, all billed, whose hold is still open."""
    found = []
    for job in Job.objects.filter(cluster_id=cluster_id, state__in=(*TERMINAL_JOB_STATES, Job.State.STOPPED)):
        owing = Lease.objects.exclude(state=Lease.State.CLOSED) | Lease.objects.filter(
            billed_during__isnull=False, billed_during__endswith__gt=F("metered_until")
        )
        if _open_hold(job) and not owing.filter(job=job).exists():
            found.append(job.pk)
    return sorted(found)


def release(job_id: int, outbox: Outbox) -> None:
    """Free one settled job's hold."""
    job = Job.objects.get(pk=job_id)
    actions.retire(job, now=outbox.now(), outbox=outbox)
    hold = _open_hold(job)
    if hold is not None:
        ledger.release_hold(hold, outbox=outbox)


def short(cluster_id: int) -> set[int]:
    """Running jobs whose holds are too small by now."""
    found = set()
    for job in _watched(cluster_id):
        hold = _open_hold(job)
        if (hold.amount_microdollars if hold else 0) < needed_for(job):
            found.add(job.pk)
    return found


def spent(cluster_id: int, now: datetime) -> set[int]:
    """Running jobs that have cost their budgets by now."""
    return {
        job.pk
        for job in _watched(cluster_id)
        if job.budget_microdollars is not None and cost_of(job, now) >= job.budget_microdollars
    }


def _watched(cluster_id: int) -> list[Job]:
    warned = Notice.objects.filter(state=Notice.State.OPEN, reason=Notice.Reason.BUDGET)
    rows = Job.objects.filter(cluster_id=cluster_id, state=Job.State.RUNNING).exclude(pk__in=warned.values("job_id"))
    return list(rows.select_related("tenant", "cluster").order_by("id"))


def renew_or_warn(job_id: int, outbox: Outbox) -> None:
    """Renew one job's hold; where that fails, or its budget is spent, give notice."""
    job = jobs.lock([job_id])[job_id]
    now = outbox.now()
    over = job.budget_microdollars is not None and cost_of(job, now) >= job.budget_microdollars
    if not over and _renew(job, outbox):
        return
    for lease in leases.open_leases(job):
        if lease.state not in leases.LIVE_STATES or not leases.is_primary(lease):
            continue
        superseded = [notice for notice in notices.open_of([job]) if notice.lease_id == lease.pk]
        endings = [notices.Ending(notice, Notice.State.WITHDRAWN) for notice in superseded]
        notices.close_all(endings, now=now, outbox=outbox)
        opening = notices.Opening(job, lease, Notice.Reason.BUDGET, price_per_hour=None)
        notices.open_all([opening], seconds=job.cluster.notice_seconds, now=now, outbox=outbox)


def _renew(job: Job, outbox: Outbox) -> bool:
    hold, needed = _open_hold(job), needed_for(job)
    try:
        if hold is None:
            ledger.place_hold(job.tenant, reference=job.public_id, amount_microdollars=needed, outbox=outbox)
        elif hold.amount_microdollars < needed:
            ledger.resize_hold(hold, amount_microdollars=needed, outbox=outbox)
    except Refused:
        return False
    return True
