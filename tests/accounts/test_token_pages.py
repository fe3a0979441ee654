"""Tokens made, rolled and revoked on the page and through the API; a secret is told once, whatever is clicked."""

import re
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from laissez.credentials import digest, new_token
from laissez.errors import Conflict, Refused
from laissez.events import transact
from laissez.models import AuditEntry, Event
from laissez.sdk import cli
from tenants.models import ApiToken, IdempotencyKey, Member, Tenant
from tenants.services import accounts
from tests import soundness
from tests.accounts.test_people import a_member
from tests.asking import Asker, faults
from tests.racing import race
from tests.tenancy import ACTOR, a_tenant, a_token, bearer

SECRET = re.compile(r"lz_live_[0-9A-Za-z]{36}")
HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}{{ 7 }}"[:80]
FORM = {"name": "laptop", "scopes": ["jobs:read", "jobs:write"], "days": "7", "key": "k"}


def secrets(answer: HttpResponse) -> set[str]:
    return set(SECRET.findall(answer.content.decode()))


@pytest.fixture
def tenant() -> Tenant:
    return a_tenant()


@pytest.fixture
def ann(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(a_member(tenant))
    return client


@pytest.mark.django_db
class TestOnThePage:
    """As somebody sees it who has signed in."""

    def test_a_new_token_is_shown_once_with_the_line_that_stores_it(self, ann: Client) -> None:
        answer = ann.post("/settings/tokens/new", FORM)
        (text,) = secrets(answer)
        assert f"laissez login --url http://testserver --token {text}" in answer.content.decode()
        assert answer["Cache-Control"] == "private, no-store"
        token = ApiToken.objects.get()
        assert (token.digest, token.scopes, token.created_by) == (digest(text), ["jobs:read", "jobs:write"], "user ann")
        assert token.expires_at - token.created_at == timedelta(days=7)
        assert secrets(ann.get("/settings/tokens")) == set()
        assert Client().get("/api/v1/jobs", headers=bearer(text)).status_code == 200
        kept = [*ApiToken.objects.values(), *AuditEntry.objects.values(), *IdempotencyKey.objects.values()]
        assert text not in str([*kept, *Event.objects.values()])

    def test_a_double_click_or_a_reload_makes_one_token_and_never_tells_it_again(self, ann: Client) -> None:
        ann.post("/settings/tokens/new", FORM)
        again = ann.post("/settings/tokens/new", FORM)
        assert "has been made already" in again.content.decode()
        assert secrets(again) == set()
        assert ApiToken.objects.count() == 1

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"name": ""}, "is not a name"),
            ({"name": "x" * 81}, "is not a name"),
            ({"scopes": []}, "at least one scope"),
            ({"scopes": ["members:write"]}, "is not a scope"),
            ({"days": "0"}, "from 1 to 366"),
            ({"days": "soon"}, "is not a whole number"),
        ],
    )
    def test_what_is_wrong_is_told_at_its_field_and_the_rest_kept(
        self, ann: Client, change: dict[str, Any], says: str
    ) -> None:
        answer = ann.post("/settings/tokens/new", FORM | change)
        page = answer.content.decode()
        assert answer.status_code == 400
        assert says in page
        assert f'value="{(FORM | change)["name"]}"' in page
        assert not ApiToken.objects.exists()

    def test_the_list_tells_every_state_in_words(self, ann: Client, tenant: Tenant) -> None:
        active, _ = a_token(tenant, "jobs:read")
        expired, _ = a_token(tenant, "jobs:read")
        ApiToken.objects.filter(pk=expired.pk).update(
            created_at=active.created_at - timedelta(days=2), expires_at=active.created_at - timedelta(days=1)
        )
        revoked, _ = a_token(tenant, "jobs:read")
        ann.post(f"/settings/tokens/{revoked.public_id}/revoke")
        rolled, _ = a_token(tenant, "jobs:read")
        ann.post(f"/settings/tokens/{rolled.public_id}/roll", {"hours": "5", "key": "r"})
        page = ann.get("/settings/tokens").content.decode()
        assert re.findall(r'<span class="chip[^"]*">(\w+)<', page) == [
            "active",
            "rolled",
            "revoked",
            "expired",
            "active",
        ]

    def test_a_rolled_token_stays_good_until_it_ends(self, ann: Client, tenant: Tenant) -> None:
        old, old_text = a_token(tenant, "jobs:read")
        answer = ann.post(f"/settings/tokens/{old.public_id}/roll", {"hours": "5", "key": "r"})
        (new_text,) = secrets(answer)
        for text in (old_text, new_text):
            assert Client().get("/api/v1/jobs", headers=bearer(text)).status_code == 200
        old.refresh_from_db()
        assert old.rolled_into is not None
        assert (old.rolled_into.scopes, old.rolled_into.digest) == (["jobs:read"], digest(new_text))
        assert timedelta(hours=4, minutes=59) < old.expires_at - old.rolled_into.created_at <= timedelta(hours=5)
        assert soundness.violations() == []
        again = ann.post(f"/settings/tokens/{old.public_id}/roll", {"hours": "5", "key": "other"})
        assert (again.status_code, secrets(again)) == (409, set())

    def test_hostile_names_are_only_text(self, ann: Client, tenant: Tenant) -> None:
        Tenant.objects.filter(pk=tenant.pk).update(name=HOSTILE)
        ApiToken.objects.filter(pk=a_token(tenant)[0].pk).update(name=HOSTILE, created_by=HOSTILE)
        for path in ("/settings/tokens", "/settings/members", "/settings/password"):
            page = ann.get(path).content.decode()
            assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in ann.get("/settings/tokens").content.decode()

    def test_a_viewer_sees_no_tokens_and_another_tenants_cannot_be_touched(self, ann: Client, tenant: Tenant) -> None:
        foreign, text = a_token(a_tenant("Beta"))
        assert ann.post(f"/settings/tokens/{foreign.public_id}/revoke").status_code == 404
        assert ann.post(f"/settings/tokens/{foreign.public_id}/roll", {"hours": "1", "key": "x"}).status_code == 404
        assert Client().get("/api/v1/balance", headers=bearer(text)).status_code == 200
        vera = Client()
        vera.force_login(a_member(tenant, "vera", Member.Role.VIEWER))
        assert vera.get("/settings/tokens").status_code == 403
        assert vera.post("/settings/tokens/new", FORM).status_code == 403
        assert vera.get("/settings")["Location"] == "/settings/members"

    def test_forms_need_their_csrf_token(self, ann: Client) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = ann.cookies
        assert strict.post("/settings/tokens/new", FORM).status_code == 403


