"""The admin: everything can be looked up, nothing is edited behind the services' back, no bid is shown."""

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client, RequestFactory

from laissez.models import AuditEntry
from markets.services import metering
from tests import scenes
from tests.pages.floor import PASSWORD, Floor, moved_job
from workers.models import Host

pytestmark = pytest.mark.django_db

OURS = ("laissez", "tenants", "workers", "markets")


@pytest.fixture
def operator(django_user_model: type) -> Client:
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("operator", password=PASSWORD))  # type: ignore[attr-defined]
    return client


def pages() -> list[tuple[str, type]]:
    return [
        (f"/admin/{model._meta.app_label}/{model._meta.model_name}/", model)
        for app in OURS
        for model in apps.get_app_config(app).get_models()
    ]


def test_every_model_can_be_looked_up() -> None:
    assert {model for _, model in pages()} <= set(admin.site._registry)


def test_nobody_adds_edits_or_deletes_rows_by_hand(django_user_model: type, rf: RequestFactory) -> None:
    request = rf.get("/admin/")
    request.user = django_user_model.objects.create_superuser("operator", password=PASSWORD)  # type: ignore[attr-defined]
    for _, model in pages():
        page = admin.site._registry[model]
        may = page.get_model_perms(request)
        assert may == {"add": False, "change": False, "delete": False, "view": True}, model


def test_every_list_and_every_row_opens(floor: Floor, operator: Client) -> None:
    moved_job(floor)
    metering.meter_cluster(floor.cluster.pk)
    for path, model in pages():
        row = model._default_manager.first()  # type: ignore[attr-defined]
        assert operator.get(f"{path}?q=x").status_code == 200, path
        if row is not None:
            assert operator.get(f"{path}{row.pk}/change/").status_code == 200, path


def test_an_edit_by_hand_is_refused(floor: Floor, operator: Client) -> None:
    path = f"/admin/workers/host/{floor.a10.host.pk}"
    assert operator.post(f"{path}/change/", {"state": "ready"}).status_code == 403
    assert operator.post(f"{path}/delete/", {"post": "yes"}).status_code == 403
    assert operator.get("/admin/markets/bid/add/").status_code == 403


def test_no_page_shows_what_a_winner_bids(floor: Floor, operator: Client) -> None:
    floor.run(floor.birch, ("nvidia-l4", "1.234567"))
    scenes.tick(floor.cluster)
    for path, model in pages():
        row = model._default_manager.order_by("-pk").first()  # type: ignore[attr-defined]
        shown = [path] if row is None else [path, f"{path}{row.pk}/change/"]
        for page in shown:
            content = operator.get(page).content.decode()
            assert not re.search(r"1\.?234567", content), page


def act(operator: Client, action: str, host: Host, reason: str = "maintenance") -> str:
    given = {"action": action, "reason": reason, "_selected_action": str(host.pk)}
    return operator.post("/admin/workers/host/", given, follow=True).content.decode()


def test_a_host_is_drained_and_taken_back_with_a_reason(floor: Floor, operator: Client) -> None:
    host = floor.a10.host
    assert "Host host-a10 is draining" in act(operator, "drain", host)
    host.refresh_from_db()
    assert host.state == Host.State.DRAINING
    entry = AuditEntry.objects.order_by("-id")[0]
    assert (entry.actor, entry.subject, entry.reason) == ("user operator", host.public_id, "maintenance")
    assert "Host host-a10 is ready" in act(operator, "approve", host)


def test_an_act_without_a_reason_does_nothing(floor: Floor, operator: Client) -> None:
    assert "Nothing was done: say why" in act(operator, "drain", floor.a10.host, reason=" ")
    assert Host.objects.get(pk=floor.a10.host.pk).state == Host.State.READY


def test_an_act_that_its_state_forbids_is_explained(floor: Floor, operator: Client) -> None:
    assert "cannot become" in act(operator, "approve", floor.a10.host)


def test_staff_without_the_right_cannot_act_on_hosts(floor: Floor, django_user_model: type) -> None:
    staff = django_user_model.objects.create_user("staff", is_staff=True)  # type: ignore[attr-defined]
    staff.user_permissions.add(Permission.objects.get(codename="view_host"))
    client = Client()
    client.force_login(staff)
    assert client.get("/admin/workers/host/").status_code == 200
    act(client, "drain", floor.a10.host)
    assert Host.objects.get(pk=floor.a10.host.pk).state == Host.State.READY
