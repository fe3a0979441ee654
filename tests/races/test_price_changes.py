"""Announcing, cancelling and coming into force meet: exactly one of them happens, and the rest hear why not."""

from datetime import timedelta

import pytest

from laissez import clock
from laissez.errors import Conflict
from laissez.events import Outbox, transact
from laissez.models import Event
from markets.models import PriceChange
from markets.services import announcing, exchange, scheduling
from tests import scenes
from tests.elapsing import pass_time
from tests.races.interleaving import overlapping
from workers.models import AcceleratorType


@pytest.fixture
def a10() -> AcceleratorType:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    scenes.tick(cluster)
    return AcceleratorType.objects.select_related("cluster").get(slug="nvidia-a10")


def announce(row: AcceleratorType, base: int, outbox: Outbox) -> PriceChange:
    return announcing.announce_prices(
        row,
        base=base,
        cap=2_000_000,
        effective_at=clock.now() + timedelta(hours=1),
        reason_class="other",
        actor="op",
        reason="why",
        expected_version=1,
        outbox=outbox,
    )


def cancel(change: PriceChange, outbox: Outbox) -> PriceChange:
    return announcing.cancel_price_change(change, actor="op", reason="why", outbox=outbox)


def refused(act: object) -> str:
    """The code with which an act of its own transaction is refused."""
    with pytest.raises(Conflict) as refusal:
        transact(act)  # type: ignore[arg-type]
    return refusal.value.code


def test_of_two_announcements_one_stands(a10: AcceleratorType) -> None:
    first, code = overlapping(
        lambda outbox: announce(a10, 700_000, outbox), lambda: refused(lambda outbox: announce(a10, 800_000, outbox))
    )
    assert code == "already_announced"
    assert PriceChange.objects.get() == first


def test_prices_set_while_a_change_is_being_announced_see_its_version_unharmed(a10: AcceleratorType) -> None:
    change, _ = overlapping(
        lambda outbox: announce(a10, 700_000, outbox),
        lambda: transact(
            lambda outbox: exchange.set_prices(
                a10, base=650_000, cap=2_000_000, actor="op", reason="why", expected_version=1, outbox=outbox
            )
        ),
    )
    a10.refresh_from_db()
    assert (change.state, a10.base_price_per_hour) == ("scheduled", 650_000)


def due(row: AcceleratorType) -> PriceChange:
    change = transact(lambda outbox: announce(row, 700_000, outbox))
    pass_time(3601)
    change.refresh_from_db()
    return change


def test_a_cancellation_that_meets_the_tick_second_is_refused(a10: AcceleratorType) -> None:
    change = due(a10)
    _, code = overlapping(
        lambda outbox: scheduling._tick(a10.cluster_id, outbox),
        lambda: refused(lambda outbox: cancel(change, outbox)),
    )
    change.refresh_from_db()
    a10.refresh_from_db()
    assert (code, change.state, a10.base_price_per_hour) == ("not_scheduled", "in_force", 700_000)


def test_a_tick_that_meets_a_cancellation_second_leaves_the_prices_alone(a10: AcceleratorType) -> None:
    change = due(a10)
    overlapping(lambda outbox: cancel(change, outbox), lambda: scenes.tick(a10.cluster))
    change.refresh_from_db()
    a10.refresh_from_db()
    assert (change.state, a10.base_price_per_hour, a10.version) == ("cancelled", 606_000, 1)
    ends = Event.objects.filter(subject=change.public_id).exclude(type__contains="scheduled")
    assert [event.type for event in ends] == ["org.laissez.market.base_price.cancelled.v1"]
