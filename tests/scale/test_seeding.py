"""Filling a cluster at once: what is copied in could have been written by the services, and the market is at rest."""

import numpy as np
import pytest

from laissez.management.commands.check_invariants import look
from markets.models import Award, Bid, Notice, Quote
from markets.scale.changing import change_bids, change_share
from markets.scale.seeding import Shape, seed
from markets.services import funds, metering, scheduling
from tests.elapsing import pass_time
from tests.flushing import empty_tables
from workers.models import Accelerator, Cluster, Job, Lease
from workers.services import specs

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = Shape(hosts=12, accelerators_per_host=2, jobs=60, running=18, types=4, rows_per_job=3, tenants=5)


def seeded(shape: Shape = SMALL, number: int = 1) -> Cluster:
    return seed(shape, generator=np.random.default_rng(number))


def test_a_seeded_market_breaks_no_invariant() -> None:
    seeded()
    assert look() == []


def test_there_is_as_much_as_was_asked_for() -> None:
    seeded()
    assert Job.objects.filter(state="queued").count() == SMALL.jobs - SMALL.running
    assert Bid.objects.filter(closed_at=None).count() == SMALL.jobs * SMALL.rows_per_job
    assert Lease.objects.filter(state="active").count() == SMALL.running
    assert Accelerator.objects.count() == SMALL.hosts * SMALL.accelerators_per_host


def test_a_seeded_market_that_is_full_is_at_rest() -> None:
    full = Shape(hosts=12, jobs=60, running=12, types=4, rows_per_job=3, tenants=5)
    cluster = seeded(full)
    assert scheduling.tick(cluster.pk) == scheduling.Outcome.CLEARED
    assert not Notice.objects.exists()
    assert not Award.objects.filter(state="waiting").exists()
    assert scheduling.tick(cluster.pk) == scheduling.Outcome.UNCHANGED
    assert look() == []


def test_free_units_of_a_seeded_market_go_to_who_waits() -> None:
    cluster = seeded()
    for _ in range(2):
        scheduling.tick(cluster.pk)
    assert Lease.objects.filter(state="pending").count() > 0
    assert look() == []


def test_a_seeded_market_is_billed_from_its_seeding_on() -> None:
    cluster = seeded(Shape(hosts=6, jobs=20, running=6, types=2, rows_per_job=2, tenants=2))
    scheduling.tick(cluster.pk)
    pass_time(130)
    Lease.objects.filter(state="active").update(last_heard_at=Lease.objects.latest("id").last_heard_at)
    metering.meter_cluster(cluster.pk)
    assert look() == []


def test_every_hold_covers_what_its_job_bids() -> None:
    seeded()
    for job in Job.objects.select_related("cluster"):
        hold = funds.open_hold(job)
        assert hold is not None
        assert hold.amount_microdollars >= funds.needed_for(job)


def test_every_spec_is_one_that_submitting_would_have_kept() -> None:
    seeded()
    for job in Job.objects.order_by("id"):
        assert specs.row_faults(job.spec["rows"]) == []
        bids = Bid.objects.filter(job=job).order_by("position").select_related("type")
        assert [row["accelerator_type"] for row in job.spec["rows"]] == [bid.type.slug for bid in bids]


def test_equal_seeds_make_equal_markets() -> None:
    def figures(number: int) -> list[tuple[object, ...]]:
        rows = Bid.objects.filter(cluster=seeded(number=number)).order_by("id")
        found = list(rows.values_list("public_id", "type__slug", "max_price_per_hour", "position", "job__tenant__name"))
        empty_tables()
        return found

    first = figures(1)
    assert first == figures(1)
    assert first != figures(2)


def test_more_running_jobs_than_accelerators_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot run"):
        Shape(hosts=2, jobs=10, running=3)


def test_changed_bids_close_a_row_and_open_another_within_base_and_cap() -> None:
    cluster = seeded()
    assert change_bids(cluster, count=20, generator=np.random.default_rng(3)) == 20
    closed = Bid.objects.exclude(closed_at=None)
    assert closed.count() == 20
    for former in closed.select_related("type"):
        bid = Bid.objects.get(job=former.job, type=former.type, closed_at=None)
        assert bid.max_price_per_hour is not None
        assert former.type.base_price_per_hour <= bid.max_price_per_hour <= former.type.cap_price_per_hour
        assert (bid.position, bid.origin, bid.opened_at) == (former.position, former.origin, former.closed_at)
        unchanged = bid.max_price_per_hour == former.max_price_per_hour
        assert bid.accepted_at == (former.accepted_at if unchanged else bid.opened_at)
    assert look() == []


def test_a_share_of_all_open_bids_changes() -> None:
    cluster = seeded()
    assert change_share(cluster, share=0.1, generator=np.random.default_rng(3)) == 18
    scheduling.tick(cluster.pk)
    assert Quote.objects.exists()
    assert look() == []
