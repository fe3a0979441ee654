"""What a tenant itself did on one accelerator type over a stretch of time: its bids and its leases. Nobody else's."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from markets.models import Bid
from tenants.models import Tenant
from workers.models import AcceleratorType, Lease

MOST_JOBS = 3
MOST_LEASES = 50
MOST_BIDS = 2000


@dataclass(frozen=True, slots=True)
class BidTrace:
    """A job's maximum over time: from each instant on it bid so much, in micro-dollars per hour; None: no bid."""

    job: str
    name: str
    steps: tuple[tuple[datetime, int | None], ...]


def bids(tenant: Tenant, type_: AcceleratorType, start: datetime, end: datetime) -> list[BidTrace]:
    """The maxima of its newest jobs with bids in the range, as far as they counted: at most the present cap."""
    rows = Bid.objects.filter(Q(closed_at=None) | Q(closed_at__gt=start), job__tenant=tenant, type=type_)
    rows = rows.filter(opened_at__lt=end).select_related("job")
    jobs = list(dict.fromkeys(rows.order_by("-job_id").values_list("job_id", flat=True)[:MOST_BIDS]))[:MOST_JOBS]
    traces = []
    for job in jobs:
        own = list(rows.filter(job_id=job).order_by("-id")[:MOST_BIDS])[::-1]
        traces.append(BidTrace(own[0].job.public_id, own[0].job.name, _steps(own, type_, start, end)))
    return traces


def _steps(
    rows: list[Bid], type_: AcceleratorType, start: datetime, end: datetime
) -> tuple[tuple[datetime, int | None], ...]:
    """A step where a bid opens, and an end where none follows at once."""
    cap = type_.cap_price_per_hour
    steps: list[tuple[datetime, int | None]] = []
    for row in rows:
        if steps and steps[-1][0] >= row.opened_at:
            steps.pop()
        steps.append(
            (max(row.opened_at, start), cap if row.max_price_per_hour is None else min(cap, row.max_price_per_hour))
        )
        if row.closed_at is not None:
            steps.append((min(row.closed_at, end), None))
    return tuple(steps) if steps[-1][1] is None else (*steps, (end, steps[-1][1]))


def leases(tenant: Tenant, type_: AcceleratorType, start: datetime, end: datetime) -> list[Lease]:
    """Its leases of the type that were occupied in the range, the oldest first."""
    rows = Lease.objects.filter(job__tenant=tenant, type=type_, during__overlap=(start, end)).select_related("job")
    return list(rows.order_by("-id")[:MOST_LEASES])[::-1]
