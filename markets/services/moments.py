"""The moment at which a running job gives its source back, as far as the market's clock decides it.

A move at the workload's own checkpoint happens when the checkpoint is reported. What is left for the tick: jobs whose
agent said `migrate`, and jobs whose unit is claimed, that have no destination to go to; they save and leave for the
queue, with their award.
"""

from datetime import datetime

from laissez.events import Outbox
from markets.engine.dynamics import gives_source_back
from markets.engine.floor import Floor
from markets.models import Notice
from workers.models import Job, Lease
from workers.services import leases, migrations


def due(floor: Floor, *, now: datetime) -> set[int]:
    """Jobs that give their source back once their moment has come."""
    willing = [job.id for job in floor.jobs if gives_source_back(job)]
    rows = Job.objects.filter(pk__in=willing).select_related("newest_checkpoint")
    return {job.pk for job in rows if _has_come(job)}


def _has_come(job: Job) -> bool:
    """Now, or a checkpoint taken since the job was told or said that it would leave."""
    if job.leave_moment == "now" or job.upgrade == Job.Upgrade.NOW:
        return True
    since = job.leaving_since or _told_at(job)
    newest = job.newest_checkpoint
    return since is not None and newest is not None and newest.committed_at >= since


def _told_at(job: Job) -> datetime | None:
    notice = Notice.objects.filter(job=job, state=Notice.State.OPEN).order_by("id").first()
    return None if notice is None else notice.opened_at


def leave(job: Job, *, now: datetime, outbox: Outbox) -> bool:
    """Start the move to a confirmed destination, or save and leave for the queue without one.

    Looked at again under the job's lock: a move may have ended, or a notice been withdrawn, since the floor was read.
    """
    if migrations.open_of(job) is not None:
        return migrations.leave_now(job, now=now, outbox=outbox)
    notice = Notice.objects.filter(job=job, state=Notice.State.OPEN).select_related("lease").first()
    if notice is None or (job.leaving_since is None and notice.reason != Notice.Reason.CLAIMED):
        return False
    if not leases.is_primary(notice.lease):
        return False
    return migrations.leave(job, notice.lease, reason=Lease.Reason.OUTBID, now=now, outbox=outbox)
