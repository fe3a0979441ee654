"""The life of a lease: hand over, activate, close, end. Each function is the one writer of its transition.

Callers hold the job's row lock. Funds, prices and notices are the market's business; it reads these rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from psycopg.types.range import TimestamptzRange

from laissez.bulk import copy_instances
from laissez.events import Outbox
from workers.models import AcceleratorType, Host, Job, Lease
from workers.services import announce, doorbell
from workers.services.rereading import reread

PENDING_SECONDS = 60
CLOSING_GRACE_SECONDS = 10
OPEN_STATES = (Lease.State.PENDING, Lease.State.ACTIVE, Lease.State.CLOSING)
LIVE_STATES = (Lease.State.PENDING, Lease.State.ACTIVE)


def hand_over(pairs: Sequence[tuple[Job, int]], *, now: datetime, outbox: Outbox) -> dict[int, Lease]:
    """Give free devices to jobs: pending leases with fresh fences, primary unless the job still has a primary one.

    Args:
        pairs: jobs, each with the id of the accelerator that it is to get.

    Returns:
        The leases by job. One is missing when somebody else got the device, it failed, its host takes no leases, or the
        job has two leases already, in the meantime: none of them costs another hand-over anything.
    """
    if not pairs:
        return {}
    _lock_accelerators([accelerator for _, accelerator in pairs])
    seats = _seats([job for job, _ in pairs], now)
    rows = _insert([(job, accelerator) for job, accelerator in pairs if job.pk in seats], seats, now)
    for row in rows:
        announce.lease(row, outbox, "handed_over")
    doorbell.ring(*(row.host_id for row in rows))
    return {row.job_id: row for row in rows}


def _lock_accelerators(ids: Iterable[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM workers_accelerator WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [sorted(set(ids))]
        )


@dataclass(frozen=True, slots=True)
class _Seat:
    """Where a job has room for one more lease."""

    slot: int
    primary: bool


def _seats(jobs: Sequence[Job], now: datetime) -> dict[int, _Seat]:
    """The free slots of jobs that have one, and whether the lease there would speak for its job from now on."""
    held: dict[int, list[Lease]] = defaultdict(list)
    speaking = Q(primary_during__overlap=TimestamptzRange(now, None))
    rows = Lease.objects.filter(~Q(state=Lease.State.CLOSED) | speaking, job_id__among=[job.pk for job in jobs])
    for row in rows.only("job", "slot", "state", "primary_during"):
        held[row.job_id].append(row)
    seats = {job.pk: _seat(held[job.pk], now) for job in jobs}
    return {job_id: seat for job_id, seat in seats.items() if seat is not None}


def _seat(held: Sequence[Lease], now: datetime) -> _Seat | None:
    """None without a free slot, or where a primary tenure has ended later than now: the next tick finds room."""
    taken = {lease.slot for lease in held if lease.state != Lease.State.CLOSED}
    slot = next((slot for slot in (0, 1) if slot not in taken), None)
    primary = not any(is_primary(lease) for lease in held)
    ends = [lease.primary_during.upper for lease in held if lease.primary_during is not None]
    ended_later = any(end is not None and end > now for end in ends)
    return None if slot is None or (primary and ended_later) else _Seat(slot=slot, primary=primary)


def _insert(pairs: Sequence[tuple[Job, int]], seats: Mapping[int, _Seat], now: datetime) -> list[Lease]:
    """Write leases. The constraints have the last word: where one objects the halves are tried by themselves."""
    if not pairs:
        return []
    try:
        with transaction.atomic():
            rows = _fenced(pairs, seats, now)
            copy_instances(rows)
            return rows
    except IntegrityError:
        if len(pairs) == 1:
            return []
    half = len(pairs) // 2
    return [*_insert(pairs[:half], seats, now), *_insert(pairs[half:], seats, now)]


_RAISE_FENCES = """
    UPDATE workers_accelerator AS accelerator SET fence = accelerator.fence + 1
    FROM workers_host AS host
    WHERE accelerator.id = ANY(%s) AND accelerator.healthy AND host.id = accelerator.host_id AND host.state = %s
        AND NOT EXISTS (
            SELECT FROM workers_lease AS lease
            WHERE lease.accelerator_id = accelerator.id AND lease.during && tstzrange(%s, NULL)
        )
    RETURNING accelerator.id, accelerator.fence, accelerator.host_id, accelerator.type_id
