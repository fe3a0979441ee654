"""Cancel against everything that may happen to a job at the same moment: the job ends once, and holds nothing."""

import pytest

from laissez.events import Outbox, transact
from markets.models import Award, Bid
from markets.services import metering, scheduling, submission
from tenants.models import Hold
from tests import scenes
from tests.races.interleaving import overlapping
from tests.racing import race
from workers.models import Cluster, Job, Lease

pytestmark = pytest.mark.django_db(transaction=True)

A10 = "nvidia-a10"
ROUNDS = 2


def cancel(job: Job) -> Job:
    return transact(lambda outbox: cancelling(job, outbox))


def cancelling(job: Job, outbox: Outbox) -> Job:
    return submission.cancel(job, outbox=outbox)


def running(slug: str = "gemm") -> tuple[Cluster, scenes.FakeHost, Job]:
    cluster = scenes.make_cluster(slug)
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(f"{slug}-alice"), (A10, "1.0"), cluster=slug)
    scenes.tick(cluster)
    host.settle()
    return cluster, host, job


def holds_nothing(cluster: Cluster, host: scenes.FakeHost, job: Job) -> bool:
    """Let the host do as it is told, and the market settle."""
    host.sync()
    if any(entry["job"] == job.public_id for entry in host.answer["leases"]):
        assert host.entry(job)["desired"] == "stop"
        host.end(job)
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    held = Lease.objects.exclude(state=Lease.State.CLOSED).filter(job=job)
    waiting = Award.objects.filter(job=job, state=Award.State.WAITING)
    open_holds = Hold.objects.filter(reference=job.public_id, released_at=None)
    return not (held or waiting or open_holds or Bid.objects.filter(job=job, closed_at=None))


def state_of(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def test_a_cancel_that_comes_first_is_handed_nothing() -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    overlapping(lambda outbox: cancelling(job, outbox), lambda: scenes.tick(cluster))
    assert not Lease.objects.exists()
    assert state_of(job) == Job.State.CANCELLED
    assert holds_nothing(cluster, host, job)


def test_a_cancel_that_comes_just_after_the_hand_over_gives_the_device_back() -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    overlapping(lambda outbox: scheduling._tick(cluster.pk, outbox), lambda: cancel(job))
    assert scenes.lease_of(job).state == Lease.State.CLOSING
    assert holds_nothing(cluster, host, job)
    assert scenes.lease_of(job).billed_during is None


def test_the_next_in_line_gets_what_a_cancelled_job_was_to_get() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    first = scenes.submit(scenes.make_tenant("alice"), (A10, "1.0"))
    second = scenes.submit(scenes.make_tenant("bob"), (A10, "0.9"))
    overlapping(lambda outbox: cancelling(first, outbox), lambda: scenes.tick(cluster))
    scenes.tick(cluster)
    assert Lease.objects.get().job == second


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_cancel_and_a_report_of_success_end_the_job_once(cancel_first: bool) -> None:
    cluster, host, job = running()

    def finish() -> object:
        return host.report(job, "exit", reason="completed", exit_code=0)

    if cancel_first:
        overlapping(lambda outbox: cancelling(job, outbox), finish)
    else:
        results = race(2, lambda number: (finish, lambda: cancel(job))[number]())
        assert [result for result in results if isinstance(result, Exception)] == []
    assert state_of(job) in ({Job.State.CANCELLED} if cancel_first else {Job.State.CANCELLED, Job.State.SUCCEEDED})
    assert holds_nothing(cluster, host, job)


def test_a_cancel_and_a_tick_in_any_order_leave_a_running_job_cancelled() -> None:
    for number in range(ROUNDS):
        cluster, host, job = running(f"round-{number}")
        rival = scenes.submit(scenes.make_tenant(f"bob-{number}"), (A10, "1.5"), cluster=cluster.slug)
        acts = (lambda job=job: cancel(job), lambda cluster=cluster: scenes.tick(cluster))
        results = race(2, lambda which, acts=acts: acts[which]())
        assert [result for result in results if isinstance(result, Exception)] == []
        assert state_of(job) == Job.State.CANCELLED
        assert holds_nothing(cluster, host, job)
        assert scenes.lease_of(rival).state == Lease.State.PENDING


def test_cancels_at_once_are_one_cancel() -> None:
    cluster, host, job = running()
    results = race(4, lambda _: cancel(job))
    assert [result for result in results if isinstance(result, Exception)] == []
    assert holds_nothing(cluster, host, job)
    assert Lease.objects.get().reason == Lease.Reason.CANCELLED


def test_a_cancel_and_the_end_of_the_process_in_any_order_close_the_lease_once() -> None:
    for number in range(ROUNDS):
        cluster, host, job = running(f"round-{number}")
        acts = (lambda job=job: cancel(job), lambda host=host, job=job: host.end(job))
        results = race(2, lambda which, acts=acts: acts[which]())
        assert [result for result in results if isinstance(result, Exception)] == []
        assert state_of(job) == Job.State.CANCELLED
        assert holds_nothing(cluster, host, job)
