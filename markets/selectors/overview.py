"""Many of a tenant's jobs at a glance, and its bids on one exchange: a number of queries that no row adds to."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from django.db.models import Count, Model, QuerySet

from markets.models import Award, Bid, Notice
from markets.selectors import exchange
from markets.selectors.exchange import Exchange, ExchangeRow
from markets.selectors.jobs import JobView
from tenants.models import Tenant
from workers.models import Checkpoint, Cluster, Job, Lease, Migration

M = TypeVar("M", bound=Model)
MOST_BIDS = 200


def views_of(jobs: Sequence[Job], *, now: datetime, whole: bool = False) -> list[JobView]:
    """Each job with what its line in a list shows, in the same order. The jobs come from `jobs.visible_to`, scoped.

    Args:
        whole: with the checkpoints too, which no line shows.
    """
    tables = {cluster: exchange.of(cluster, now=now) for cluster in {job.cluster for job in jobs}}
    bids = _by_job(Bid.objects.filter(job__in=jobs, closed_at=None).select_related("type").order_by("position"))
    leases = _by_job(Lease.objects.filter(job__in=jobs).select_related("type", "host").order_by("id"))
    moves = Migration.objects.filter(job__in=jobs).select_related("source__type", "destination__type", "checkpoint")
    migrations = _by_job(moves.order_by("id"))
    awards = _by_job(Award.objects.filter(job__in=jobs, state=Award.State.WAITING).select_related("type"))
    notices = _by_job(Notice.objects.filter(job__in=jobs, state=Notice.State.OPEN).select_related("lease__type"))
    committed = Checkpoint.objects.filter(job__in=jobs if whole else []).select_related("lease__type")
    checkpoints = _by_job(committed.order_by("id"))
    return [
        JobView(
            job=job,
            table=tables[job.cluster],
            bids=bids[job.pk],
            leases=leases[job.pk],
            migrations=migrations[job.pk],
            checkpoints=checkpoints[job.pk],
            award=next(iter(awards[job.pk]), None),
            notice=next(iter(notices[job.pk]), None),
        )
        for job in jobs
    ]


def _by_job(rows: Iterable[M]) -> defaultdict[int, list[M]]:
    """Rows with a job, grouped by its primary key."""
    grouped: defaultdict[int, list[M]] = defaultdict(list)
    for row in rows:
        grouped[row.job_id].append(row)  # type: ignore[attr-defined]  # every model asked for here has one
    return grouped


def counts_by_state(jobs: "QuerySet[Job]") -> dict[str, int]:
    """How many of some jobs are in each state in which there are any; the database counts."""
    return dict(jobs.order_by().values_list("state").annotate(Count("id")))


class Standing(StrEnum):
    """What one open bid comes to at present."""

    RUNS = "runs here"
    LEAVES = "leaving"
    WON = "won, waits for a unit"
    SEEKS = "preferred, still sought"
    ASLEEP = "not sought while it runs"
    FALLBACK = "fall-back"
    BEATEN = "does not beat the price"
    NO_HOST = "no host offers it"
    WAITS = "decided at the next tick"


@dataclass(frozen=True, slots=True)
class OwnBid:
    """One of the tenant's own open bids against the exchange row of its type. Never shown to anybody else."""

    bid: Bid
    row: ExchangeRow | None
    standing: Standing

    @property
    def counted(self) -> int:
        """What it counts for, in micro-dollars per hour: at most the cap; where the job runs, the price it keeps at."""
        stated = self.bid.max_price_per_hour
        if self.standing is Standing.RUNS:
            stated = self.bid.keep_price_per_hour or stated
        cap = self.bid.type.cap_price_per_hour
        return cap if stated is None else min(cap, stated)

    @property
    def headroom(self) -> int | None:
        """How far it lies above the price, negative below; None while there is no price."""
        return None if self.row is None or self.row.price is None else self.counted - self.row.price


def own_bids(tenant: Tenant, cluster: Cluster, table: Exchange) -> list[OwnBid]:
    """The tenant's open bids in one cluster, the newest jobs first, each in the order of its launch table."""
    rows = Bid.objects.filter(job__tenant=tenant, cluster=cluster, closed_at=None).select_related("job", "type")
    bids = list(rows.order_by("-job_id", "position")[:MOST_BIDS])
    return standings(bids, table)


def standings(bids: Sequence[Bid], table: Exchange) -> list[OwnBid]:
    """Open bids of whole launch tables, each with what it comes to at present."""
    jobs = {bid.job_id for bid in bids}
    seats = Lease.objects.filter(job__in=jobs).exclude(state=Lease.State.CLOSED)
    held = {(lease.job_id, lease.type_id): lease.state for lease in seats}
    won = set(
        Award.objects.filter(job__in=jobs, state=Award.State.WAITING).values_list("job_id", "type_id"),
    )
    places = {(bid.job_id, bid.type_id): bid.position for bid in bids}
    lowest: dict[int, int] = {}
    for job_id, type_id in held:
        place = places.get((job_id, type_id))
        if place is not None:
            lowest[job_id] = max(place, lowest.get(job_id, 0))
    rows = {row.type.pk: row for row in table.rows}
    return [
        OwnBid(
            bid=bid,
            row=rows.get(bid.type_id),
            standing=_standing(
                bid,
                rows.get(bid.type_id),
                seat=held.get((bid.job_id, bid.type_id)),
                is_won=(bid.job_id, bid.type_id) in won,
                runs_at=lowest.get(bid.job_id),
            ),
        )
        for bid in bids
    ]


def _standing(bid: Bid, row: ExchangeRow | None, *, seat: str | None, is_won: bool, runs_at: int | None) -> Standing:
    if seat is not None:
        return Standing.LEAVES if seat == Lease.State.CLOSING else Standing.RUNS
    if is_won:
        return Standing.WON
    if row is None or row.units_total == 0:
        return Standing.NO_HOST
    if runs_at is not None and bid.position > runs_at:
        return Standing.FALLBACK
    if runs_at is not None:
        return Standing.ASLEEP if bid.job.upgrade == Job.Upgrade.NEVER else Standing.SEEKS
    cap = bid.type.cap_price_per_hour
    own = cap if bid.max_price_per_hour is None else min(cap, bid.max_price_per_hour)
    if row.price is not None and (own < row.price or (own == row.price and row.units_free == 0)):
        return Standing.BEATEN
    return Standing.WAITS
