"""An operator opens clusters and sets prices: through the service, and through the admin's form."""

import re
from datetime import timedelta

import pytest
from django.test import Client

from laissez import clock
from laissez.errors import Conflict, Invalid, Refused
from laissez.events import transact
from laissez.models import AuditEntry, Event
from markets.models import PriceChange, Quote
from markets.services import announcing, exchange
from tests import scenes
from tests.pages.floor import PASSWORD
from workers.models import AcceleratorType, Cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def a10() -> AcceleratorType:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    scenes.tick(cluster)
    return AcceleratorType.objects.get(slug="nvidia-a10")


def set_prices(row: AcceleratorType, base: int, cap: int, *, version: int = 1, reason: str = "why") -> AcceleratorType:
    return transact(
        lambda outbox: exchange.set_prices(
            row, base=base, cap=cap, actor="op", reason=reason, expected_version=version, outbox=outbox
        )
    )


def test_a_change_is_audited_told_and_cleared_with(a10: AcceleratorType) -> None:
    changed = set_prices(a10, 700_000, 1_500_000, reason="energy is dearer")
    assert (changed.base_price_per_hour, changed.cap_price_per_hour, changed.version) == (700_000, 1_500_000, 2)
    entry = AuditEntry.objects.get(action="type.set_prices")
    assert (entry.actor, entry.subject, entry.reason) == ("op", "gemm/nvidia-a10", "energy is dearer")
    assert entry.before == {"base_price_per_hour": "0.606000", "cap_price_per_hour": "2.000000"}
    assert entry.after == {"base_price_per_hour": "0.700000", "cap_price_per_hour": "1.500000"}
    scenes.tick(a10.cluster)
    event = Event.objects.filter(type="org.laissez.market.price.changed.v1", subject="nvidia-a10").latest("seq")
    assert event.stream.name == "market:gemm"
    assert (event.data["base_price_per_hour"], event.data["cause"]) == ("0.700000", "base")
    assert (event.data["price_per_hour"], event.data["previous_price_per_hour"]) == ("0.700000", "0.606000")
    assert Quote.objects.get(type=a10, during__upper_inf=True).price_per_hour == 700_000


@pytest.mark.parametrize(
    ("base", "cap", "reason", "code", "pointer"),
    [
        (0, 1, "why", "bad_price", "/base_price_per_hour"),
        (-5, 1, "why", "bad_price", "/base_price_per_hour"),
        (1, 0, "why", "bad_price", "/cap_price_per_hour"),
        (2, 1, "why", "base_over_cap", "/base_price_per_hour"),
        (1, 2, "  ", "reason_missing", "/reason"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    a10: AcceleratorType, base: int, cap: int, reason: str, code: str, pointer: str
) -> None:
    with pytest.raises(Invalid) as refused:
        set_prices(a10, base, cap, reason=reason)
    assert (refused.value.code, refused.value.pointer) == (code, pointer)
    a10.refresh_from_db()
    assert a10.version == 1
    assert not AuditEntry.objects.filter(action="type.set_prices").exists()


def test_a_stale_version_is_refused(a10: AcceleratorType) -> None:
    set_prices(a10, 700_000, 2_000_000)
    with pytest.raises(Conflict, match="version 2, not 1"):
        set_prices(a10, 800_000, 2_000_000)
    a10.refresh_from_db()
    assert a10.base_price_per_hour == 700_000


def test_unchanged_prices_change_nothing(a10: AcceleratorType) -> None:
    assert set_prices(a10, 606_000, 2_000_000).version == 1
    assert not AuditEntry.objects.filter(action="type.set_prices").exists()


def test_a_cluster_and_its_types_are_opened_with_an_audit_entry() -> None:
    def work(outbox: exchange.Outbox) -> AcceleratorType:
        cluster = exchange.create_cluster(
            "gemm", name="Matrices", actor="op", reason="opening", outbox=outbox, notice_seconds=5
        )
        for slug, base in (("nvidia-a10", 606_000), ("nvidia-l4", 475_500)):
            row = exchange.create_type(
                cluster, slug, name=slug, base=base, cap=2_000_000, actor="op", reason="opening", outbox=outbox
            )
        return row

    last = transact(work)
    assert last.position == 1
    assert last.cluster.notice_seconds == 5
    assert list(AuditEntry.objects.order_by("id").values_list("action", "subject")) == [
        ("cluster.create", "gemm"),
        ("type.create", "gemm/nvidia-a10"),
        ("type.create", "gemm/nvidia-l4"),
    ]


def test_clusters_and_types_that_cannot_be_are_refused(a10: AcceleratorType) -> None:
    def cluster(slug: str) -> Cluster:
        return transact(lambda outbox: exchange.create_cluster(slug, name="x", actor="op", reason="why", outbox=outbox))

    def kind(slug: str, base: int = 1) -> AcceleratorType:
        return transact(
            lambda outbox: exchange.create_type(
                a10.cluster, slug, name="x", base=base, cap=5, actor="op", reason="why", outbox=outbox
            )
        )

    for attempt, code in (
        (lambda: cluster("gemm"), "cluster_exists"),
        (lambda: cluster("Not A Slug"), "bad_value"),
        (lambda: kind("nvidia-a10"), "type_exists"),
        (lambda: kind("UPPER"), "bad_value"),
        (lambda: kind("fine", base=6), "base_over_cap"),
    ):
        with pytest.raises(Refused) as refused:
            attempt()
        assert refused.value.code == code


@pytest.fixture
def operator(django_user_model: type) -> Client:
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("operator", password=PASSWORD))  # type: ignore[attr-defined]
    return client


def test_the_form_changes_prices_through_the_service(a10: AcceleratorType, operator: Client) -> None:
    path = f"/admin/workers/acceleratortype/{a10.pk}/prices/"
    shown = operator.get(path).content.decode()
    assert 'value="0.606000"' in shown
    given = {"base": "0.7", "cap": "1.5", "reason": "energy", "expected_version": "1"}
    assert operator.post(path, given).status_code == 302
    a10.refresh_from_db()
    assert (a10.base_price_per_hour, a10.cap_price_per_hour) == (700_000, 1_500_000)
    assert AuditEntry.objects.get(action="type.set_prices").actor == "user operator"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base": "cheap"}, "is not a decimal number"),
        ({"base": "0.0000001"}, "has more than 6 decimals"),
        ({"base": "3"}, "is above the cap price"),
        ({"reason": ""}, "This field is required"),
        ({"expected_version": "7"}, "somebody has changed them meanwhile"),
    ],
)
def test_the_form_keeps_what_was_typed_and_says_what_is_wrong(
    a10: AcceleratorType, operator: Client, changes: dict[str, str], sentence: str
) -> None:
    given = {"base": "0.7", "cap": "1.5", "reason": "energy", "expected_version": "1"} | changes
    answer = operator.post(f"/admin/workers/acceleratortype/{a10.pk}/prices/", given)
    page = answer.content.decode()
    assert answer.status_code == 200
    assert sentence in page
    assert 'value="1.5"' in page
    assert re.search(r'name="expected_version" value="\d+"', page)
    a10.refresh_from_db()
    assert a10.version == 1