"""


def _fenced(pairs: Sequence[tuple[Job, int]], seats: Mapping[int, _Seat], now: datetime) -> list[Lease]:
    """Raise the fences of those devices that can be handed over, and make their leases."""
    with connection.cursor() as cursor:
        cursor.execute(_RAISE_FENCES, [[accelerator for _, accelerator in pairs], Host.State.READY, now])
        usable = {accelerator: device for accelerator, *device in cursor.fetchall()}
    types = AcceleratorType.objects.in_bulk({type_id for _, _, type_id in usable.values()})
    rows = []
    for job, accelerator in pairs:
        if accelerator in usable:
            fence, host_id, type_id = usable[accelerator]
            row = _pending(job, seats[job.pk], now)
            row.accelerator_id, row.fence, row.host_id, row.type = accelerator, fence, host_id, types[type_id]
            rows.append(row)
    return rows


def _pending(job: Job, seat: _Seat, now: datetime) -> Lease:
    return Lease(
        job=job,
        slot=seat.slot,
        during=TimestamptzRange(now, None),
        primary_during=TimestamptzRange(now, None) if seat.primary else None,
        handed_over_at=now,
        pending_deadline=now + timedelta(seconds=PENDING_SECONDS),
        expires_at=now + timedelta(seconds=settings.LEASE_TTL_SECONDS),
    )


def activate(lease: Lease, *, now: datetime, outbox: Outbox) -> bool:
    """The host has confirmed the device: billing starts at this instant."""
    moved = Lease.objects.filter(pk=lease.pk, state=Lease.State.PENDING).update(
        state=Lease.State.ACTIVE,
        active_at=now,
        billed_during=TimestamptzRange(now, None),
        metered_until=now,
    )
    if moved:
        reread([lease])
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
    """`begin_closing_all`, for one lease."""
    return bool(
        begin_closing_all([(lease, reason)], ending=ending, now=now, outbox=outbox, grace_seconds=grace_seconds)
    )


_BEGIN_CLOSING = """
    UPDATE workers_lease AS lease
    SET state = %s, reason = wanted.reason, ending = %s, closing_at = %s, closing_deadline = %s
    FROM unnest(%s::bigint[], %s::text[]) AS wanted(id, reason)
    WHERE lease.id = wanted.id AND lease.state = ANY(%s)
    RETURNING lease.id
"""


def begin_closing_all(
    wanted: Sequence[tuple[Lease, Lease.Reason]],
    *,
    ending: Lease.Ending,
    now: datetime,
    outbox: Outbox,
    grace_seconds: float = CLOSING_GRACE_SECONDS,
) -> list[Lease]:
    """Tell leases to leave: save first or stop at once, by a deadline after which nothing more is billed.

    Returns:
        Those that were told; the others were leaving already.
    """
    if not wanted:
        return []
    ids, reasons = [lease.pk for lease, _ in wanted], [str(reason) for _, reason in wanted]
    deadline = now + timedelta(seconds=grace_seconds)
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN_CLOSING, [Lease.State.CLOSING, ending, now, deadline, ids, reasons, list(LIVE_STATES)])
        moved = {pk for (pk,) in cursor.fetchall()}
    told = [lease for lease, _ in wanted if lease.pk in moved]
    reread(told)
    for lease in told:
        announce.lease(lease, outbox, "closing")
    doorbell.ring(*(lease.host_id for lease in told))
    return told


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
    reread([lease])
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
    return open_leases_of([job])[job.pk]


def open_leases_of(jobs: Iterable[Job], *, besides: Iterable[Lease] = ()) -> Mapping[int, list[Lease]]:
    """`open_leases` of several jobs, by job; none is an empty list.

    Args:
        besides: leases to leave out.
    """
    held: dict[int, list[Lease]] = {job.pk: [] for job in jobs}
    rows = Lease.objects.filter(job_id__among=held).exclude(state=Lease.State.CLOSED)
    others = rows.exclude(pk__in=[lease.pk for lease in besides]).select_related("type").order_by("id")
    for row in others:
        held[row.job_id].append(row)
    return {job_id: sorted(leases, key=lambda row: not is_primary(row)) for job_id, leases in held.items()}


def is_primary(lease: Lease) -> bool:
    """Whether this lease speaks for its job now."""
    return lease.primary_during is not None and lease.primary_during.upper is None
