"""Lists come in pages that neither repeat nor lose a row."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core import signing
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from laissez.api import page_of
from laissez.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.apibase.urls")]

AT = datetime(2026, 1, 1, tzinfo=UTC)


def write(*rows: tuple[int, str]) -> None:
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(at=AT + timedelta(microseconds=us), actor=actor, action="a", subject="s", reason="r")
            for us, actor in rows
        ]
    )


def test_rows_that_arrive_meanwhile_shift_nothing(client: Client) -> None:
    write(*[(n, "ann") for n in range(5)])
    first = client.get("/api/audit?limit=2").json()
    write((9, "new"))
    second = client.get(f"/api/audit?limit=2&cursor={first['next_cursor']}").json()
    third = client.get(f"/api/audit?limit=2&cursor={second['next_cursor']}").json()
    seen = first["items"] + second["items"] + third["items"]
    ids = list(AuditEntry.objects.exclude(actor="new").order_by("-at").values_list("id", flat=True))
    assert seen == ids
    assert (first["has_more"], third["has_more"], third["next_cursor"]) == (True, False, None)


def test_an_empty_list_is_one_empty_page(client: Client) -> None:
    assert client.get("/api/audit").json() == {"items": [], "next_cursor": None, "has_more": False}


@pytest.mark.parametrize("limit", ["0", "201", "-1", "1.5", "many", "", "99999999999999999999", "²"])
def test_a_limit_that_is_none_is_refused(client: Client, limit: str) -> None:
    response = client.get("/api/audit", {"limit": limit})
    assert (response.status_code, response.json()["code"]) == (400, "bad_limit")


def test_a_cursor_that_was_not_given_out_is_refused(client: Client) -> None:
    write(*[(n, "ann") for n in range(5)])
    given = client.get("/api/audit?limit=2").json()["next_cursor"]
    other = page_of(AuditEntry.objects.all(), {"limit": "2"}, order=["id"]).next_cursor
    for cursor in ("x", "é", "a\x00", given[:-1], "A" + given, signing.dumps(["2026"]), other):
        response = client.get("/api/audit", {"cursor": cursor})
        assert (response.status_code, response.json()["code"]) == (400, "bad_cursor")


class TestPagesAgainstTheWholeList(TestCase):
    """Each example is undone by its surrounding transaction."""

    @settings(max_examples=25, deadline=None)
    @given(
        rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=12),
        limit=st.integers(1, 5),
        signs=st.tuples(*[st.sampled_from(["", "-"])] * 3),
    )
    def test_pages_put_together_are_the_whole_list(
        self, rows: list[tuple[int, str]], limit: int, signs: tuple[str, str, str]
    ) -> None:
        write(*rows)
        order = [sign + name for sign, name in zip(signs, ["at", "actor", "id"], strict=True)]
        whole = list(AuditEntry.objects.order_by(*order))
        seen: list[AuditEntry] = []
        query = {"limit": str(limit)}
        for _ in range(len(rows) + 1):
            page = page_of(AuditEntry.objects.all(), query, order=order)
            seen += page.items
            if page.next_cursor is None:
                break
            query["cursor"] = page.next_cursor
        assert seen == whole
