"""A request takes effect once per key, and a dry run never."""

import json
from typing import Any

import pytest
from django.test import Client

from laissez.models import Event
from tenants import selectors
from tenants.models import IdempotencyKey, Tenant
from tests.racing import race
from tests.tenancy import a_tenant, a_token, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.apibase.urls")]


class Asker:
    """A tenant with a token."""

    def __init__(self, name: str = "Alpha", *, microdollars: int = 1000) -> None:
        self.tenant: Tenant = a_tenant(name, microdollars=microdollars)
        self.headers = bearer(a_token(self.tenant)[1])

    def spend(self, amount: int, key: str | None = None, query: str = "", **more: object) -> Any:
        headers = self.headers | ({"Idempotency-Key": key} if key is not None else {})
        body = json.dumps({"amount": amount, **more})
        return Client().post(f"/api/spend{query}", body, "application/json", headers=headers)


def test_without_a_key_every_request_takes_effect() -> None:
    asker = Asker()
    assert [asker.spend(100).json()["left"] for _ in range(2)] == [900, 800]


def test_a_repeated_key_answers_the_same_again() -> None:
    asker = Asker()
    first, second = asker.spend(100, "key"), asker.spend(100, "key")
    assert (first.status_code, first.content) == (second.status_code, second.content) == (201, b'{"left":900}')
    assert "Idempotent-Replayed" not in first
    assert second["Idempotent-Replayed"] == "true"
    assert selectors.balance(asker.tenant) == 900


def test_a_key_with_another_body_or_place_is_refused() -> None:
    asker = Asker()
    asker.spend(100, "key")
    for response in (asker.spend(101, "key"), asker.spend(100, "key", "?other=1")):
        assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
    assert selectors.balance(asker.tenant) == 900


def test_the_order_of_a_bodys_members_does_not_matter() -> None:
    asker = Asker()
    asker.spend(100, "key", a=1, b=2)
    assert asker.spend(100, "key", b=2, a=1).status_code == 201


def test_a_refused_request_leaves_its_key_free() -> None:
    asker = Asker(microdollars=50)
    refused = asker.spend(100, "key")
    assert (refused.status_code, refused.json()["code"]) == (402, "insufficient_funds")
    assert not IdempotencyKey.objects.exists()
    assert asker.spend(50, "key").status_code == 201


def test_tenants_do_not_share_keys() -> None:
    first, second = Asker("Alpha"), Asker("Beta")
    for _ in range(2):
        assert first.spend(100, "key").json() == {"left": 900}
        assert second.spend(200, "key").json() == {"left": 800}


@pytest.mark.parametrize("key", ["", "x" * 201, "t\u00e9"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    response = Asker().spend(100, key)
    assert (response.status_code, response.json()["code"]) == (400, "bad_idempotency_key")


def test_many_connections_with_one_key_take_effect_once() -> None:
    asker = Asker()
    answers = [(response.status_code, response.content) for response in race(12, lambda _: asker.spend(100, "key"))]
    assert set(answers) == {(201, b'{"left":900}')}
    assert selectors.balance(asker.tenant) == 900
    assert IdempotencyKey.objects.get().answered_at is not None


def test_when_the_first_of_two_is_undone_the_second_takes_effect() -> None:
    asker = Asker(microdollars=100)
    outcomes = [response.status_code for response in race(6, lambda n: asker.spend(60, f"key {n % 2}"))]
    assert sorted(outcomes) == [201, 201, 201, 402, 402, 402]
    assert selectors.balance(asker.tenant) == 40


def test_a_dry_run_shows_the_effect_and_writes_nothing() -> None:
    asker = Asker()
    events = Event.objects.count()
    response = asker.spend(100, "key", "?dry_run=true")
    assert (response.status_code, response.json()) == (200, {"left": 900})
    assert selectors.balance(asker.tenant) == 1000
    assert Event.objects.count() == events
    assert not IdempotencyKey.objects.exists()


def test_a_dry_run_is_refused_as_the_act_would_be() -> None:
    assert Asker(microdollars=1).spend(100, query="?dry_run=true").json()["code"] == "insufficient_funds"


def test_a_dry_run_that_is_neither_true_nor_false_is_refused() -> None:
    asker = Asker()
    assert asker.spend(100, query="?dry_run=yes").json()["code"] == "bad_dry_run"
    assert selectors.balance(asker.tenant) == 1000
