"""A ring reaches the host that it is for, and none of those that share its group."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from tests import scenes
from tests.feed.talking import connected
from workers.services import doorbell

pytestmark = pytest.mark.django_db(transaction=True)


@sync_to_async
def ring(*host_ids: int) -> None:
    with transaction.atomic():
        doorbell.ring(*host_ids)


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> list[scenes.FakeHost]:
    """Three hosts in one group."""
    monkeypatch.setattr(doorbell, "GROUPS", 1)
    cluster = scenes.make_cluster()
    return [scenes.make_host(cluster, name, nvidia_a10=1) for name in ("one", "two", "three")]


def headers(host: scenes.FakeHost) -> dict[str, Any]:
    return {"path": "/ws/host", "authorization": f"Bearer {host.key}"}


async def test_only_the_hosts_that_are_named_are_rung(hosts: list[scenes.FakeHost]) -> None:
    assert len({doorbell.group_of(each.host.pk) for each in hosts}) == 1
    async with connected(**headers(hosts[0])) as first, connected(**headers(hosts[1])) as second:
        for rung in (hosts[0], hosts[2], hosts[0]):
            await ring(rung.host.pk)
        await ring(hosts[0].host.pk, hosts[1].host.pk)
        assert [(await first.output())["text"] for _ in range(3)] == ["sync"] * 3
        assert (await second.output())["text"] == "sync"
        assert await first.is_silent()
        assert await second.is_silent()


def test_hosts_are_spread_over_the_groups() -> None:
    assert len({doorbell.group_of(host_id) for host_id in range(1000)}) == doorbell.GROUPS
