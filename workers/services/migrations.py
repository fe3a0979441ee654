"""Moving a job between leases. (A schema migration is always called that.)

    awarded -> checkpointing -> transferring -> restoring -> done | aborted(reason)

A migration opens when a running job has been handed a second device. The moment is the tenant's: at the next
checkpoint, or now. `stop_and_copy` gives the source back once the state is saved; `overlap` keeps it until the first
step on the destination, so that an aborted migration goes on where it was.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from laissez.bulk import copy_instances
from laissez.events import Outbox
from workers.models import Checkpoint, Job, Lease, Migration
from workers.services import announce, doorbell, jobs, leases
from workers.services.rereading import reread

SAVE_GRACE_SECONDS = 20
STUCK_SECONDS = 120
OPEN = (
    Migration.State.AWARDED,
    Migration.State.CHECKPOINTING,
    Migration.State.TRANSFERRING,
    Migration.State.RESTORING,
)
_MOVING = (Migration.State.CHECKPOINTING, Migration.State.TRANSFERRING, Migration.State.RESTORING)


def open_of(job: Job) -> Migration | None:
    """The job's migration under way, if any."""
    return _open_of([job]).get(job.pk)


def _open_of(jobs: Sequence[Job]) -> dict[int, Migration]:
    """The migrations under way, by job; what is told of them is loaded too."""
    given = {job.pk: job for job in jobs}
    rows = Migration.objects.filter(job_id__among=given, state__in=OPEN)
    found = {row.job_id: row for row in rows.select_related("source__type", "destination__type", "checkpoint")}
    for job_id, row in found.items():
        row.job = row.source.job = row.destination.job = given[job_id]
    return found


def begin(destinations: Sequence[Lease], *, now: datetime, outbox: Outbox) -> list[Migration]:
    """Devices have been handed over: those of their jobs that have another one begin to move.

    A source that is leaving already is saving its state by now.
    """
    if not destinations:
        return []
    sources = leases.open_leases_of([lease.job for lease in destinations], besides=destinations)
    rows = [
        _awarded(sources[destination.job_id][0], destination, now)
        for destination in destinations
        if sources[destination.job_id]
    ]
    copy_instances(rows)
    for row in rows:
        announce.migration(row, outbox)
    return rows


def _awarded(source: Lease, destination: Lease, now: datetime) -> Migration:
    job = destination.job
    saving = source.state == Lease.State.CLOSING
    return Migration(
        job=job,
        source=source,
        destination=destination,
        mode=Job.MigrationMode.STOP_AND_COPY if saving else job.migration_mode,
        state=Migration.State.CHECKPOINTING if saving else Migration.State.AWARDED,
        checkpointing_at=source.closing_at if saving else None,
        opened_at=now,
        deadline=now + timedelta(seconds=job.seek_seconds),
    )


def destination_confirmed(job: Job, destination: Lease, *, now: datetime, outbox: Outbox) -> None:
    """The destination's host has the device. A job whose moment is now leaves at once."""
    row = open_of(job)
    if row is None or row.destination_id != destination.pk:
        return
    Migration.objects.filter(pk=row.pk).update(destination_active_at=now)
    reread([row])
    announce.migration(row, outbox, "destination_active")
    if job.leave_moment == "now" or job.upgrade == Job.Upgrade.NOW:
        leave_now(job, now=now, outbox=outbox)


def leave_now(job: Job, *, now: datetime, outbox: Outbox) -> bool:
    """Start moving without waiting for the workload's own next checkpoint.

    Returns:
        Whether a move has started; False while there is no confirmed destination.
    """
    row = open_of(job)
    if row is None or row.state != Migration.State.AWARDED or row.destination.state != Lease.State.ACTIVE:
        return False
    if _is_fresh(job, row):
        assert job.newest_checkpoint is not None
        return reach_moment(job, job.newest_checkpoint, now=now, outbox=outbox)
    if row.mode == Job.MigrationMode.OVERLAP:
        jobs.request_checkpoint(job, now=now)
    else:
        leases.begin_closing(
            row.source,
            reason=Lease.Reason.MIGRATED,
            ending=Lease.Ending.SAVE,
            now=now,
            outbox=outbox,
            grace_seconds=SAVE_GRACE_SECONDS,
        )
    return _advance(row, Migration.State.CHECKPOINTING, (Migration.State.AWARDED,), outbox, checkpointing_at=now)


