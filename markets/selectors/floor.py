"""The floor of a cluster as values: what one tick reads, in a handful of queries, under the cluster's lock."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from django.db import connection

from laissez.clock import microseconds
from markets.engine.floor import (
    Floor,
    FloorJob,
    OpenNotice,
    TableRow,
    Tenure,
    TenureState,
    TypeOffer,
    Unit,
    WaitingAward,
)
from markets.models import Award, Notice
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Job, Lease, Migration

_TENURE_STATES: dict[str, TenureState] = {"pending": "pending", "active": "active", "closing": "closing"}
_OPEN_JOBS = (Job.State.QUEUED, Job.State.RUNNING)
MOVES_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A floor, and the database snapshot in which its bids were read."""

    floor: Floor
    watermark: str

    def fingerprint(self) -> str:
        """A digest of everything but the time: equal digests mean that nothing has changed."""
        still = (self.floor.notice_us, self.floor.types, self.floor.units, self.floor.jobs)
        return sha256(repr(still).encode()).hexdigest()


def read(cluster: Cluster, *, now: datetime) -> Snapshot:
    """Read the floor of one cluster. The caller holds the cluster's lock, so only hosts and tenants write meanwhile."""
    leases = _open_leases(cluster)
    jobs = list(Job.objects.filter(cluster=cluster, state__in=_OPEN_JOBS).order_by("id"))
    tables, watermark = _tables(cluster, [job.pk for job in jobs])
    floor = Floor(
        now=microseconds(now),
        notice_us=cluster.notice_seconds * 1_000_000,
        types=tuple(
            TypeOffer(id=row.pk, base=row.base_price_per_hour, cap=row.cap_price_per_hour)
            for row in AcceleratorType.objects.filter(cluster=cluster).order_by("id")
        ),
        units=_units(cluster, leases),
        jobs=_jobs(cluster, jobs, tables, leases, now),
    )
    return Snapshot(floor=floor, watermark=watermark)


def _open_leases(cluster: Cluster) -> list[Lease]:
    rows = Lease.objects.filter(host__cluster=cluster).exclude(state=Lease.State.CLOSED)
    return list(rows.order_by("id"))


def _units(cluster: Cluster, leases: list[Lease]) -> tuple[Unit, ...]:
    occupied = {lease.accelerator_id: lease.pk for lease in leases}
    rows = Accelerator.objects.filter(host__cluster=cluster).exclude(host__state=Host.State.RETIRED)
    values = rows.order_by("id").values_list("id", "type_id", "healthy", "host__state")
    return tuple(
        Unit(id=pk, type=type_id, usable=healthy and state == Host.State.READY, lease=occupied.get(pk))
        for pk, type_id, healthy, state in values
    )


def _jobs(
    cluster: Cluster, jobs: list[Job], tables: dict[int, list[TableRow]], leases: list[Lease], now: datetime
) -> tuple[FloorJob, ...]:
    ids = [job.pk for job in jobs]
    held: dict[int, list[Lease]] = defaultdict(list)
    for lease in leases:
        held[lease.job_id].append(lease)
    notices = {row.lease_id: row for row in Notice.objects.filter(job__in=ids, state=Notice.State.OPEN)}
    awards = {row.job_id: row for row in Award.objects.filter(job__in=ids, state=Award.State.WAITING)}
    moving = dict(
        Migration.objects.filter(job__in=ids, state=Migration.State.AWARDED).values_list("job_id", "deadline")
    )
    tired = _tired(cluster, ids, now)
    return tuple(
        _job(job, tables[job.pk], held[job.pk], notices, awards.get(job.pk), moving.get(job.pk), job.pk in tired)
        for job in jobs
    )


