"""Where a job's own losing bids stand among the others that lose: a place and a number, no amounts and no names.

A bid loses where a tick has seen it and its job has neither won nor got that row or one above it. Bids of winners, and
those that may be winners at the next tick, are not counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Least

from markets.models import Award, Bid
from workers.models import Job, Lease


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a bid among the losing ones of its type, 1 for the next to win, and how many there are."""

    place: int
    among: int


def of(bids: Sequence[Bid]) -> Mapping[int, Position]:
    """The positions of those of one job's open bids that lose, by accelerator type, in two queries."""
    if not bids:
        return {}
    own = {bid.type_id: bid for bid in _losing(bids[0].cluster_id).filter(pk__in=[bid.pk for bid in bids])}
    if not own:
        return {}
    before = Q()
    for bid in own.values():
        counted = bid.counted  # type: ignore[attr-defined]  # annotated
        earlier = Q(accepted_at__lt=bid.accepted_at) | Q(accepted_at=bid.accepted_at, job_id__lt=bid.job_id)
        before |= Q(type_id=bid.type_id) & (Q(counted__gt=counted) | Q(counted=counted) & earlier)
    rows = _losing(bids[0].cluster_id).filter(type_id__in=own).order_by().values("type_id")
    counts = rows.annotate(among=Count("id"), ahead=Count("id", filter=before))
    return {row["type_id"]: Position(place=row["ahead"] + 1, among=row["among"]) for row in counts}


def _losing(cluster_id: int) -> QuerySet[Bid]:
    """The open bids of a cluster that could win and have not."""
    held = Lease.objects.filter(job=OuterRef("job"), type=OuterRef("type")).exclude(state=Lease.State.CLOSED)
    won = Award.objects.filter(job=OuterRef("job"), type=OuterRef("type"), state=Award.State.WAITING)
    secured = Bid.objects.filter(
        Exists(held) | Exists(won), job=OuterRef("job"), closed_at=None, position__lte=OuterRef("position")
    )
    cap = F("type__cap_price_per_hour")
    return (
        Bid.objects.filter(~Exists(secured), cluster_id=cluster_id, closed_at=None)
        .filter(opened_at__lte=F("cluster__last_tick_at"))
        .filter(job__state__in=(Job.State.QUEUED, Job.State.RUNNING))
        .exclude(job__state=Job.State.RUNNING, job__upgrade=Job.Upgrade.NEVER)
        .annotate(counted=Least(Coalesce("max_price_per_hour", cap), cap))
        .filter(counted__gte=F("type__base_price_per_hour"))
    )
