"""The exchange as everybody sees it: written by the tick, told as whole rows, and blind to what winners would pay."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from laissez import clock
from laissez.events import transact
from laissez.models import Event
from markets.models import Supply
from markets.selectors import exchange, receipts
from markets.services import exchange as operating
from markets.services import submission
from tenants.models import Tenant
from tenants.services import accounts
from tests import scenes
from workers.models import AcceleratorType, Cluster, Host, Job, Lease

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


# What a winner would pay at most shows nowhere


class World:
    """A market with one holder on the A10 that bids `most`, two losers, and somebody to read its answers."""

    def __init__(self, slug: str, most: str) -> None:
        self.cluster = scenes.make_cluster(slug)
        self.host = scenes.make_host(self.cluster, f"host-{slug}", nvidia_a10=1, nvidia_l4=1)
        self.reader = scenes.make_tenant(f"reader-{slug}")
        self.winner = self.submit("winner", (A10, most), (L4, most))
        self.turn()
        self.submit("loser", (A10, "0.9"))
        self.turn()
        self.submit("lower", (A10, "0.7"), (L4, "0.5"))
        self.turn()

    def submit(self, name: str, *rows: tuple[str, str]) -> Job:
        tenant = Tenant.objects.filter(name=f"{name}-{self.cluster.slug}").first()
        tenant = tenant or scenes.make_tenant(f"{name}-{self.cluster.slug}")
        return scenes.submit(tenant, *rows, cluster=self.cluster.slug, name=name)

    def turn(self) -> None:
        scenes.tick(self.cluster)
        self.host.settle()
        scenes.tick(self.cluster)

    def seen(self) -> str:
        """Every public answer and event, with what no two runs share taken out."""
        _, secret = transact(
            lambda outbox: accounts.create_token(
                self.reader, name="t", scopes=["prices:read"], days=1, actor="test", outbox=outbox
            )
        )
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        base = f"/api/v1/markets/{self.cluster.slug}"
        numbers = self.cluster.clearings.order_by("number").values_list("number", flat=True)
        paths = [base, f"{base}/types/{A10}/history", f"{base}/types/{A10}/price-changes"]
        paths += [f"{base}/receipts/{number}" for number in numbers]
        answers = [client.get(path) for path in paths]
        assert {answer.status_code for answer in answers} == {200}
        return json.dumps([*map(_timeless, [answer.json() for answer in answers])], indent=1) + json.dumps(
            [(event.seq, event.type, event.subject, _timeless(event.data)) for event in events(self.cluster.slug)]
        ).replace(self.cluster.slug, "here")


TIMES = {"at", "since", "as_of", "age_seconds", "stale", "from", "to", "cluster"}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(inner) for name, inner in value.items() if name not in TIMES}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def test_two_markets_that_differ_in_a_winners_maximum_look_the_same_until_a_bid_wins() -> None:
    one, other = World("one", "1.0"), World("other", "1.9")
    assert one.seen() == other.seen()
    for world in (one, other):
        world.submit("bolder", (A10, "0.95"))
        world.turn()
    assert one.seen() == other.seen()
    for world in (one, other):
        world.submit("boldest", (A10, "1.5"))
        world.turn()
    assert one.seen() != other.seen()
    assert Lease.objects.filter(job=one.winner).exists()
