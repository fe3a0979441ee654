"""Policies of queued jobs: what goes wrong with one job stops neither another nor the tick."""

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
