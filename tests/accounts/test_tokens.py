"""A token is recognised, scoped, dated and revocable, and known in clear only to its owner."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from laissez.credentials import ALPHABET, digest, is_well_formed, new_token, shown_prefix
from laissez.errors import Conflict, Invalid, NotFound, Refused
from laissez.events import transact
from laissez.models import AuditEntry, Event
from tenants.models import ApiToken
from tenants.services import accounts
from tests.tenancy import ACTOR, a_tenant, a_token, bearer


def ask(text: str, client: Client | None = None, path: str = "/api/v1/balance") -> Any:
    return (client or Client()).get(path, headers=bearer(text))


def revoke(token: ApiToken, *, of: Any = None) -> None:
    transact(
        lambda outbox: accounts.revoke_token(
            of or token.tenant, public_id=token.public_id, reason="leaked", actor=ACTOR, outbox=outbox
        )
    )


@given(st.sampled_from(["live", "host"]))
def test_a_fresh_token_is_well_formed_for_its_kind_alone(kind: str) -> None:
    token = new_token(kind)
    assert len(token) == len(f"lz_{kind}_") + 36
    assert [other for other in ("live", "host", "test") if is_well_formed(token, kind=other)] == [kind]
    assert shown_prefix(token) == token[: len(f"lz_{kind}_") + 6]


TOKEN = new_token("live")
"""Drawn once: examples that a search compares must not depend on chance of their own."""


@given(st.data())
def test_a_token_with_a_wrong_character_is_recognised_without_a_look_up(data: st.DataObject) -> None:
    token = TOKEN
    place = data.draw(st.integers(8, len(token) - 1))
    other = data.draw(st.sampled_from(ALPHABET).filter(lambda character: character != token[place]))
    assert not is_well_formed(token[:place] + other + token[place + 1 :], kind="live")


@pytest.mark.parametrize("text", ["", "lz_live_", "lz_live_x", "x" * 44, "lz_live_" + "é" * 36])
def test_what_is_no_token_is_not_well_formed(text: str) -> None:
    assert not is_well_formed(text, kind="live")


@pytest.mark.django_db
class TestAtTheApi:
    """Through the whole of the stack."""

    def test_a_good_token_sees_its_own_tenant(self) -> None:
        a_tenant("Beta", microdollars=7)
        _, text = a_token(a_tenant(microdollars=1_500_000))
        response = ask(text)
        assert response.status_code == 200
        assert response.json() == {
            "currency": "USD",
            "balance": "1.500000",
            "held": "0.000000",
            "available": "1.500000",
        }

    def test_nobody_at_all_is_asked_who_they_are(self, client: Client) -> None:
        response = client.get("/api/v1/balance")
        assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
        assert response["WWW-Authenticate"].startswith("Bearer")

    def test_every_state_in_which_a_token_is_no_good_has_its_code(self) -> None:
        tenant = a_tenant()
        expired, expired_text = a_token(tenant)
        ApiToken.objects.filter(pk=expired.pk).update(
            created_at=expired.created_at - timedelta(days=91), expires_at=expired.created_at
        )
        revoked, revoked_text = a_token(tenant)
        revoke(revoked)
        states = {
            new_token("live"): "token_unknown",
            new_token("host"): "token_malformed",
            revoked_text[:-1]: "token_malformed",
            "": "token_malformed",
            "a b": "token_malformed",
            expired_text: "token_expired",
            revoked_text: "token_revoked",
        }
        for text, code in states.items():
            response = ask(text)
            assert (response.status_code, response.json()["code"]) == (401, code)
            assert response["WWW-Authenticate"].startswith("Bearer")

    def test_a_token_without_the_scope_is_told_which_it_lacks(self) -> None:
        _, text = a_token(a_tenant(), "jobs:read")
        response = ask(text)
        assert (response.status_code, response.json()["code"]) == (403, "scope_missing")
        assert response.json()["detail"] == "This needs the scope billing:read."

    def test_only_the_hash_is_kept_and_nothing_tells_the_token(self, caplog: pytest.LogCaptureFixture) -> None:
        token, text = a_token(a_tenant())
        ask(text)
        assert token.digest == digest(text)
        assert text.startswith(token.prefix)
        secret = text[len(token.prefix) :]
        kept = [*ApiToken.objects.values(), *AuditEntry.objects.values(), *Event.objects.values()]
        assert secret not in str(kept) + caplog.text

    def test_its_last_use_is_noted_once_a_minute(self) -> None:
        token, text = a_token(a_tenant())
        assert token.last_used_at is None
        ask(text)
        token.refresh_from_db()
        first = token.last_used_at
        assert first is not None
        ask(text)
        token.refresh_from_db()
        assert token.last_used_at == first
        ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
        ask(text)
        token.refresh_from_db()
        assert token.last_used_at is not None
        assert token.last_used_at >= first

    def test_a_token_lives_ninety_days_unless_told_otherwise(self) -> None:
        token, _ = a_token(a_tenant())
        assert token.expires_at - token.created_at == timedelta(days=90)

    def test_a_token_is_revoked_once_and_says_so(self) -> None:
        token, _ = a_token(a_tenant())
        revoke(token)
        with pytest.raises(Conflict, match="revoked already"):
            revoke(token)
        entry = AuditEntry.objects.get(action="token.revoke")
        assert (entry.actor, entry.subject, entry.reason) == (ACTOR, token.public_id, "leaked")
        assert entry.before == {"revoked_at": None}
        assert Event.objects.get(type="org.laissez.token.revoked.v1").stream.name == token.tenant.stream

    def test_another_tenants_token_looks_like_none(self) -> None:
        token, text = a_token(a_tenant())
        with pytest.raises(NotFound, match="no such token"):
            revoke(token, of=a_tenant("Beta"))
        assert ask(text).status_code == 200

    @pytest.mark.parametrize(
        ("scopes", "code"),
        [([], "no_scopes"), (["jobs:read", "all"], "unknown_scope"), (["host:sync"], "unknown_scope")],
    )
    def test_scopes_that_are_none_are_refused(self, scopes: list[str], code: str) -> None:
        tenant = a_tenant()
        with pytest.raises(Refused) as refused:
            transact(lambda outbox: accounts.create_token(tenant, name="x", scopes=scopes, actor=ACTOR, outbox=outbox))
        assert (refused.value.code, refused.value.pointer) == (code, "/scopes")
        assert isinstance(refused.value, Invalid) == (code == "unknown_scope")
        assert not ApiToken.objects.exists()

    @pytest.mark.parametrize("days", [0, -1, 367])
    def test_a_lifetime_that_is_none_is_refused(self, days: int) -> None:
        tenant = a_tenant()
        with pytest.raises(Refused, match="from 1 to 366 days"):
            transact(
                lambda outbox: accounts.create_token(
                    tenant, name="x", scopes=["jobs:read"], days=days, actor=ACTOR, outbox=outbox
                )
            )

    def test_a_statement_is_paged_and_is_ones_own(self) -> None:
        a_tenant("Beta", microdollars=7)
        _, text = a_token(a_tenant(microdollars=1_500_000))
        body = ask(text, path="/api/v1/statement").json()
        assert body["has_more"] is False
        (line,) = body["items"]
        assert (line["kind"], line["amount"], line["balance_after"]) == ("top_up", "1.500000", "1.500000")
