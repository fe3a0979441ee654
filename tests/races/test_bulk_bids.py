"""Bids changed in bulk while a tick, a single change, or another bulk change is at the same jobs."""

import pytest
from django.db import transaction

from laissez.errors import Conflict
from laissez.events import Outbox, transact
from markets.models import Bid
from markets.services import bulk, submission
from tenants.models import Tenant
from tests import scenes, soundness
from tests.racing import race, start_and_wait_until_blocked
from workers.models import Cluster, Job
from workers.services import jobs

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"


@pytest.fixture
def cluster() -> Cluster:
    return scenes.make_cluster()


@pytest.fixture
def alice(cluster: Cluster) -> Tenant:
    return scenes.make_tenant("alice")


def submit(alice: Tenant, count: int) -> list[Job]:
    return [scenes.submit(alice, (A10, "0.7"), (L4, "0.6"), agent={"policy": "hold"}) for _ in range(count)]


def rows(some: list[Job], price: str, **more: object) -> list[dict[str, object]]:
    return [{"job": job.public_id, "accelerator_type": A10, "max_price_per_hour": price, **more} for job in some]


def in_bulk(alice: Tenant, some: list[Job], price: str, **more: object) -> list[str]:
    results = transact(lambda outbox: bulk.change_bids(alice, rows(some, price, **more), outbox=outbox))
    return [result.fault.code if result.fault else result.state for result in results]


def price_of(job: Job) -> int | None:
    return Bid.objects.get(job=job, type__slug=A10, closed_at=None).max_price_per_hour


def test_a_bulk_change_waits_for_a_single_one_and_sees_its_version(alice: Tenant) -> None:
    some = submit(alice, 2)
    table = scenes.body((A10, "0.9"), (L4, "0.6"))["rows"]
    with transaction.atomic():
        submission.change_table(some[1], table, expected_version=1, outbox=Outbox())
        waiting = start_and_wait_until_blocked(lambda: in_bulk(alice, some, "0.8", expected_version=1))
    assert waiting.result(timeout=30) == ["changed", "version_conflict"]
    assert [price_of(job) for job in some] == [800_000, 900_000]


def test_a_single_change_waits_for_a_bulk_one_and_sees_its_version(alice: Tenant) -> None:
    some = submit(alice, 2)
    table = scenes.body((A10, "0.9"), (L4, "0.6"))["rows"]

    def alone() -> str:
        try:
            transact(lambda outbox: submission.change_table(some[0], table, expected_version=1, outbox=outbox))
        except Conflict as refusal:
            return refusal.code
        return "changed"

    with transaction.atomic():
        bulk.change_bids(alice, rows(some, "0.8"), outbox=Outbox())
        waiting = start_and_wait_until_blocked(alone)
    assert waiting.result(timeout=30) == "version_conflict"
    assert price_of(some[0]) == 800_000


def test_bulk_changes_in_opposite_orders_never_wait_for_each_other_in_a_circle(alice: Tenant) -> None:
    some = submit(alice, 20)
    orders = [some, some[::-1]]
    outcomes = race(4, lambda number: in_bulk(alice, orders[number % 2], f"0.{80 + number}"))
    assert all(set(outcome) <= {"changed", "unchanged"} for outcome in outcomes if isinstance(outcome, list)), outcomes
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert len({price_of(job) for job in some}) == 1
    assert soundness.violations() == []


def test_ticks_and_bulk_changes_at_once_leave_every_invariant_whole(cluster: Cluster, alice: Tenant) -> None:
    scenes.make_host(cluster, nvidia_a10=2, nvidia_l4=1)
    some = submit(alice, 8)

    def act(number: int) -> None:
        for turn in range(4):
            if number:
                in_bulk(alice, some, f"0.{70 + 3 * number + turn}")
            else:
                scenes.tick(cluster)

    assert race(3, act) == [None] * 3
    scenes.tick(cluster)
    assert soundness.violations() == []


def test_a_job_that_a_tick_is_at_is_waited_for(alice: Tenant) -> None:
    some = submit(alice, 2)
    with transaction.atomic():
        jobs.lock_one(some[1])
        waiting = start_and_wait_until_blocked(lambda: in_bulk(alice, some, "0.8"))
    assert waiting.result(timeout=30) == ["changed", "changed"]