# One statement reads one snapshot of the database, so that the watermark is that of the very bids beside it. A snapshot
# does not list its own transaction as running; here it must, because what this tick closes later was open when read.
_BIDS = """
    SELECT seen.snapshot, seen.own, bid.job_id, bid.type_id, bid.max_price_per_hour, bid.keep_price_per_hour,
           bid.accepted_at, rest.until
    FROM (SELECT pg_current_snapshot()::text AS snapshot, pg_current_xact_id()::text::bigint AS own) AS seen
    LEFT JOIN markets_bid AS bid
        ON bid.cluster_id = %s AND bid.closed_at IS NULL AND bid.job_id = ANY(%s)
    LEFT JOIN markets_cooldown AS rest ON rest.job_id = bid.job_id AND rest.type_id = bid.type_id
    ORDER BY bid.job_id, bid.position
"""


def _tables(cluster: Cluster, ids: list[int]) -> tuple[dict[int, list[TableRow]], str]:
    """The launch tables of these jobs, and the watermark of exactly these bids."""
    tables: dict[int, list[TableRow]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_BIDS, [cluster.pk, ids])
        rows = cursor.fetchall()
    for _, _, job, type_id, highest, keep, accepted_at, until in rows:
        if job is not None:
            closed_until = 0 if until is None else microseconds(until)
            tables[job].append(TableRow(type_id, highest, keep, microseconds(accepted_at), closed_until))
    return tables, watermark_of(rows[0][0], own=rows[0][1])


def watermark_of(snapshot: str, *, own: int) -> str:
    """A snapshot as text with the reading transaction among those that were still running."""
    lowest, highest, running = snapshot.split(":")
    if own >= int(highest):
        return snapshot
    others = [int(each) for each in running.split(",") if each]
    return f"{min(int(lowest), own)}:{highest}:{','.join(str(each) for each in sorted({*others, own}))}"


def _tired(cluster: Cluster, ids: list[int], now: datetime) -> set[int]:
    """Jobs that have moved as often as the cluster allows in an hour: they seek nothing for now."""
    since = now - MOVES_WINDOW
    moved: dict[int, int] = defaultdict(int)
    done = Migration.objects.filter(job__in=ids, state=Migration.State.DONE, closed_at__gt=since)
    for job_id in done.values_list("job_id", flat=True):
        moved[job_id] += 1
    return {job_id for job_id, times in moved.items() if times >= cluster.max_moves_per_hour}


def _job(
    job: Job,
    rows: list[TableRow],
    leases: list[Lease],
    notices: dict[int, Notice],
    award: Award | None,
    seek_deadline: datetime | None,
    is_tired: bool,
) -> FloorJob:
    live = sorted(
        (lease for lease in leases if lease.state != Lease.State.CLOSING), key=lambda lease: not _is_primary(lease)
    )
    source = live[0] if live else None
    destination = live[1] if len(live) > 1 else None
    return FloorJob(
        id=job.pk,
        tenant=job.tenant_id,
        state="running" if source is not None else "queued",
        rows=tuple(rows),
        source=None if source is None else _tenure(source, notices),
        destination=None if destination is None else _tenure(destination, notices),
        award=None if award is None else WaitingAward(award.pk, award.type_id, microseconds(award.since)),
        seeking=job.upgrade != Job.Upgrade.NEVER and not is_tired,
        leaving=job.leaving_since is not None,
        seek_deadline=None if seek_deadline is None or destination is None else microseconds(seek_deadline),
        closing=tuple(_tenure(lease, {}) for lease in leases if lease.state == Lease.State.CLOSING),
    )


def _is_primary(lease: Lease) -> bool:
    return lease.primary_during is not None and lease.primary_during.upper is None


def _tenure(lease: Lease, notices: dict[int, Notice]) -> Tenure:
    notice = notices.get(lease.pk)
    return Tenure(
        lease=lease.pk,
        unit=lease.accelerator_id,
        type=lease.type_id,
        state=_TENURE_STATES[lease.state],
        since=microseconds(lease.handed_over_at),
        notice=None if notice is None else OpenNotice(notice.pk, notice.reason, microseconds(notice.deadline)),
    )
