"""The exchange as everybody sees it: written by the tick, told as whole rows, and blind to what winners would pay."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from laissez import clock
from laissez.events import transact
from laissez.models import Event
from markets.models import Supply
from markets.selectors import exchange, receipts
from markets.services import exchange as operating
from markets.services import submission
from tests import scenes
from workers.models import AcceleratorType, Cluster, Host

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
NONE = (0, 0, 0, 0, 0)


def row(cluster: Cluster, slug: str = A10) -> exchange.ExchangeRow:
    found = exchange.of(cluster, now=clock.now()).row(slug)
    assert found is not None
    return found


def events(cluster: str = "gemm") -> list[Event]:
    return list(Event.objects.filter(stream__name=f"market:{cluster}").order_by("seq"))


def folded(cluster: str = "gemm") -> dict[str, Any]:
    """What the market's events add up to, apart from what opened before there was a stream."""
    state: dict[str, Any] = {}
    for event in events(cluster):
        if event.type.split(".")[3] in ("price", "supply", "type"):
            state[event.subject] = event.data
    return state


@pytest.fixture
def cluster() -> Cluster:
    made = scenes.make_cluster()
    scenes.make_host(made, nvidia_a10=1, nvidia_l4=2)
    scenes.tick(made)
    return made


def test_the_tick_writes_units_awards_and_depth(cluster: Cluster) -> None:
    assert (row(cluster).units_total, row(cluster).units_free) == (1, 1)
    scenes.submit(scenes.make_tenant("bob"), (A10, "0.65"), (L4, "2.0"))
    scenes.tick(cluster)
    assert (row(cluster).units_free, row(cluster).waiting_awards, row(cluster).depth) == (0, 0, NONE)
    alice = scenes.make_tenant("alice")
    scenes.submit(alice, (A10, "0.70"))
    scenes.submit(alice, (A10, "0.62"))
    scenes.tick(cluster)
    a10 = row(cluster)
    assert (a10.price, a10.previous_price, a10.cause) == (650_000, 606_000, "bids")
    assert (a10.units_leaving, a10.waiting_awards, a10.depth) == (1, 1, (1, 1, 0, 0, 0))
    assert a10.receipt is not None
    receipt = receipts.of(cluster, a10.receipt)
    assert receipt is not None
    assert receipt.types[A10]["price_per_hour"] == "0.650000"


def test_the_moment_of_the_price_outlasts_changes_of_supply(cluster: Cluster) -> None:
    since = row(cluster).since
    scenes.make_host(cluster, "another", nvidia_a10=1)
    scenes.tick(cluster)
    assert (row(cluster).units_total, row(cluster).cause, row(cluster).since) == (2, "supply", since)
    assert row(cluster).previous_price is None


def test_the_events_add_up_to_the_table(cluster: Cluster) -> None:
    def agree() -> None:
        rows = exchange.entities(cluster)["exchange"]
        assert json.loads(json.dumps(rows)) == folded()

    agree()
    bob, alice = scenes.make_tenant("bob"), scenes.make_tenant("alice")
    job = scenes.submit(bob, (A10, "0.65"), (L4, "2.0"))
    for act in (
        lambda: scenes.submit(alice, (A10, "0.70")),
        lambda: scenes.submit(alice, (A10, "0.64")),
        lambda: transact(lambda outbox: submission.cancel(job, outbox=outbox)),
        lambda: Host.objects.update(state="draining"),
        lambda: transact(
            lambda outbox: operating.create_type(
                cluster, "new", name="New", base=1, cap=2, actor="op", reason="why", outbox=outbox
            )
        ),
    ):
        act()
        scenes.tick(cluster)
        agree()
    kinds = [event.type.removeprefix("org.laissez.market.") for event in events()]
    assert {"price.changed.v1", "supply.changed.v1", "type.opened.v1"} <= set(kinds)


def test_a_tick_that_changes_nothing_tells_nothing(cluster: Cluster) -> None:
    scenes.tick(cluster)
    told = len(events())
    before = list(Supply.objects.order_by("id").values())
    scenes.tick(cluster)
    assert len(events()) == told
    assert list(Supply.objects.order_by("id").values()) == before


def test_new_prices_of_a_type_that_was_never_cleared_are_told_at_once() -> None:
    made = scenes.make_cluster()
    kind = AcceleratorType.objects.get(slug=A10)
    transact(
        lambda outbox: operating.set_prices(
            kind, base=1, cap=2, actor="op", reason="why", expected_version=1, outbox=outbox
        )
    )
    assert folded() == {A10: exchange.public(row(made))}
    assert folded()[A10]["price_per_hour"] is None


def test_the_table_takes_the_same_queries_however_many_types(cluster: Cluster) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            exchange.of(cluster, now=clock.now(), with_trends=True)
        return len(captured)

    before = queries()
    for number in range(5):
        AcceleratorType.objects.create(
            cluster=cluster, slug=f"kind-{number}", name="x", base_price_per_hour=1, cap_price_per_hour=2
        )
    scenes.tick(cluster)
    assert queries() == before
