"""Signing in, and what a signed-in person may do."""

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client

from laissez.errors import Conflict, Invalid
from laissez.events import transact
from tenants.auth import SESSION_TENANT
from tenants.models import Member, Tenant
from tenants.services import accounts, people
from tests.ledger.acts import charge, place_hold
from tests.tenancy import ACTOR, a_tenant, a_token

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-9"


def a_member(tenant: Tenant, username: str = "ann", role: Member.Role = Member.Role.OWNER) -> User:
    member = transact(
        lambda outbox: accounts.add_member(
            tenant, username=username, password=PASSWORD, role=role, actor=ACTOR, outbox=outbox
        )
    )
    return member.user


def test_a_member_signs_in_on_the_page_and_out_again(client: Client) -> None:
    a_member(a_tenant())
    assert b"csrfmiddlewaretoken" in client.get("/login/").content
    wrong = client.post("/login/", {"username": "ann", "password": "wrong"})
    assert b"Please enter a correct username and password" in wrong.content
    right = client.post("/login/", {"username": "ann", "password": PASSWORD, "next": "/api/v1/balance"})
    assert (right.status_code, right["Location"]) == (302, "/api/v1/balance")
    assert client.get("/api/v1/balance").status_code == 200
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/api/v1/balance").status_code == 401


def test_signing_in_leads_nowhere_else(client: Client) -> None:
    a_member(a_tenant())
    answer = client.post("/login/", {"username": "ann", "password": PASSWORD, "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/"


def test_a_session_sees_its_own_tenant(client: Client) -> None:
    a_tenant("Beta", microdollars=7)
    client.force_login(a_member(a_tenant(microdollars=1_000_000)))
    assert client.get("/api/v1/balance").json()["balance"] == "1.000000"


def test_a_member_of_two_tenants_acts_for_the_one_they_chose(client: Client) -> None:
    first, second, foreign = (
        a_tenant(microdollars=1),
        a_tenant("Beta", microdollars=2),
        a_tenant("Gamma", microdollars=3),
    )
    user = a_member(first)
    Member.objects.create(user=user, tenant=second)
    client.force_login(user)
    for chosen, balance in ((None, 1), (second, 2), (foreign, 1)):
        session = client.session
        session[SESSION_TENANT] = chosen.public_id if chosen else None
        session.save()
        assert client.get("/api/v1/balance").json()["balance"] == f"0.00000{balance}"


def test_a_user_of_no_tenant_is_told_so(client: Client) -> None:
    client.force_login(User.objects.create_user("operator", password=PASSWORD))
    response = client.get("/api/v1/balance")
    assert (response.status_code, response.json()["code"]) == (403, "no_tenant")


def test_an_inactive_user_is_nobody(client: Client) -> None:
    user = a_member(a_tenant())
    client.force_login(user)
    User.objects.update(is_active=False)
    assert client.get("/api/v1/balance").status_code == 401


@pytest.mark.parametrize(("role", "status"), [(Member.Role.FINANCE, 403), (Member.Role.ENGINEER, 400)])
@pytest.mark.urls("tests.apibase.urls")
def test_a_role_decides_what_a_session_may_do(client: Client, role: Member.Role, status: int) -> None:
    client.force_login(a_member(a_tenant(), role=role))
    response = client.post("/api/spend?dry_run=perhaps", {"amount": 1}, "application/json")
    assert response.status_code == status


@pytest.mark.urls("tests.apibase.urls")
def test_a_session_writes_only_with_its_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(a_member(a_tenant(microdollars=1)))
    response = client.post("/api/spend", {"amount": 1}, "application/json")
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


def test_a_taken_user_name_and_a_weak_password_are_refused() -> None:
    tenant = a_tenant()
    a_member(tenant)
    with pytest.raises(Conflict, match="already a user 'ann'"):
        a_member(tenant)
    with pytest.raises(Invalid) as refused:
        transact(
            lambda outbox: accounts.add_member(tenant, username="ben", password="short", actor=ACTOR, outbox=outbox)
        )
    assert {fault.pointer for fault in refused.value.faults} == {"/password"}
    assert User.objects.count() == 1


@pytest.mark.parametrize("page", ["tenant", "member", "apitoken", "invitation", "account", "transfer", "hold"])
def test_operators_look_up_and_change_nothing(client: Client, page: str) -> None:
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    tenant = a_tenant(microdollars=10)
    a_member(tenant)
    token, _ = a_token(tenant)
    charge(tenant, 1)
    place_hold(tenant, 1)
    transact(lambda outbox: people.invite(tenant, role="viewer", actor=ACTOR, outbox=outbox))
    listed = client.get(f"/admin/tenants/{page}/")
    assert listed.status_code == 200
    assert client.get(f"/admin/tenants/{page}/add/").status_code == 403
    row = apps.get_model("tenants", page).objects.latest("pk").pk
    shown = client.get(f"/admin/tenants/{page}/{row}/change/")
    assert shown.status_code == 200
    assert token.digest not in shown.content.decode()
    assert client.post(f"/admin/tenants/{page}/{row}/change/", {}).status_code == 403
    assert client.post(f"/admin/tenants/{page}/{row}/delete/", {"post": "yes"}).status_code == 403


@pytest.mark.parametrize("page", ["stream", "event", "auditentry"])
def test_operators_read_history(client: Client, page: str) -> None:
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    a_tenant(microdollars=10)
    assert client.get(f"/admin/laissez/{page}/").status_code == 200
    assert client.get(f"/admin/laissez/{page}/add/").status_code == 403
