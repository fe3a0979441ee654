"""One accelerator, many takers: one wins, whoever else tries and however."""

import logging

import pytest

from laissez.events import Outbox, transact
from markets.models import Award, Clearing
from markets.services import scheduling
from tests import scenes
from tests.races.interleaving import overlapping
from tests.racing import race
from workers.models import Accelerator, Cluster, Job, Lease, Migration
from workers.services import jobs, leases

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"
RACERS = 40


def queue(cluster: Cluster, count: int) -> list[Job]:
    tenant = scenes.make_tenant()
    return [scenes.submit(tenant, (A10, f"{0.7 + number / 100:.2f}"), cluster=cluster.slug) for number in range(count)]


def take(job: Job, accelerator: Accelerator) -> Lease | None:
    def work(outbox: Outbox) -> Lease | None:
        locked = jobs.lock_one(job)
        given = leases.hand_over([(locked, accelerator.pk)], now=outbox.now(), outbox=outbox)
        return given.get(job.pk)

    return transact(work)


def test_one_of_forty_takers_gets_the_accelerator() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    accelerator = Accelerator.objects.get()
    takers = queue(cluster, RACERS)
    outcomes = race(RACERS, lambda number: take(takers[number], accelerator))
    won = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert won == list(Lease.objects.all())
    assert len(won) == 1
    accelerator.refresh_from_db()
    assert accelerator.fence == won[0].fence == 1
    start(won[0])


def start(lease: Lease) -> None:
    """What the scheduler does beside a hand-over."""
    transact(lambda outbox: jobs.start([jobs.lock_one(lease.job)], now=outbox.now(), outbox=outbox))


def test_forty_ticks_at_once_hand_the_accelerator_over_once() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    dearest = queue(cluster, 8)[-1]
    outcomes = race(RACERS, lambda _: scenes.tick(cluster))
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert scheduling.Outcome.CLEARED in outcomes
    assert Lease.objects.get().job == dearest
    assert Award.objects.get(state=Award.State.HANDED_OVER).job == dearest
    assert Job.objects.filter(state=Job.State.RUNNING).count() == 1


def test_a_second_tick_of_a_cluster_does_not_wait_for_the_first() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    queue(cluster, 2)
    first, second = overlapping(lambda outbox: scheduling._tick(cluster.pk, outbox), lambda: scenes.tick(cluster))
    assert (first, second) == (scheduling.Outcome.CLEARED, scheduling.Outcome.BUSY)
    assert Lease.objects.count() == Clearing.objects.count() == 1


def test_ticks_of_two_clusters_do_not_disturb_each_other() -> None:
    clusters = [scenes.make_cluster(slug) for slug in ("gemm", "video")]
    for cluster in clusters:
        scenes.make_host(cluster, nvidia_a10=1)
        scenes.submit(scenes.make_tenant(f"of {cluster}"), (A10, "1.0"), cluster=cluster.slug)
    assert race(2, lambda number: scenes.tick(clusters[number])) == [scheduling.Outcome.CLEARED] * 2
    assert Lease.objects.count() == 2


def test_three_devices_offered_to_one_job_at_once_give_it_two_leases_of_which_one_is_primary() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=3)
    (job,) = queue(cluster, 1)
    devices = list(Accelerator.objects.all())
    outcomes = race(3, lambda number: take(job, devices[number]))
    won = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
    assert (len(won), outcomes.count(None)) == (2, 1)
    assert sum(leases.is_primary(lease) for lease in Lease.objects.all()) == 1
    start(won[0])


def test_a_hand_over_on_a_host_that_is_syncing_leads_to_no_deadlock(caplog: pytest.LogCaptureFixture) -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1, nvidia_l4=1)
    job = scenes.submit(scenes.make_tenant("bob"), (A10, "0.65"), (L4, "2.0"))
    scenes.tick(cluster)
    host.settle()
    scenes.submit(scenes.make_tenant("alice"), (A10, "0.70"))
    with caplog.at_level(logging.WARNING, logger="laissez.events"):
        overlapping(lambda outbox: scheduling._tick(cluster.pk, outbox), host.sync)
    assert "DeadlockDetected" not in caplog.text
    assert Migration.objects.get(job=job).state == Migration.State.AWARDED
