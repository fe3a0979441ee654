"""Awards that come to nothing, units that two jobs want to swap, and a base price raised over a holder's head."""

from datetime import timedelta

import pytest

from laissez import clock
from laissez.events import transact
from markets.engine.money import amount, integral
from markets.models import Award, CoolDown, Notice
from markets.services import exchange, metering, submission
from tenants.models import Transfer
from tests import scenes
from tests.badinput.obeying import Floor
from workers.models import AcceleratorType, Cluster, Job, Lease

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
BOB, ALICE = "0.65", "0.70"
PROBING = amount(integral(650_000, 0, 30_000_000))
"""The notice's 30 seconds at the lease price that the award had brought about: Bob's losing bid."""


@pytest.fixture
def cluster() -> Cluster:
    return scenes.make_cluster()


@pytest.fixture
def host(cluster: Cluster) -> scenes.FakeHost:
    return scenes.make_host(cluster, nvidia_a10=1)


def rebid(job: Job, *rows: tuple[str, str]) -> None:
    table = scenes.body(*rows)["rows"]
    transact(lambda outbox: submission.change_table(job, table, expected_version=None, outbox=outbox))


def cancel(job: Job) -> None:
    transact(lambda outbox: submission.cancel(job, outbox=outbox))


def award_of(job: Job) -> Award:
    return Award.objects.filter(job=job).latest("id")


def probing() -> list[int]:
    return [
        row.charged_microdollars
        for row in Award.objects.filter(charged_microdollars__gt=0)
        if Transfer.objects.filter(key=f"probing:{row.public_id}").exists()
    ]


@pytest.fixture
def bob(cluster: Cluster, host: scenes.FakeHost) -> Job:
    """Holds the only unit."""
    job = scenes.submit(scenes.make_tenant("bob"), (A10, BOB))
    scenes.tick(cluster)
    host.settle()
    return job


@pytest.fixture
def alice(cluster: Cluster, bob: Job) -> Job:
    """Has won the unit, and waits for Bob to leave it."""
    job = scenes.submit(scenes.make_tenant("alice"), (A10, ALICE))
    scenes.tick(cluster)
    assert (award_of(job).state, award_of(job).put_under_notice) == (Award.State.WAITING, True)
    assert Notice.objects.get(job=bob).state == Notice.State.OPEN
    return job


def test_an_award_is_lost_to_a_higher_bid_and_costs_nothing(cluster: Cluster, alice: Job, bob: Job) -> None:
    carol = scenes.submit(scenes.make_tenant("carol"), (A10, "0.80"))
    scenes.tick(cluster)
    assert award_of(alice).state == Award.State.LOST
    assert award_of(carol).state == Award.State.WAITING
    assert Notice.objects.get(job=bob).state == Notice.State.OPEN
    assert probing() == []


def test_a_winner_that_lowers_its_bid_again_pays_for_the_notice_it_caused(
    cluster: Cluster, alice: Job, bob: Job
) -> None:
    rebid(alice, (A10, "0.62"))
    scenes.tick(cluster)
    assert award_of(alice).state == Award.State.WITHDRAWN
    assert probing() == [PROBING]
    assert Notice.objects.get(job=bob).state == Notice.State.WITHDRAWN
    assert scenes.lease_of(bob).state == Lease.State.ACTIVE


def test_a_winner_that_cancels_pays_for_the_notice_it_caused(cluster: Cluster, alice: Job, bob: Job) -> None:
    cancel(alice)
    assert (award_of(alice).state, probing()) == (Award.State.WITHDRAWN, [PROBING])
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    assert Notice.objects.get(job=bob).state == Notice.State.WITHDRAWN
    assert probing() == [PROBING]


def test_a_winner_that_withdraws_without_having_disturbed_anybody_pays_nothing(
    cluster: Cluster, host: scenes.FakeHost, bob: Job
) -> None:
    cancel(bob)
    alice = scenes.submit(scenes.make_tenant("alice"), (A10, ALICE))
    scenes.tick(cluster)
    assert award_of(alice).state == Award.State.WAITING
    cancel(alice)
    assert (award_of(alice).state, probing()) == (Award.State.WITHDRAWN, [])


def test_a_winner_that_was_outbid_after_raising_its_bid_has_lost_and_not_withdrawn(
    cluster: Cluster, alice: Job
) -> None:
    rebid(alice, (A10, "0.75"))
    scenes.submit(scenes.make_tenant("carol"), (A10, "0.80"))
    scenes.tick(cluster)
    assert (award_of(alice).state, probing()) == (Award.State.LOST, [])