@pytest.mark.django_db
class TestThroughTheApi:
    """As a program with a token sees it."""

    def asker(self, tenant: Tenant, *scopes: str) -> Asker:
        return Asker(bearer(a_token(tenant, *scopes)[1]))

    def test_a_token_makes_lists_rolls_and_revokes(self, tenant: Tenant) -> None:
        asker = self.asker(tenant, "jobs:read", "tokens:write")
        made = asker.post("/api/v1/tokens", {"name": "ci"}, Idempotency_Key="a")
        body = made.json()
        assert (made.status_code, body["scopes"], body["state"]) == (201, ["jobs:read"], "active")
        replayed = asker.post("/api/v1/tokens", {"name": "ci"}, Idempotency_Key="a")
        assert replayed.json() == body | {"secret": None}
        assert body["secret"] not in str(list(IdempotencyKey.objects.values()))
        rolled = asker.post(f"/api/v1/tokens/{body['token']}/roll", {"hours": 2}).json()
        assert Client().get("/api/v1/jobs", headers=bearer(rolled["secret"])).status_code == 200
        ended = asker.post(f"/api/v1/tokens/{rolled['token']}/revoke", {"reason": "leaked"})
        assert ended.json()["state"] == "revoked"
        assert AuditEntry.objects.get(action="token.revoke").reason == "leaked"
        listed = asker.get("/api/v1/tokens").json()["items"]
        assert [each["state"] for each in listed] == ["revoked", "rolled", "active"]
        assert "secret" not in listed[0]

    def test_a_token_cannot_make_a_stronger_one(self, tenant: Tenant) -> None:
        asker = self.asker(tenant, "jobs:read", "tokens:write")
        stronger = asker.post("/api/v1/tokens", {"name": "x", "scopes": ["jobs:read", "jobs:write"]})
        assert (stronger.status_code, faults(stronger)) == (403, [("scope_exceeded", "/scopes")])
        assert "Nobody can grant" in stronger.json()["detail"]
        longer = asker.post("/api/v1/tokens", {"name": "x", "days": 91})
        assert faults(longer) == [("outlives_maker", "/days")]
        other, _ = a_token(tenant, "jobs:write")
        assert asker.post(f"/api/v1/tokens/{other.public_id}/roll", {}).status_code == 403
        own = ApiToken.objects.earliest("pk")
        assert asker.post("/api/v1/tokens", {"name": "x"}).json()["expires_at"][:19] == own.expires_at.isoformat()[:19]

    def test_the_scope_that_makes_tokens_is_only_given_when_asked_for(self, tenant: Tenant) -> None:
        asker = self.asker(tenant)
        assert "tokens:write" not in asker.post("/api/v1/tokens", {"name": "x"}).json()["scopes"]
        asked = asker.post("/api/v1/tokens", {"name": "x", "scopes": ["tokens:write"]})
        assert asked.json()["scopes"] == ["tokens:write"]

    def test_without_the_scope_there_is_nothing_to_see_or_do(self, tenant: Tenant) -> None:
        asker = self.asker(tenant, *accounts.USUAL_SCOPES)
        token = ApiToken.objects.get().public_id
        answers = [asker.get("/api/v1/tokens"), asker.post("/api/v1/tokens", {"name": "x"})]
        answers += [asker.post(f"/api/v1/tokens/{token}/{act}", {}) for act in ("roll", "revoke")]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(403, "scope_missing")] * 4

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({}, ("bad_value", "/name")),
            ([], ("bad_body", "")),
            ({"name": 7}, ("bad_value", "/name")),
            ({"name": "x", "scopes": "jobs:read"}, ("bad_value", "/scopes")),
            ({"name": "x", "days": "7"}, ("bad_value", "/days")),
            ({"name": "x", "days": 0}, ("bad_lifetime", "/days")),
            ({"name": "x", "colour": 1}, ("unknown_field", "/colour")),
        ],
    )
    def test_a_bad_request_is_named(self, tenant: Tenant, body: Any, fault: tuple[str, str]) -> None:
        assert faults(self.asker(tenant).post("/api/v1/tokens", body)) == [fault]

    def test_a_dry_run_makes_nothing_and_tells_no_secret(self, tenant: Tenant) -> None:
        answer = self.asker(tenant).post("/api/v1/tokens?dry_run=true", {"name": "x"})
        assert (answer.status_code, answer.json()["secret"]) == (200, None)
        assert ApiToken.objects.count() == 1

    def test_another_tenants_token_is_not_there(self, tenant: Tenant) -> None:
        foreign, _ = a_token(a_tenant("Beta"))
        asker = self.asker(tenant)
        for act in ("roll", "revoke"):
            assert asker.post(f"/api/v1/tokens/{foreign.public_id}/{act}", {}).status_code == 404

    def test_each_state_of_a_token_that_is_no_good_has_its_own_code(self, tenant: Tenant) -> None:
        token, text = a_token(tenant)
        given = ("rubbish", "lz_live_" + "0" * 36, new_token("live"), text)
        codes = [Client().get("/api/v1/tokens", headers=bearer(each)).json().get("code") for each in given]
        ApiToken.objects.filter(pk=token.pk).update(
            created_at=token.created_at - timedelta(days=200), expires_at=token.created_at - timedelta(days=1)
        )
        codes.append(Client().get("/api/v1/tokens", headers=bearer(text)).json()["code"])
        transact(
            lambda outbox: accounts.revoke_token(
                tenant, public_id=token.public_id, reason="x", actor=ACTOR, outbox=outbox
            )
        )
        codes.append(Client().get("/api/v1/tokens", headers=bearer(text)).json()["code"])
        assert codes == ["token_malformed", "token_malformed", "token_unknown", None, "token_expired", "token_revoked"]


