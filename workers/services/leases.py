"""The life of a lease: hand over, activate, close, end. Each function is the one writer of its transition.

Callers hold the job's row lock. Funds, prices and notices are the market's business; it reads these rows.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.utils import IntegrityError
from psycopg.types.range import TimestamptzRange

from laissez.events import Outbox
from workers.models import Accelerator, Host, Job, Lease
from workers.services import announce, doorbell

PENDING_SECONDS = 60
CLOSING_GRACE_SECONDS = 10
OPEN_STATES = (Lease.State.PENDING, Lease.State.ACTIVE, Lease.State.CLOSING)
LIVE_STATES = (Lease.State.PENDING, Lease.State.ACTIVE)


def hand_over(job: Job, *, accelerator: Accelerator, now: datetime, outbox: Outbox) -> Lease | None:
    """Give a free device to a job: a pending lease with a fresh fence, primary unless the job still has a primary one.

    Returns:
        The lease, or None when somebody else got the device, or the job already has two leases, in the meantime.
    """
    try:
        with transaction.atomic():
            slot = _free_slot(job)
            if slot is None:
                return None
            usable = Accelerator.objects.filter(pk=accelerator.pk, healthy=True, host__state=Host.State.READY)
            if not usable.update(fence=F("fence") + 1):
                return None
            accelerator.refresh_from_db()
            primary = not any(is_primary(lease) for lease in open_leases(job))
            lease = Lease.objects.create(
                job=job,
                accelerator=accelerator,
                host_id=accelerator.host_id,
                type_id=accelerator.type_id,
                slot=slot,
                fence=accelerator.fence,
                during=TimestamptzRange(now, None),
                primary_during=TimestamptzRange(now, None) if primary else None,
                handed_over_at=now,
                pending_deadline=now + timedelta(seconds=PENDING_SECONDS),
                expires_at=now + timedelta(seconds=settings.LEASE_TTL_SECONDS),
            )
    except IntegrityError:
        return None
    announce.lease(lease, outbox, "handed_over")
    doorbell.ring(lease.host_id)
    return lease


def _free_slot(job: Job) -> int | None:
    taken = set(Lease.objects.filter(job=job).exclude(state=Lease.State.CLOSED).values_list("slot", flat=True))
    return next((slot for slot in (0, 1) if slot not in taken), None)


def activate(lease: Lease, *, now: datetime, outbox: Outbox) -> bool:
    """The host has confirmed the device: billing starts at this instant."""
    moved = Lease.objects.filter(pk=lease.pk, state=Lease.State.PENDING).update(
        state=Lease.State.ACTIVE,
        active_at=now,
        billed_during=TimestamptzRange(now, None),
        metered_until=now,
    )
    if moved:
        lease.refresh_from_db()
        announce.lease(lease, outbox, "active")
    return bool(moved)


def begin_closing(
    lease: Lease,
    *,
    reason: Lease.Reason,
    ending: Lease.Ending,
    now: datetime,
    outbox: Outbox,
    grace_seconds: float = CLOSING_GRACE_SECONDS,
) -> bool:
    """Tell a lease to leave: save first or stop at once, by a deadline after which nothing more is billed."""
    moved = Lease.objects.filter(pk=lease.pk, state__in=LIVE_STATES).update(
        state=Lease.State.CLOSING,
        reason=reason,
        ending=ending,
        closing_at=now,
        closing_deadline=now + timedelta(seconds=grace_seconds),
    )
    if moved:
        lease.refresh_from_db()
        announce.lease(lease, outbox, "closing")
        doorbell.ring(lease.host_id)
    return bool(moved)


def hasten(lease: Lease) -> None:
    """A closing lease that was to save has saved: nothing keeps it any longer."""
    Lease.objects.filter(pk=lease.pk, state=Lease.State.CLOSING).update(ending=Lease.Ending.STOP)
    lease.ending = Lease.Ending.STOP
    doorbell.ring(lease.host_id)


def close(lease: Lease, *, reason: Lease.Reason, at: datetime, billed_until: datetime | None, outbox: Outbox) -> bool:
    """End a lease's occupation. A reason given when it began to close is kept.

    Args:
        at: when the device came free.
        billed_until: when billing ended if that was earlier (a lost host's last accepted word).
    """
    row = Lease.objects.filter(pk=lease.pk, state__in=OPEN_STATES).first()
    if row is None:
        return False
    at = max(at, row.during.lower + timedelta(microseconds=1))
    row.during = TimestamptzRange(row.during.lower, at)
    if row.primary_during is not None and row.primary_during.upper is None:
        row.primary_during = _until(row.primary_during, at)
    if row.billed_during is not None:
        row.billed_during = _until(row.billed_during, _billing_end(row, at, billed_until))
    row.state = Lease.State.CLOSED
    row.reason = row.reason or reason
    row.ended_at = at
    row.save(update_fields=["during", "primary_during", "billed_during", "state", "reason", "ended_at"])
    lease.refresh_from_db()
    announce.lease(lease, outbox, "closed")
    return True


def _billing_end(row: Lease, at: datetime, billed_until: datetime | None) -> datetime:
    """Never after the hand-back, the deadline it was given, or the last accepted word of a lost host."""
    ends = [at, *(end for end in (row.closing_deadline, billed_until) if end is not None)]
    return max(min(ends), row.metered_until or row.billed_during.lower)


def _until(span: TimestamptzRange, at: datetime) -> TimestamptzRange:
    """The same range ended at an instant; an instant at or before its start leaves one microsecond, never nothing."""
    assert span.lower is not None  # every range of a lease is bounded below, by constraint
    return TimestamptzRange(span.lower, max(at, span.lower + timedelta(microseconds=1)))


def make_primary(lease: Lease, *, now: datetime, outbox: Outbox) -> None:
    """Move the job's primary tenure to this lease; the former one keeps running but speaks no more for the job."""
    former = Lease.objects.filter(job_id=lease.job_id, primary_during__upper_inf=True).exclude(pk=lease.pk).first()
    if former is not None:
        former.primary_during = _until(former.primary_during, now)
        former.save(update_fields=["primary_during"])
        announce.lease(former, outbox, "primary")
        now = max(now, former.primary_during.upper)
    if lease.primary_during is None:
        lease.primary_during = TimestamptzRange(now, None)
        lease.save(update_fields=["primary_during"])
        announce.lease(lease, outbox, "primary")
        doorbell.ring(lease.host_id)


def open_leases(job: Job) -> list[Lease]:
    """The job's leases that still occupy a device, the primary one first."""
    rows = Lease.objects.filter(job=job).exclude(state=Lease.State.CLOSED).order_by("id")
    return sorted(rows, key=lambda row: not is_primary(row))


def is_primary(lease: Lease) -> bool:
    """Whether this lease speaks for its job now."""
    return lease.primary_during is not None and lease.primary_during.upper is None