def leave(job: Job, lease: Lease, *, reason: Lease.Reason, now: datetime, outbox: Outbox) -> bool:
    """`leave_all`, for one job."""
    return bool(leave_all([(job, lease, reason)], now=now, outbox=outbox))


def leave_all(leaving: Sequence[tuple[Job, Lease, Lease.Reason]], *, now: datetime, outbox: Outbox) -> list[Lease]:
    """Make jobs save and leave a lease each: for its destination where a job has one, else for the queue.

    Returns:
        The leases that have begun to close.
    """
    closing = leases.begin_closing_all(
        [(lease, reason) for _, lease, reason in leaving],
        ending=Lease.Ending.SAVE,
        now=now,
        outbox=outbox,
        grace_seconds=SAVE_GRACE_SECONDS,
    )
    left = {lease.pk for lease in closing}
    under_way = _open_of([job for job, lease, _ in leaving if lease.pk in left]) if left else {}
    rows = [row for row in under_way.values() if row.source_id in left]
    _advance_all(rows, Migration.State.CHECKPOINTING, (Migration.State.AWARDED,), outbox, checkpointing_at=now)
    return closing


def _is_fresh(job: Job, row: Migration) -> bool:
    """Whether the newest checkpoint already holds all the progress that the source has reported."""
    newest = job.newest_checkpoint
    return newest is not None and newest.lease_id == row.source_id and newest.progress >= job.progress


def reach_moment(job: Job, checkpoint: Checkpoint, *, now: datetime, outbox: Outbox) -> bool:
    """A checkpoint of the source is committed and the destination can take it: hand the state over.

    Returns:
        Whether the source has to stop here (`stop_and_copy`).
    """
    row = open_of(job)
    if row is None or row.state not in (Migration.State.AWARDED, Migration.State.CHECKPOINTING):
        return False
    if row.destination.state != Lease.State.ACTIVE or checkpoint.lease_id != row.source_id:
        return False
    _advance(
        row,
        Migration.State.TRANSFERRING,
        (Migration.State.AWARDED, Migration.State.CHECKPOINTING),
        outbox,
        checkpoint=checkpoint,
        checkpointing_at=row.checkpointing_at or now,
        transferring_at=now,
    )
    if row.mode == Job.MigrationMode.OVERLAP:
        _advance(row, Migration.State.RESTORING, (Migration.State.TRANSFERRING,), outbox, restoring_at=now)
        return False
    leases.begin_closing(row.source, reason=Lease.Reason.MIGRATED, ending=Lease.Ending.STOP, now=now, outbox=outbox)
    leases.hasten(row.source)
    leases.make_primary(row.destination, now=now, outbox=outbox)
    return True


def source_ended(job: Job, source: Lease, *, now: datetime, outbox: Outbox) -> None:
    """The source's device is free: the destination goes on from the newest checkpoint there is."""
    row = open_of(job)
    if row is None or row.source_id != source.pk:
        return
    if Migration.objects.filter(pk=row.pk, source_stopped_at__isnull=True).update(source_stopped_at=now):
        reread([row])
        announce.migration(row, outbox, "source_stopped")
    if row.destination.state not in leases.LIVE_STATES:
        return
    leases.make_primary(row.destination, now=now, outbox=outbox)
    _advance(
        row,
        Migration.State.RESTORING,
        (Migration.State.AWARDED, Migration.State.CHECKPOINTING, Migration.State.TRANSFERRING),
        outbox,
        restoring_at=now,
        checkpoint=row.checkpoint or job.newest_checkpoint,
        checkpointing_at=row.checkpointing_at or now,
        transferring_at=row.transferring_at or now,
    )


def first_step(job: Job, lease: Lease, *, now: datetime, outbox: Outbox) -> bool:
    """The destination has taken its first step: the move is done, and an overlapping source is given back."""
    row = open_of(job)
    if row is None or row.destination_id != lease.pk or row.state not in _MOVING:
        return False
    return _conclude(job, row, now, outbox, first_step_at=now)


def _conclude(job: Job, row: Migration, now: datetime, outbox: Outbox, **stamps: datetime) -> bool:
    leases.make_primary(row.destination, now=now, outbox=outbox)
    leases.begin_closing(row.source, reason=Lease.Reason.MIGRATED, ending=Lease.Ending.STOP, now=now, outbox=outbox)
    done = _advance(row, Migration.State.DONE, _MOVING, outbox, closed_at=now, **stamps)
    if done:
        Job.objects.filter(pk=job.pk).update(leaving_since=None, leave_moment="", moves=job.moves + 1)
        reread([job])
        announce.job(job, outbox, "changed")
    return done


