"""How jobs end that do not succeed: by time-out, by cancel in every state, by failing starts, by the loss of a host."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from laissez import clock
from laissez.events import transact
from markets.engine.money import amount, integral
from markets.models import Award, Bid, Notice
from markets.services import metering, submission
from tenants.models import Hold
from tests import scenes
from tests.asking import as_tenant
from tests.badinput.obeying import Floor
from tests.elapsing import pass_time
from workers.models import Cluster, Ear, Host, Job, Lease, Migration
from workers.services import reconciling

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
BASE = 606_000


@pytest.fixture
def cluster() -> Cluster:
    return scenes.make_cluster()


def is_out_of_the_market(job: Job) -> bool:
    """No bid, award, notice, lease or hold is left of it."""
    waiting = Award.objects.filter(job=job, state=Award.State.WAITING)
    warned = Notice.objects.filter(job=job, state=Notice.State.OPEN)
    held = Lease.objects.filter(job=job).exclude(state=Lease.State.CLOSED)
    moving = Migration.objects.filter(job=job).exclude(state__in=("done", "aborted"))
    reserved = Hold.objects.filter(reference=job.public_id, released_at=None)
    bids = Bid.objects.filter(job=job, closed_at=None)
    return not (waiting or warned or held or moving or reserved or bids)


def test_a_job_that_wins_nothing_in_time_expires(cluster: Cluster) -> None:
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"), queue_timeout_seconds=60)
    scenes.tick(cluster)
    Job.objects.update(queue_deadline=clock.now())
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    job.refresh_from_db()
    assert (job.state, job.reason) == (Job.State.EXPIRED, "queue_timeout")
    assert "60 s" in job.reason_detail
    assert is_out_of_the_market(job)


def test_a_job_that_wins_at_the_very_tick_of_its_time_out_runs(cluster: Cluster) -> None:
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.make_host(cluster, nvidia_a10=1)
    Job.objects.update(queue_deadline=clock.now())
    scenes.tick(cluster)
    job.refresh_from_db()
    assert (job.state, Lease.objects.count()) == (Job.State.RUNNING, 1)


# Cancel


def stop(job: Job) -> None:
    transact(lambda outbox: submission.stop(job, outbox=outbox))


def cancel(job: Job) -> None:
    transact(lambda outbox: submission.cancel(job, outbox=outbox))


def outbid(floor: Floor) -> None:
    scenes.submit(scenes.make_tenant("rival"), (A10, "1.5"))
    scenes.tick(floor.cluster)


def queued(floor: Floor, job: Job) -> None:
    """Nothing has happened yet."""


def awarded(floor: Floor, job: Job) -> None:
    holder = scenes.submit(scenes.make_tenant("holder"), (A10, "1.8"))
    scenes.tick(floor.cluster)
    floor.hosts[0].settle()
    cancel(holder)
    scenes.tick(floor.cluster)
    assert Award.objects.filter(job=job, state="waiting", type__slug=A10).exists() or floor.runs_on(job)


def pending(floor: Floor, job: Job) -> None:
    scenes.tick(floor.cluster)


def running(floor: Floor, job: Job) -> None:
    floor.live()


def under_notice(floor: Floor, job: Job) -> None:
    floor.live()
    outbid(floor)
    assert Notice.objects.filter(job=job, state="open").exists()


def moving(floor: Floor, job: Job) -> None:
    under_notice(floor, job)
    for host in floor.hosts:
        host.settle()
    assert Migration.objects.filter(job=job, state="awarded").exists()


def restoring(floor: Floor, job: Job) -> None:
    moving(floor, job)
    assert floor.hosts[0].checkpoint(job, 0.5, sequence=99)["then"] == "stop"


def saving(floor: Floor, job: Job) -> None:
    floor.live()
    stop(job)


def stopped(floor: Floor, job: Job) -> None:
    saving(floor, job)
    floor.live()


def succeeded(floor: Floor, job: Job) -> None:
    floor.live()
    floor.hosts[0].report(job, "exit", reason="completed", exit_code=0)


def failed(floor: Floor, job: Job) -> None:
    floor.live()
    floor.hosts[0].report(job, "exit", reason="failed", exit_code=1)


def expired(floor: Floor, job: Job) -> None:
    for host in floor.hosts:
        Host.objects.filter(pk=host.host.pk).update(state=Host.State.DRAINING)
    Job.objects.filter(pk=job.pk).update(queue_deadline=clock.now())
    scenes.tick(floor.cluster)


def cancelled(floor: Floor, job: Job) -> None:
    cancel(job)


STATES: list[tuple[Callable[[Floor, Job], None], str, str]] = [
    (queued, "queued", "cancelled"),
    (awarded, "running", "cancelled"),
    (pending, "running", "cancelled"),
    (running, "running", "cancelled"),
    (under_notice, "running", "cancelled"),
    (moving, "running", "cancelled"),
    (restoring, "running", "cancelled"),
    (saving, "stopped", "cancelled"),
    (stopped, "stopped", "cancelled"),
    (succeeded, "succeeded", "succeeded"),
    (failed, "failed", "failed"),
    (expired, "expired", "expired"),
    (cancelled, "cancelled", "cancelled"),
]


@pytest.mark.parametrize(("reach", "before", "after"), STATES, ids=[reach.__name__ for reach, *_ in STATES])
def test_cancel_is_valid_in_every_state_and_leaves_nothing_behind(
    cluster: Cluster, reach: Callable[[Floor, Job], None], before: str, after: str
) -> None:
    hosts = [scenes.make_host(cluster, "a10", nvidia_a10=1), scenes.make_host(cluster, "l4", nvidia_l4=1)]
    floor = Floor(cluster, hosts)
    tenant = scenes.make_tenant()
    job = scenes.submit(tenant, (A10, "1.0"), (L4, "0.60"))
    reach(floor, job)
    job.refresh_from_db()
    assert job.state == before
    asker = as_tenant(tenant)
    for _ in range(2):
        response = asker.post(f"/api/v1/jobs/{job.public_id}/cancel")
        assert (response.status_code, response.json()["state"]) == (200, after)
    floor.live()
    floor.live()
    metering.meter_cluster(cluster.pk)
    assert is_out_of_the_market(job)


# Starts that fail


def test_a_data_load_that_fails_is_tried_again_a_few_times_and_then_fails_the_job_with_what_it_wrote(
    cluster: Cluster,
) -> None:
    host = scenes.make_host(cluster, nvidia_a10=1)
    load = {"command": ["python", "load.py"]}
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"), max_attempts=3, data_load=load)
    for attempt in (1, 2, 3):
        scenes.tick(cluster)
        host.settle()
        host.report(job, "exit", reason="data_load_failed", exit_code=2, detail="FileNotFoundError: corpus.txt")
        assert host.answer["refused"] == []
        host.end(job)
        job.refresh_from_db()
        assert "FileNotFoundError: corpus.txt" in job.reason_detail
        assert f"attempt {attempt} of 3" in job.reason_detail
        assert (job.reason, job.state) == ("data_load_failed", "failed" if attempt == 3 else "queued")
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    assert is_out_of_the_market(job)
    assert Lease.objects.filter(state="closed", reason="failed").count() == 3


def test_a_checkpoint_between_failures_starts_the_count_anew(cluster: Cluster) -> None:
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"), max_attempts=2)
    for number in (1, 2, 3):
        scenes.tick(cluster)
        host.settle()
        host.checkpoint(job, number / 10, sequence=number)
        host.report(job, "exit", reason="killed", exit_code=None, signal=9, detail="out of memory")
        host.end(job)
        job.refresh_from_db()
        assert (job.state, job.attempts) == (Job.State.QUEUED, 1)


def test_a_program_that_fails_by_itself_is_not_tried_again(cluster: Cluster) -> None:
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"), max_attempts=3)
    scenes.tick(cluster)
    host.settle()
    host.report(job, "exit", reason="failed", exit_code=1, detail="ValueError: nan")
    host.end(job)
    job.refresh_from_db()
    assert (job.state, job.exit_code, job.reason_detail) == (Job.State.FAILED, 1, "ValueError: nan")


# A host that falls silent


def listen_since(instant: datetime) -> None:
    Ear.objects.update_or_create(pk=1, defaults={"hears": True, "checked_at": clock.now(), "listening_since": instant})


def test_a_lost_hosts_leases_end_at_its_last_word_and_its_jobs_go_on_from_their_newest_checkpoint(
    cluster: Cluster,
) -> None:
    lost = scenes.make_host(cluster, "lost", nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    lost.settle()
    lost.checkpoint(job, 0.25, sequence=1)
    lost.checkpoint(job, 0.5, sequence=2)
    pass_time(130)
    lost.sync()
    pass_time(120)
    last_word = Host.objects.get().last_heard_at
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)  # while nobody knows that the host has gone
    listen_since(last_word - timedelta(hours=1))
    reconciling.reconcile()
    lease = scenes.lease_of(job)
    assert Host.objects.get().state == Host.State.LOST
    assert (lease.state, lease.reason, lease.billed_during.upper) == ("closed", "host_lost", last_word)
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    lease.refresh_from_db()
    span_us = (last_word - lease.billed_during.lower) // timedelta(microseconds=1)
    assert lease.billed_microdollars == amount(integral(BASE, 0, span_us))

    job.refresh_from_db()
    assert (job.state, job.reason) == (Job.State.QUEUED, "host_lost")
    other = scenes.make_host(cluster, "other", nvidia_a10=1)
    scenes.tick(cluster)
    other.settle()
    resume = other.entry(job)["resume"]
    assert (resume["state"], resume["progress"], resume["checkpoint"]) == (
        "ready",
        0.5,
        job.newest_checkpoint.public_id if job.newest_checkpoint else None,
    )
    assert lost.sync()["leases"] == []
    assert Host.objects.get(name="lost").state == Host.State.READY
    assert lost.answer["host"]["state"] == Host.State.READY


def test_a_move_whose_source_is_lost_goes_on_at_its_destination(cluster: Cluster) -> None:
    floor = Floor(
        cluster, [scenes.make_host(cluster, "a10", nvidia_a10=1), scenes.make_host(cluster, "l4", nvidia_l4=1)]
    )
    source, destination = floor.hosts
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"), (L4, "1.0"))
    floor.live()
    outbid(floor)
    destination.settle()
    pass_time(120)
    destination.sync()
    scenes.tick(cluster)
    listen_since(clock.now() - timedelta(hours=1))
    reconciling.reconcile()
    assert floor.runs_on(job) == L4
    assert destination.sync()["leases"][0]["resume"]["state"] == "ready"
    job.refresh_from_db()
    assert job.state == Job.State.RUNNING
    destination.report(job, "first_step")
    assert Migration.objects.get().state == Migration.State.DONE
    assert source.sync()["leases"] == []


def test_silence_in_which_the_server_could_not_hear_costs_nobody_a_lease(cluster: Cluster) -> None:
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    host.settle()
    pass_time(3600)
    reconciling.reconcile()
    reconciling.reconcile()
    assert (Host.objects.get().state, scenes.lease_of(job).state) == (Host.State.READY, Lease.State.ACTIVE)
    assert host.sync()["leases"][0]["desired"] == "run"


def test_a_hand_over_that_no_host_confirms_is_taken_back(cluster: Cluster) -> None:
    scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    Lease.objects.update(pending_deadline=clock.now() - timedelta(seconds=1))
    reconciling.reconcile()
    lease = scenes.lease_of(job)
    assert (lease.state, lease.reason, lease.billed_during) == ("closing", "never_started", None)
