"""The floor read plainly, through the ORM, a value for everything: what the arrays of a snapshot are compared with."""

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from laissez.clock import microseconds
from markets.engine.floor import Floor, FloorJob, OpenNotice, TableRow, Tenure, TypeOffer, Unit, WaitingAward
from markets.models import Award, Bid, CoolDown, Notice
from markets.selectors.floor import MOVES_WINDOW
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Job, Lease, Migration

OPEN_JOBS = ("queued", "running")


def read(cluster: Cluster, *, now: datetime) -> Floor:
    """The floor of one cluster. Cool-downs that are over are as good as none."""
    leases = list(Lease.objects.filter(host__cluster=cluster).exclude(state="closed").order_by("id"))
    return Floor.of(
        now=microseconds(now),
        notice_us=cluster.notice_seconds * 1_000_000,
        types=[
            TypeOffer(row.pk, row.base_price_per_hour, row.cap_price_per_hour)
            for row in AcceleratorType.objects.filter(cluster=cluster)
        ],
        units=_units(cluster, leases),
        jobs=[_job(cluster, job, now) for job in Job.objects.filter(cluster=cluster, state__in=OPEN_JOBS)],
    )


def _units(cluster: Cluster, leases: list[Lease]) -> list[Unit]:
    occupied = {lease.accelerator_id: lease.pk for lease in leases}
    rows = Accelerator.objects.filter(host__cluster=cluster).exclude(host__state=Host.State.RETIRED)
    return [
        Unit(row.pk, row.type_id, row.healthy and row.host.state == Host.State.READY, occupied.get(row.pk))
        for row in rows.select_related("host")
    ]


def _job(cluster: Cluster, job: Job, now: datetime) -> FloorJob:
    leases = list(Lease.objects.filter(job=job).exclude(state="closed").order_by("id"))
    notices = {notice.lease_id: notice for notice in Notice.objects.filter(job=job, state="open")}
    live = sorted((lease for lease in leases if lease.state != "closing"), key=lambda lease: not _is_primary(lease))
    source, destination = [*(_tenure(lease, notices) for lease in live), None, None][:2]
    award = Award.objects.filter(job=job, state="waiting").first()
    move = Migration.objects.filter(job=job, state="awarded").first()
    return FloorJob(
        id=job.pk,
        tenant=job.tenant_id,
        rows=tuple(_rows(job, now)),
        source=source,
        destination=destination,
        award=None if award is None else WaitingAward(award.pk, award.type_id, microseconds(award.since)),
        seeking=job.upgrade != "never" and not _is_tired(cluster, job, now),
        leaving=job.leaving_since is not None,
        seek_deadline=None if move is None or destination is None else microseconds(move.deadline),
        closing=tuple(_tenure(lease, {}) for lease in leases if lease.state == "closing"),
    )


def _rows(job: Job, now: datetime) -> list[TableRow]:
    rests = {row.type_id: microseconds(row.until) for row in CoolDown.objects.filter(job=job, until__gt=now)}
    return [
        TableRow(
            bid.type_id,
            bid.max_price_per_hour,
            bid.keep_price_per_hour,
            microseconds(bid.accepted_at),
            rests.get(bid.type_id, 0),
        )
        for bid in Bid.objects.filter(job=job, closed_at=None).order_by("position")
    ]


def _is_tired(cluster: Cluster, job: Job, now: datetime) -> bool:
    """Whether it has moved, and as often as the cluster allows in an hour."""
    moved = Migration.objects.filter(job=job, state="done", closed_at__gt=now - MOVES_WINDOW).count()
    return bool(moved) and moved >= cluster.max_moves_per_hour


def _is_primary(lease: Lease) -> bool:
    return lease.primary_during is not None and lease.primary_during.upper is None


def _tenure(lease: Lease, notices: Mapping[int, Notice]) -> Tenure:
    notice = notices.get(lease.pk)
    return Tenure(
        lease=lease.pk,
        unit=lease.accelerator_id,
        type=lease.type_id,
        state=lease.state,
        since=microseconds(lease.handed_over_at),
        notice=None if notice is None else OpenNotice(notice.pk, notice.reason, microseconds(notice.deadline)),
    )


def differences(one: Floor, other: Floor) -> dict[str, tuple[object, object]]:
    """The arrays and numbers in which two floors differ."""
    return {
        name: (mine, theirs)
        for name in Floor.__dataclass_fields__
        if not np.array_equal(mine := getattr(one, name), theirs := getattr(other, name))
    }
