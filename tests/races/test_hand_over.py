"""One accelerator, many takers: one wins, whoever else tries and however."""

import logging
from collections.abc import Callable

import pytest

from laissez.events import Outbox, transact
from markets.engine.actions import Action, HandOver, OpenAward
from markets.engine.dynamics import plan
from markets.models import Award, Clearing
from markets.selectors import exchange
from markets.selectors import floor as floors
from markets.services import scheduling
from markets.services.actions import Applier
from tests import scenes
from tests.races.interleaving import overlapping
from tests.racing import race
from workers.models import Accelerator, Cluster, Job, Lease, Migration
from workers.services import hosts, jobs, leases, sync

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


def planned(cluster: Cluster) -> Callable[[], list[Action]]:
    """A plan made now, and carried out when it is called: it hands the only A10 over."""
    decided = transact(lambda outbox: plan(floors.read(cluster, now=outbox.now()).floor, cluster.rule))
    assert [type(action) for action in decided.actions] == [OpenAward, HandOver]

    def work(outbox: Outbox) -> list[Action]:
        locked = jobs.lock(action.job for action in decided.actions)
        types, now = exchange.types_of(cluster), outbox.now()
        applier = Applier(cluster=cluster, types=types, clearing=decided.clearing, jobs=locked, now=now, outbox=outbox)
        applier.apply_all(decided.actions)
        return applier.applied

    return lambda: transact(work)


def kinds(applied: list[Action]) -> list[type]:
    return [type(action) for action in applied]


def test_a_device_that_fails_while_it_is_handed_over_is_not() -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    queue(cluster, 1)
    carry_out = planned(cluster)
    message = sync.Message(sequence=host.sequence + 1, healthy={0: False}, observed=[], reports=[])
    _, applied = overlapping(lambda outbox: sync.sync(host.host.pk, message, outbox=outbox), carry_out)
    assert kinds(applied) == [OpenAward]
    assert Award.objects.get().state == Award.State.WAITING
    assert not Lease.objects.exists()


def test_a_device_that_fails_after_it_was_handed_over_is_left_again() -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    queue(cluster, 1)
    assert kinds(planned(cluster)()) == [OpenAward, HandOver]
    message = sync.Message(sequence=host.sequence + 1, healthy={0: False}, observed=[], reports=[])
    transact(lambda outbox: sync.sync(host.host.pk, message, outbox=outbox))
    assert (Lease.objects.get().state, Lease.objects.get().reason) == ("closing", "device_failed")


def test_a_host_that_drains_before_the_hand_over_gets_nothing() -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    queue(cluster, 1)
    carry_out = planned(cluster)
    transact(lambda outbox: hosts.drain(host.host, actor="op", reason="why", outbox=outbox))
    assert kinds(carry_out()) == [OpenAward]
    assert not Lease.objects.exists()


def test_a_unit_that_another_takes_meanwhile_is_handed_over_once_and_raises_one_fence() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    loser, taker = queue(cluster, 1)[0], scenes.submit(scenes.make_tenant("bob"), (A10, "0.62"))
    carry_out = planned(cluster)
    unit = Accelerator.objects.get()

    def take_first(outbox: Outbox) -> int:
        locked = jobs.lock_one(taker)
        given = leases.hand_over([(locked, unit.pk)], now=outbox.now(), outbox=outbox)
        jobs.start([locked], now=outbox.now(), outbox=outbox)
        return len(given)

    taken, applied = overlapping(take_first, carry_out)
    assert (taken, kinds(applied)) == (1, [OpenAward])
    unit.refresh_from_db()
    assert (Lease.objects.get().job, unit.fence) == (taker, 1)
    loser.refresh_from_db()
    assert loser.state == Job.State.QUEUED


def test_two_ticks_that_hand_over_many_units_in_opposite_orders_meet_no_deadlock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=8)
    takers = queue(cluster, 16)
    units = list(Accelerator.objects.values_list("pk", flat=True))
    orders = [units, units[::-1]]

    def take_all(number: int) -> int:
        def work(outbox: Outbox) -> int:
            locked = jobs.lock(job.pk for job in takers[8 * number : 8 * number + 8])
            pairs = list(zip(locked.values(), orders[number], strict=True))
            given = leases.hand_over(pairs, now=outbox.now(), outbox=outbox)
            jobs.start([locked[job_id] for job_id in given], now=outbox.now(), outbox=outbox)
            return len(given)

        return transact(work)

    with caplog.at_level(logging.WARNING, logger="laissez.events"):
        assert sorted(race(2, take_all)) == [0, 8]
    assert "DeadlockDetected" not in caplog.text
    assert sorted(Lease.objects.values_list("fence", flat=True)) == [1] * 8
