"""Simulated hosts say through the real sync what hosts would say."""

from datetime import timedelta

import numpy as np
import pytest

from laissez import clock
from laissez.events import transact
from laissez.management.commands.check_invariants import look
from markets.scale.copying import insert
from markets.scale.hosts import TURNS, Hosts
from markets.scale.seeding import Shape, seed
from markets.services import scheduling
from workers.models import Cluster, Host, Job, Lease, Migration
from workers.services import jobs, leases

pytestmark = pytest.mark.django_db(transaction=True)


def market(*, running: int = 6, nodes: int = 6) -> tuple[Cluster, Hosts]:
    shape = Shape(hosts=nodes, jobs=20, running=running, types=2, rows_per_job=2, tenants=2)
    cluster = seed(shape, generator=np.random.default_rng(1))
    return cluster, Hosts(cluster, np.random.default_rng(2))


def turn(hosts: Hosts, *, completions: int = 0, times: int = 1) -> None:
    for _ in range(times):
        hosts.turn(completions=completions, seconds=60)


def test_what_is_handed_over_is_confirmed_and_begins() -> None:
    cluster, hosts = market(running=2)
    scheduling.tick(cluster.pk)
    scheduling.tick(cluster.pk)
    assert Lease.objects.filter(state="pending").exists()
    turn(hosts)
    assert not Lease.objects.filter(state="pending").exists()
    assert not Lease.objects.filter(state="active", first_step_at=None).exists()
    assert hosts.refused == 0
    assert look() == []


def test_news_that_there_was_no_time_for_comes_first_next_time() -> None:
    cluster, hosts = market(running=0)
    scheduling.tick(cluster.pk)
    scheduling.tick(cluster.pk)
    waiting = Lease.objects.filter(state="pending").count()
    for served in range(1, waiting + 1):
        hosts.turn(completions=0, seconds=0)
        assert Lease.objects.filter(state="pending").count() == waiting - served


def test_every_host_is_heard_within_so_many_turns() -> None:
    _, hosts = market()
    before = clock.now()
    turn(hosts, times=TURNS)
    assert not Host.objects.filter(last_heard_at__lt=before).exists()
    assert not Lease.objects.filter(last_heard_at__lt=before).exists()
    assert not Lease.objects.filter(expires_at__lt=before + timedelta(seconds=30)).exists()


def test_a_silent_host_is_not_heard() -> None:
    _, hosts = market()
    before = clock.now()
    silent = Host.objects.earliest("id")
    hosts.fall_silent([silent.pk], seconds=3600)
    turn(hosts, times=TURNS)
    assert list(Host.objects.filter(last_heard_at__lt=before)) == [silent]


def test_a_lost_host_that_speaks_again_is_ready() -> None:
    _, hosts = market(nodes=7)
    idle = Host.objects.exclude(leases__state="active").get()
    Host.objects.filter(pk=idle.pk).update(state="lost", state_before_loss="ready")
    turn(hosts)
    assert Host.objects.get(pk=idle.pk).state == "ready"


def test_workloads_that_complete_give_their_device_back() -> None:
    _, hosts = market()
    turn(hosts, completions=2)
    turn(hosts)
    assert Job.objects.filter(state="succeeded").count() == 2
    assert Lease.objects.filter(state="closed", reason="completed").count() == 2
    assert look() == []


def test_a_lease_that_is_to_save_is_saved_before_it_ends() -> None:
    _, hosts = market()
    job = Job.objects.filter(state="running").earliest("id")
    lease = Lease.objects.get(job=job)

    def close(outbox: object) -> None:
        jobs.lock_one(job)
        reason, ending = Lease.Reason.OUTBID, Lease.Ending.SAVE
        leases.begin_closing(lease, reason=reason, ending=ending, now=outbox.now(), outbox=outbox)

    transact(close)
    turn(hosts)
    job.refresh_from_db()
    lease.refresh_from_db()
    assert (job.state, lease.state) == ("queued", "closed")
    assert job.newest_checkpoint is not None
    assert not Migration.objects.exists()
    assert look() == []


def test_texts_are_copied_in_as_they_are() -> None:
    cluster, _ = market()
    name = 'a\tb\\c\nd "e" \\N'
    now = clock.now()
    insert(
        Host, 1, public_id="hst_1", cluster=cluster.pk, name=name, isolation="none", key_digest="1", enrolled_at=now,
        last_heard_at=now,
    )  # fmt: skip
    host = Host.objects.get(public_id="hst_1")
    assert (host.name, host.state, host.enrolled_at) == (name, "pending", now)
