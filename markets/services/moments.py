"""The moment at which a running job gives its source back, as far as the market's clock decides it.

A move at the workload's own checkpoint happens when the checkpoint is reported. What is left for the tick: jobs whose
agent said `migrate`, and jobs whose unit is claimed, that have no destination to go to; they save and leave for the
queue, with their award.
"""

from datetime import datetime

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from laissez.events import Outbox
from markets.engine.dynamics import gives_source_back
from markets.engine.floor import Floor
from markets.models import Notice
from workers.models import Job, Lease
from workers.services import leases, migrations


def due(floor: Floor) -> set[int]:
    """Jobs that give their source back, whose moment has come: now, or a checkpoint taken since they were to leave.

    That is since the job said that it would, or else since it was told.
    """
    willing = floor.jobs["id"][gives_source_back(floor)].tolist()
    if not willing:
        return set()
    told = Notice.objects.filter(job=OuterRef("pk"), state=Notice.State.OPEN).order_by("id").values("opened_at")[:1]
    at_once = Q(leave_moment="now") | Q(upgrade=Job.Upgrade.NOW)
    saved = Q(newest_checkpoint__committed_at__gte=Coalesce(F("leaving_since"), Subquery(told)))
    return set(Job.objects.filter(at_once | saved, pk__among=willing).values_list("pk", flat=True))


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
