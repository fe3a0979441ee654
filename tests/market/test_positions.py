"""Where losing bids stand, against the definition written down plainly, at every moment of random lives."""

import pytest

from markets.models import Award, Bid
from markets.selectors import positions
from markets.selectors.positions import Position
from tests.feed.lives import Floor
from workers.models import Cluster, Job, Lease

pytestmark = pytest.mark.django_db(transaction=True)

ACTS, LOOK_EVERY = 60, 2
OPEN = (Job.State.QUEUED, Job.State.RUNNING)
"""A job that has ended may have open bids for a moment, until the tick has seen it."""


def loses(bid: Bid, last_tick_at: object) -> bool:
    """Whether a tick has seen it, it could win, and its job has neither got that row nor one above it."""
    job, kind = bid.job, bid.type
    if bid.opened_at > last_tick_at or (job.state == Job.State.RUNNING and job.upgrade == Job.Upgrade.NEVER):  # type: ignore[operator]
        return False
    above = job.bids.filter(closed_at=None, position__lte=bid.position).values_list("type_id", flat=True)
    got = Lease.objects.filter(job=job, type_id__in=above).exclude(state="closed").exists()
    got = got or Award.objects.filter(job=job, type_id__in=above, state="waiting").exists()
    return not got and counted(bid) >= kind.base_price_per_hour


def counted(bid: Bid) -> int:
    cap = bid.type.cap_price_per_hour
    return cap if bid.max_price_per_hour is None else min(cap, bid.max_price_per_hour)


def plainly(job: Job, losing: list[Bid]) -> dict[int, Position]:
    found = {}
    for own in (bid for bid in losing if bid.job_id == job.pk):
        rivals = [bid for bid in losing if bid.type_id == own.type_id]
        rivals.sort(key=lambda bid: (-counted(bid), bid.accepted_at, bid.job_id))
        found[own.type_id] = Position(place=rivals.index(own) + 1, among=len(rivals))
    return found


@pytest.mark.parametrize("seed", [12, pytest.param(11, marks=pytest.mark.slow)])
def test_positions_are_what_they_are_defined_to_be(seed: int) -> None:
    floor = Floor(seed)
    seen = 0
    for act in range(ACTS):
        floor.act()
        last_tick_at = Cluster.objects.get(pk=floor.cluster.pk).last_tick_at
        if act % LOOK_EVERY or last_tick_at is None:
            continue
        rows = Bid.objects.filter(closed_at=None).select_related("job", "type").order_by("id")
        losing = [bid for bid in rows if bid.job.state in OPEN and loses(bid, last_tick_at)]
        for job in Job.objects.filter(state__in=OPEN):
            found = positions.of(list(job.bids.filter(closed_at=None).order_by("position")))
            assert found == plainly(job, losing)
            seen += len(found)
    assert seen > 10
