"""Every failure has the same shape, says where, and carries the request's id."""

import logging
from typing import Any

import pytest
from django.test import Client

from laissez.bodies import BoundedBodies
from laissez.credentials import Redaction, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.apibase.urls")]


def problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """The answer's body, once it is known to be a problem of the right shape."""
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert set(body) == {"type", "code", "title", "status", "detail", "errors", "request_id"}
    assert (body["type"], body["code"], body["status"]) == (f"urn:laissez:problem:{code}", code, status)
    assert body["request_id"] == response["X-Request-ID"]
    assert body["request_id"].startswith("req_")
    assert "secret" not in response.content.decode()
    return body


@pytest.mark.parametrize(
    ("name", "status", "code", "title"),
    [
        ("refused", 400, "too_low", "Bad Request"),
        ("invalid", 400, "invalid", "Bad Request"),
        ("missing", 404, "not_found", "Not Found"),
        ("conflict", 409, "busy", "Conflict"),
        ("http404", 404, "not_found", "Not Found"),
        ("forbidden", 403, "permission_denied", "Forbidden"),
        ("throttled", 429, "throttled", "Too Many Requests"),
    ],
)
def test_a_failure_is_a_problem(client: Client, name: str, status: int, code: str, title: str) -> None:
    assert problem(client.get(f"/api/errors/{name}"), status, code)["title"] == title


def test_a_refusal_names_the_place_in_the_body(client: Client) -> None:
    body = problem(client.get("/api/errors/refused"), 400, "too_low")
    assert body["errors"] == [{"pointer": "/rows/0/max_price", "code": "too_low", "detail": "It is too low."}]


def test_all_faults_are_named_at_once(client: Client) -> None:
    body = problem(client.get("/api/errors/invalid"), 400, "invalid")
    assert [(fault["pointer"], fault["code"]) for fault in body["errors"]] == [("/a", "a"), ("/b", "b")]
    assert body["detail"] == "The request has 2 faults."


def test_a_throttled_client_is_told_when_to_return(client: Client) -> None:
    assert client.get("/api/errors/throttled")["Retry-After"] == "3"


def test_a_body_that_does_not_fit_is_pointed_into(client: Client) -> None:
    rows = [{"max_price": "1"}, {"max_price": "x"}, {}]
    response = client.post("/api/tables", {"name": "too long", "rows": rows}, "application/json")
    faults = problem(response, 400, "invalid")["errors"]
    assert [(fault["pointer"], fault["code"]) for fault in faults] == [
        ("/name", "max_length"),
        ("/rows/1/max_price", "invalid"),
        ("/rows/2/max_price", "required"),
    ]


def test_a_fault_of_the_whole_body_points_at_the_whole(client: Client) -> None:
    response = client.post("/api/tables", {"name": "whole", "rows": []}, "application/json")
    body = problem(response, 400, "invalid")
    assert body["errors"] == [{"pointer": "", "code": "whole", "detail": "The whole is wrong."}]
    assert body["detail"] == "The whole is wrong."


@pytest.mark.parametrize("body", ["{", '"text"', "[]", "\x00"])
def test_a_body_that_is_no_object_is_refused(client: Client, body: str) -> None:
    assert client.post("/api/tables", body, "application/json").status_code == 400


def test_what_never_reaches_a_view_has_the_same_shape(client: Client) -> None:
    problem(client.get("/api/nowhere"), 404, "not_found")
    problem(client.get("/api/tables"), 405, "method_not_allowed")
    problem(client.post("/api/tables", "a=b", "text/csv"), 415, "unsupported_media_type")


def test_a_failure_of_ours_says_nothing_of_its_cause(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.raise_request_exception = False
    body = problem(client.get("/api/errors/broken"), 500, "server_error")
    assert body["request_id"] in caplog.text


def test_a_page_that_is_missing_is_a_page(client: Client) -> None:
    response = client.get("/nowhere")
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")
    assert response["X-Request-ID"] in response.content.decode()


def test_a_page_that_breaks_is_a_page(client: Client) -> None:
    client.raise_request_exception = False
    response = client.get("/page/errors/broken")
    assert response.status_code == 500
    assert response["X-Request-ID"] in response.content.decode()
    assert "secret" not in response.content.decode()


@pytest.mark.parametrize(
    ("kind", "announced", "sent"),
    [
        (b"application/json", 17 * 1024**2, 0),
        (b"application/gzip", 257 * 1024**2, 0),
        (b"application/json", 0, 17),
        (b"multipart/form-data", -1, 0),
    ],
)
async def test_a_body_without_end_is_not_taken_in(kind: bytes, announced: int, sent: int) -> None:
    taken: list[str] = []
    said: list[Any] = []

    async def application(_scope: Any, receive: Any, _send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            taken.append(message["type"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b" " * 1024**2, "more_body": True}

    async def send(message: Any) -> None:
        said.append(message)

    scope = {"type": "http", "headers": [(b"Content-Type", kind), (b"content-length", str(announced).encode())]}
    await BoundedBodies(application)(scope, receive, send)
    assert len(taken) == max(sent - 1, 0)
    assert [each.get("status") for each in said] == ([] if sent else [413, None])


def test_what_the_api_says_is_kept_by_nobody_between(client: Client) -> None:
    answer = client.get("/api/v1/nothing")
    assert answer["Cache-Control"] == "private, no-store"
    assert "camera=()" in answer["Permissions-Policy"]


def test_no_token_is_whole_in_the_log() -> None:
    token = new_token("invite")
    record = logging.LogRecord("django", logging.WARNING, "", 0, "Not Found: %s", (f"/join/{token}?x",), None)
    assert Redaction().filter(record)
    assert record.getMessage() == f"Not Found: /join/{token[:16]}...?x"
    assert Redaction().filter(logging.LogRecord("django", logging.WARNING, "", 0, "%d", ("no number",), None))