def test_the_command_line_knows_tokens() -> None:
    shown = CliRunner().invoke(cli.cli, ["token", "--help"])
    assert all(verb in shown.output for verb in ("list", "create", "roll", "revoke"))


@pytest.mark.django_db(transaction=True)
class TestRaces:
    """With connections of their own."""

    def test_of_two_who_revoke_one_does(self) -> None:
        tenant = a_tenant()
        token, _ = a_token(tenant)

        def revoke(_: int) -> None:
            transact(
                lambda outbox: accounts.revoke_token(
                    tenant, public_id=token.public_id, reason="x", actor=ACTOR, outbox=outbox
                )
            )

        outcomes = race(2, revoke)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "NoneType"]
        assert AuditEntry.objects.filter(action="token.revoke").count() == 1

    def test_of_two_who_roll_one_does(self) -> None:
        tenant = a_tenant()
        token, _ = a_token(tenant)
        grantor = accounts.Grantor(ACTOR, frozenset(ApiToken.Scope.values))

        def roll(_: int) -> object:
            return transact(
                lambda outbox: accounts.roll_token(tenant, public_id=token.public_id, grantor=grantor, outbox=outbox)
            )

        outcomes = race(2, roll)
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1
        assert ApiToken.objects.count() == 2
        with pytest.raises(Refused, match="1 to 168 hours"):
            transact(
                lambda outbox: accounts.roll_token(
                    tenant, public_id=token.public_id, hours=0, grantor=grantor, outbox=outbox
                )
            )
        assert User.objects.count() == 0