def test_an_upgrade_that_finds_no_unit_in_time_lapses_and_its_row_cools_down(cluster: Cluster) -> None:
    a10, l4 = scenes.make_host(cluster, "a10", nvidia_a10=1), scenes.make_host(cluster, "l4", nvidia_l4=1)
    holder = scenes.submit(scenes.make_tenant("carol"), (A10, "0.75"))
    seeker = scenes.submit(scenes.make_tenant("dave"), (A10, "0.70"), (L4, "1.0"))
    scenes.tick(cluster)
    a10.settle()
    l4.settle()
    rebid(holder, (A10, "0.62"))
    scenes.tick(cluster)
    assert award_of(seeker).state == Award.State.WAITING
    Award.objects.filter(job=seeker, state="waiting").update(deadline=clock.now() - timedelta(seconds=1))
    scenes.tick(cluster)
    assert award_of(seeker).state == Award.State.LAPSED
    assert CoolDown.objects.get().type.slug == A10
    scenes.tick(cluster)
    assert award_of(seeker).state == Award.State.LAPSED
    assert Notice.objects.get(job=holder).state == Notice.State.WITHDRAWN
    assert scenes.lease_of(seeker).type.slug == L4
    assert probing() == []


@pytest.mark.parametrize("mode", ["stop_and_copy", "overlap"])
def test_two_jobs_that_want_each_others_unit_swap_within_a_few_ticks(cluster: Cluster, mode: str) -> None:
    floor = Floor(
        cluster, [scenes.make_host(cluster, "a10", nvidia_a10=1), scenes.make_host(cluster, "l4", nvidia_l4=1)]
    )
    x = scenes.submit(scenes.make_tenant("x"), (A10, "0.80"), migration=mode)
    y = scenes.submit(scenes.make_tenant("y"), (L4, "0.80"), migration=mode)
    floor.live()
    assert (floor.runs_on(x), floor.runs_on(y)) == (A10, L4)
    rebid(x, (L4, "1.0"), (A10, "0.80"))
    rebid(y, (A10, "1.0"), (L4, "0.80"))
    ticks = 0
    while (floor.runs_on(x), floor.runs_on(y)) != (L4, A10):
        floor.live()
        ticks += 1
        assert ticks <= 8
    floor.live()
    floor.live()
    assert (floor.runs_on(x), floor.runs_on(y)) == (L4, A10)
    assert not Award.objects.filter(state=Award.State.WAITING).exists()
    assert not Notice.objects.filter(state=Notice.State.OPEN).exists()
    assert set(Job.objects.values_list("state", flat=True)) == {Job.State.RUNNING}


def set_base(price: int) -> None:
    row = AcceleratorType.objects.get(slug=A10)

    def work(outbox: object) -> object:
        return exchange.set_prices(
            row,
            base=price,
            cap=row.cap_price_per_hour,
            actor="an operator",
            reason="dearer energy",
            expected_version=row.version,
            outbox=outbox,
        )

    transact(work)


def test_a_base_price_raised_over_a_keep_price_gives_notice_and_at_its_deadline_ends_the_lease(
    cluster: Cluster, host: scenes.FakeHost
) -> None:
    table = [{"accelerator_type": A10, "max_price_per_hour": "0.65", "keep_price_per_hour": "0.70"}]
    body = scenes.body() | {"rows": table}
    tenant = scenes.make_tenant()
    job = transact(lambda outbox: submission.submit(tenant, body, outbox=outbox))
    floor = Floor(cluster, [host])
    floor.live()
    set_base(680_000)
    floor.live()
    assert not Notice.objects.exists()
    set_base(750_000)
    scenes.tick(cluster)
    notice = Notice.objects.get()
    assert (notice.reason, notice.state) == (Notice.Reason.BELOW_BASE, Notice.State.OPEN)
    scenes.tick(cluster)
    assert scenes.lease_of(job).state == Lease.State.ACTIVE
    Notice.objects.update(deadline=notice.opened_at)
    scenes.tick(cluster)
    lease = scenes.lease_of(job)
    assert (lease.state, lease.reason, lease.ending) == ("closing", "below_base", "save")
    floor.live()
    lease.refresh_from_db()
    job.refresh_from_db()
    assert (lease.state, lease.reason, job.state, job.reason) == ("closed", "below_base", "queued", "below_base")
    assert job.newest_checkpoint is not None
    metering.meter_cluster(cluster.pk)
    lease.refresh_from_db()
    span_us = (lease.billed_during.upper - lease.billed_during.lower) // timedelta(microseconds=1)
    assert 0 < lease.billed_microdollars <= amount(integral(700_000, 0, span_us))
    set_base(606_000)
    floor.live()
    assert floor.runs_on(job) == A10