def overdue(now: datetime) -> list[int]:
    """Jobs whose move has been under way for longer than any step of it should take."""
    since = now - timedelta(seconds=STUCK_SECONDS)
    saving = Q(state=Migration.State.CHECKPOINTING, checkpointing_at__lt=since)
    starting = Q(state=Migration.State.RESTORING, restoring_at__lt=since)
    return list(Migration.objects.filter(saving | starting).order_by("job_id").values_list("job_id", flat=True))


def unstick(job: Job, *, now: datetime, outbox: Outbox) -> bool:
    """End a move that nobody will end: no checkpoint came, or the workload runs but never says that it steps.

    A program that reports no progress has no first step to wait for: once it runs, it has moved.
    """
    row = open_of(job)
    if row is None or job.pk not in overdue(now):
        return False
    if row.state == Migration.State.CHECKPOINTING and row.source.state in leases.LIVE_STATES:
        return abort(job, reason="no_checkpoint", now=now, outbox=outbox)
    if row.state == Migration.State.RESTORING and row.destination.observed == "running":
        return _conclude(job, row, now, outbox)
    return False


def abort(job: Job, *, reason: str, now: datetime, outbox: Outbox) -> bool:
    """`abort_all`, for one job."""
    return bool(abort_all([(job, reason)], now=now, outbox=outbox))


def abort_all(giving_back: Sequence[tuple[Job, str]], *, now: datetime, outbox: Outbox) -> list[Job]:
    """Give destinations back. A job goes on where it was, or is queued with its state when the source has gone.

    Args:
        giving_back: jobs, each with the reason.

    Returns:
        Those that had a migration under way.
    """
    under_way = _open_of([job for job, _ in giving_back])
    by_reason: dict[str, list[Migration]] = defaultdict(list)
    for job, reason in giving_back:
        if job.pk in under_way:
            by_reason[reason].append(under_way[job.pk])
    aborted: dict[int, Migration] = {}
    for reason, rows in by_reason.items():
        moved = _advance_all(rows, Migration.State.ABORTED, OPEN, outbox, reason=reason, closed_at=now)
        aborted |= {row.job_id: row for row in moved}
    jobs_back = [job for job, _ in giving_back if job.pk in aborted]
    leases.begin_closing_all(
        [(aborted[job.pk].destination, Lease.Reason.STOPPED) for job in jobs_back],
        ending=Lease.Ending.STOP,
        now=now,
        outbox=outbox,
    )
    jobs.want_to_stay(jobs_back, outbox=outbox)
    return jobs_back


def end_lease(
    job: Job, lease: Lease, *, reason: Lease.Reason, at: datetime, billed_until: datetime | None = None, outbox: Outbox
) -> bool:
    """A device has come free, however that came about: close its lease, and let its job go on or be queued."""
    row = open_of(job)
    if not leases.close(lease, reason=reason, at=at, billed_until=billed_until, outbox=outbox):
        return False
    if row is not None and row.destination_id == lease.pk:
        abort(job, reason=f"destination_{lease.reason}", now=at, outbox=outbox)
    elif row is not None:
        source_ended(job, lease, now=at, outbox=outbox)
    jobs.settle(job, lease, now=at, outbox=outbox)
    return True


def _advance(
    row: Migration, to: Migration.State, come_from: tuple[Migration.State, ...], outbox: Outbox, **changes: Any
) -> bool:
    return bool(_advance_all([row], to, come_from, outbox, **changes))


def _advance_all(
    rows: Sequence[Migration],
    to: Migration.State,
    come_from: tuple[Migration.State, ...],
    outbox: Outbox,
    **changes: Any,
) -> list[Migration]:
    """Advance those that are in a phase from which they can, and tell of it in the order given."""
    if not rows:
        return []
    there = Migration.objects.filter(pk__among=[row.pk for row in rows], state__in=come_from)
    movable = set(there.values_list("pk", flat=True))
    there.update(state=to, **changes)
    moved = [row for row in rows if row.pk in movable]
    reread(moved)
    for row in moved:
        announce.migration(row, outbox)
    doorbell.ring(*(row.destination.host_id for row in moved))
    return moved
