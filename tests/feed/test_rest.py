"""The feed by REST."""

import pytest
from django.test import Client

from tests import scenes
from tests.feed.told import tell
from tests.tenancy import a_tenant, a_token, bearer

pytestmark = pytest.mark.django_db


def test_pages_follow_each_other_by_their_last_number(client: Client) -> None:
    tenant = a_tenant()
    headers = bearer(a_token(tenant)[1])
    tell(tenant.stream, 1, 2, 3)
    seen, after = [], 0
    while True:
        query = {"stream": tenant.stream, "after": after, "limit": 2}
        page = client.get("/api/v1/events", query, headers=headers).json()
        if not page["items"]:
            break
        assert (page["last"], page["oldest"], len(page["items"]) <= 2) == (5, 1, True)
        seen += [int(event["sequence"]) for event in page["items"]]
        after = seen[-1]
    assert seen == [1, 2, 3, 4, 5]


def test_a_stream_that_has_told_nothing_is_empty_and_has_a_snapshot(client: Client) -> None:
    scenes.make_cluster()
    assert client.get("/api/v1/events", {"stream": "market:gemm"}).json() == {"items": [], "last": 0, "oldest": 1}
    snapshot = client.get("/api/v1/events/snapshot", {"stream": "market:gemm"}).json()
    assert (snapshot["seq"], snapshot["entities"]["cluster"]["gemm"]["name"]) == (0, "gemm")
    assert set(snapshot["entities"]["exchange"]) == set(scenes.PAPER_TYPES)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({}, 400, "stream_missing"),
        ({"stream": "x" * 121}, 400, "stream_missing"),
        ({"stream": "market:none"}, 404, "not_found"),
        ({"stream": "market:\x00"}, 404, "not_found"),
        ({"stream": "market:gemm", "after": "one"}, 400, "bad_value"),
        ({"stream": "market:gemm", "after": "-1"}, 400, "bad_value"),
        ({"stream": "market:gemm", "limit": "9" * 30}, 400, "bad_value"),
        ({"stream": "market:gemm", "after": "1"}, 409, "ahead"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_code(
    client: Client, query: dict[str, str], status: int, code: str
) -> None:
    scenes.make_cluster()
    answer = client.get("/api/v1/events", query)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
