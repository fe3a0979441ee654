"""Announced prices: scheduled, put in force by the tick, cancelled until then, told and audited each time."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction

from laissez import clock
from laissez.errors import Conflict, Invalid
from laissez.events import transact
from laissez.models import AuditEntry, Event
from markets.models import PriceChange, Quote
from markets.selectors import exchange as exchanges
from markets.services import announcing, exchange
from tests import scenes
from tests.elapsing import pass_time
from workers.models import AcceleratorType

pytestmark = pytest.mark.django_db

A10 = "nvidia-a10"
BASE, CAP = 700_000, 1_500_000


@pytest.fixture
def a10() -> AcceleratorType:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    scenes.tick(cluster)
    return AcceleratorType.objects.select_related("cluster").get(slug=A10)


def announce(row: AcceleratorType, **changes: Any) -> PriceChange:
    """In an hour, unless told otherwise."""
    given = {
        "base": BASE,
        "cap": CAP,
        "effective_at": clock.now() + timedelta(hours=1),
        "reason_class": "energy",
        "actor": "op",
        "reason": "power is dearer",
        "expected_version": 1,
    } | changes
    return transact(lambda outbox: announcing.announce_prices(row, outbox=outbox, **given))


def cancel(change: PriceChange, reason: str = "it is not") -> PriceChange:
    return transact(lambda outbox: announcing.cancel_price_change(change, actor="op", reason=reason, outbox=outbox))


def told(what: str) -> list[dict[str, Any]]:
    return [event.data for event in Event.objects.filter(type=f"org.laissez.market.base_price.{what}.v1")]


def test_an_announced_change_is_told_at_once_and_in_force_at_its_time(a10: AcceleratorType) -> None:
    change = announce(a10)
    assert told("scheduled") == [exchanges.public_change(change)]
    assert told("scheduled")[0]["reason_class"] == "energy"
    scenes.tick(a10.cluster)
    table = exchanges.of(a10.cluster, now=clock.now())
    row = table.row(A10)
    assert row is not None
    assert (row.price, [each.pk for each in row.announced]) == (606_000, [change.pk])
    pass_time(3601)
    scenes.tick(a10.cluster)
    change.refresh_from_db()
    a10.refresh_from_db()
    assert (change.state, a10.base_price_per_hour, a10.cap_price_per_hour, a10.version) == ("in_force", BASE, CAP, 2)
    quote = Quote.objects.get(type=a10, during__upper_inf=True)
    assert (quote.price_per_hour, quote.cause) == (BASE, "base")
    assert [data["state"] for data in told("in_force")] == ["in_force"]
    entries = AuditEntry.objects.filter(subject="gemm/nvidia-a10").order_by("id")
    assert [(entry.action, entry.actor, entry.reason) for entry in entries] == [
        ("price_change.announce", "op", "power is dearer"),
        ("type.set_prices", "op", "power is dearer"),
    ]
    assert entries[1].after["price_change"] == change.public_id


def test_a_cancelled_change_never_takes_effect(a10: AcceleratorType) -> None:
    change = cancel(announce(a10))
    assert [data["price_change"] for data in told("cancelled")] == [change.public_id]
    assert AuditEntry.objects.get(action="price_change.cancel").reason == "it is not"
    pass_time(3601)
    scenes.tick(a10.cluster)
    a10.refresh_from_db()
    assert a10.base_price_per_hour == 606_000
    with pytest.raises(Conflict, match="is cancelled since"):
        cancel(change)
    announce(a10)


def test_what_is_set_at_once_meanwhile_does_not_undo_an_announcement(a10: AcceleratorType) -> None:
    change = announce(a10)
    transact(
        lambda outbox: exchange.set_prices(
            a10, base=650_000, cap=CAP, actor="op", reason="now", expected_version=1, outbox=outbox
        )
    )
    pass_time(3601)
    scenes.tick(a10.cluster)
    change.refresh_from_db()
    a10.refresh_from_db()
    assert (change.state, a10.base_price_per_hour, a10.version) == ("in_force", BASE, 3)
    with pytest.raises(Conflict, match="in force since"):
        cancel(change)


def test_one_change_at_a_time_is_scheduled_for_a_type(a10: AcceleratorType) -> None:
    first = announce(a10)
    with pytest.raises(Conflict, match=f"{first.public_id}.* cancel it first") as refused:
        announce(a10, base=800_000)
    assert refused.value.code == "already_announced"
    with pytest.raises(DatabaseError), transaction.atomic():
        PriceChange.objects.create(
            type=a10,
            base_price_per_hour=1,
            cap_price_per_hour=1,
            announced_at=first.announced_at,
            effective_at=first.effective_at,
        )


@pytest.mark.parametrize(
    ("changes", "code", "pointer", "sentence"),
    [
        ({"base": 0}, "bad_price", "/base_price_per_hour", "above"),
        ({"base": CAP + 1}, "base_over_cap", "/base_price_per_hour", "1.500001"),
        ({"reason": " "}, "reason_missing", "/reason", "Say why"),
        ({"reason_class": "mood"}, "bad_reason_class", "/reason_class", "'mood'; give one of costs, energy"),
        (
            {"effective_at": datetime(2020, 1, 1, tzinfo=UTC)},
            "bad_time",
            "/effective_at",
            "2020-01-01T00:00:00Z; give a",
        ),
        (
            {"effective_at": datetime(2999, 1, 1, tzinfo=UTC)},
            "bad_time",
            "/effective_at",
            "2999-01-01T00:00:00Z; give a",
        ),
        ({"base": 606_000, "cap": 2_000_000}, "unchanged", "/base_price_per_hour", "0.606000"),
    ],
)
def test_what_cannot_be_announced_is_refused_with_field_value_and_remedy(
    a10: AcceleratorType, changes: dict[str, Any], code: str, pointer: str, sentence: str
) -> None:
    with pytest.raises(Invalid, match=sentence) as refused:
        announce(a10, **changes)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)
    assert not PriceChange.objects.exists()
    assert not AuditEntry.objects.filter(action="price_change.announce").exists()


def test_a_stale_version_is_refused(a10: AcceleratorType) -> None:
    with pytest.raises(Conflict, match="version 1, not 7"):
        announce(a10, expected_version=7)


def test_an_announcement_is_history(a10: AcceleratorType) -> None:
    change = announce(a10)
    for act in (
        lambda: PriceChange.objects.filter(pk=change.pk).update(base_price_per_hour=1),
        lambda: PriceChange.objects.filter(pk=change.pk).update(effective_at=clock.now() + timedelta(days=1)),
        lambda: PriceChange.objects.filter(pk=change.pk).delete(),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            act()
    cancel(change)
    with pytest.raises(DatabaseError), transaction.atomic():
        PriceChange.objects.filter(pk=change.pk).update(state="scheduled", closed_at=None)


def run(*words: str) -> str:
    out = StringIO()
    call_command("price_change", *words, stdout=out)
    return out.getvalue()


def test_the_command_announces_lists_and_cancels(a10: AcceleratorType) -> None:
    at = clock.rfc3339(clock.now() + timedelta(days=1))
    words = ("announce", "gemm", A10, "--base", "0.7", "--cap", "1.5", "--at", at, "--reason", "why")
    line = run(*words)
    assert "base $0.700000/h, cap $1.500000/h" in line
    assert run("list") == line
    with pytest.raises(CommandError, match="already"):
        run(*words)
    public_id = line.split()[0]
    assert "cancelled" in run("cancel", public_id, "--reason", "why")
    assert run("list") == "No change is scheduled.\n"
    with pytest.raises(CommandError, match="names them"):
        run("cancel", "pch_nothing", "--reason", "why")
    with pytest.raises(CommandError, match="not a time with its zone"):
        run(*words[:8], "tomorrow", *words[9:])