def test_the_form_announces_a_change_for_later(a10: AcceleratorType, operator: Client) -> None:
    path = f"/admin/workers/acceleratortype/{a10.pk}/prices/"
    later = f"{clock.now() + timedelta(days=1):%Y-%m-%dT%H:%M:%S}"
    given = {"base": "0.7", "cap": "1.5", "reason": "energy", "reason_class": "energy", "expected_version": "1"}
    answer = operator.post(path, given | {"takes_effect": "later", "effective_at": later}, follow=True)
    change = PriceChange.objects.get()
    assert f"announced as {change.public_id}" in answer.content.decode()
    assert (change.base_price_per_hour, change.reason_class, change.actor) == (700_000, "energy", "user operator")
    a10.refresh_from_db()
    assert (a10.base_price_per_hour, a10.version) == (606_000, 1)
    assert change.public_id in operator.get(path).content.decode()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"effective_at": ""}, "Say when it takes effect"),
        ({"effective_at": "soon"}, "Enter a valid date/time"),
        ({"effective_at": "2020-01-01T00:00"}, "one notice of gemm from now"),
        ({"reason_class": "mood"}, "Select a valid choice"),
    ],
)
def test_an_announcement_that_cannot_be_is_explained_at_its_field(
    a10: AcceleratorType, operator: Client, changes: dict[str, str], sentence: str
) -> None:
    given = {"base": "0.7", "cap": "1.5", "reason": "energy", "expected_version": "1", "takes_effect": "later"}
    page = operator.post(f"/admin/workers/acceleratortype/{a10.pk}/prices/", given | changes).content.decode()
    assert sentence in page
    assert 'value="1.5"' in page
    assert not PriceChange.objects.exists()


def test_an_announced_change_is_cancelled_from_its_list_with_a_reason(a10: AcceleratorType, operator: Client) -> None:
    change = transact(
        lambda outbox: announcing.announce_prices(
            a10,
            base=700_000,
            cap=1_500_000,
            effective_at=clock.now() + timedelta(days=1),
            reason_class="other",
            actor="op",
            reason="why",
            expected_version=1,
            outbox=outbox,
        )
    )
    act = {"action": "cancel", "_selected_action": str(change.pk)}
    path = "/admin/markets/pricechange/"
    assert "say why" in operator.post(path, act, follow=True).content.decode()
    change.refresh_from_db()
    assert change.state == "scheduled"
    assert "is cancelled" in operator.post(path, act | {"reason": "a mistake"}, follow=True).content.decode()
    assert "is cancelled since" in operator.post(path, act | {"reason": "again"}, follow=True).content.decode()
    entry = AuditEntry.objects.get(action="price_change.cancel")
    assert (entry.actor, entry.reason) == ("user operator", "a mistake")


def test_only_who_may_change_types_gets_the_form(a10: AcceleratorType, django_user_model: type) -> None:
    client = Client()
    client.force_login(django_user_model.objects.create_user("staff", is_staff=True))  # type: ignore[attr-defined]
    assert client.get(f"/admin/workers/acceleratortype/{a10.pk}/prices/").status_code == 403
