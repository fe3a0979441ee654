"""Policies of queued jobs: what goes wrong with one job stops neither another nor the tick."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Overflow

import pytest

from laissez.models import Event
from markets.models import Bid
from markets.services import advising
from markets.tasks import tick_cluster
from tests import scenes
from workers.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"


def test_a_policy_that_fails_stops_no_tick_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = scenes.make_cluster()
    tenant = scenes.make_tenant()
    failing = scenes.submit(tenant, (A10, "0.65"), (L4, "2.0"), agent={"policy": "break_even"})
    before = list(Bid.objects.filter(job=failing, closed_at=None).values_list("max_price_per_hour", flat=True))
    scenes.tick(cluster)  # opens the exchange, so that the job is to be asked

    def fail(*_: object) -> None:
        raise Overflow

    monkeypatch.setitem(advising.POLICIES, "break_even", fail)  # type: ignore[arg-type]
    scenes.make_host(cluster, nvidia_l4=2)
    other = scenes.submit(tenant, (L4, "1.0"))
    tick_cluster(cluster.pk)

    other.refresh_from_db()
    assert other.state == Job.State.RUNNING
    after = list(Bid.objects.filter(job=failing, closed_at=None).values_list("max_price_per_hour", flat=True))
    assert after == before
    told = Event.objects.filter(stream__name=f"job:{failing.public_id}", type="org.laissez.market.agent.failed.v1")
    assert told.get().data["detail"].startswith("Overflow")


def test_a_tick_asks_some_policies_and_the_next_one_those_that_have_waited_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advising, "JOBS_PER_TICK", 2)
    cluster, tenant = scenes.make_cluster(), scenes.make_tenant()
    waiting = [scenes.submit(tenant, (A10, "0.65"), (L4, "2.0"), agent={"policy": "break_even"}) for _ in range(3)]
    scenes.tick(cluster)
    Job.objects.update(advised_at=None)
    advising.advise_queue(cluster.pk)
    assert set(Job.objects.exclude(advised_at=None)) == set(waiting[:2])
    advising.advise_queue(cluster.pk)
    assert not Job.objects.filter(advised_at=None).exists()


def test_a_queue_without_policies_costs_two_queries_however_long_it_is(
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    cluster, tenant = scenes.make_cluster(), scenes.make_tenant()
    for _ in range(4):
        scenes.submit(tenant, (A10, "0.65"))
    scenes.tick(cluster)
    with django_assert_num_queries(2):
        advising.advise_queue(cluster.pk)
