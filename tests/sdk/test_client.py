"""The REST client: what it sends again, what it never sends twice, and what its failures say."""

import httpx
import pytest

from laissez.sdk.client import (
    ATTEMPTS,
    ApiError,
    BadRequest,
    Client,
    Conflict,
    NotAuthenticated,
    NotFound,
    OutOfFunds,
    RateLimited,
    ServerFault,
    Unavailable,
)
from tests.sdk.fake_server import TOKEN, FakeServer, problem


def client_of(server: FakeServer, token: str | None = TOKEN, pauses: list[float] | None = None) -> Client:
    def carry(request: httpx.Request) -> httpx.Response:
        headers = request.headers
        target = request.url.raw_path.decode()
        authorization, key = headers.get("Authorization"), headers.get("Idempotency-Key")
        status, answer = server.answer(request.method, target, request.read(), authorization, key)
        return httpx.Response(status, json=answer)

    waited = [] if pauses is None else pauses
    return Client("http://laissez.test/", token, transport=httpx.MockTransport(carry), pause=waited.append)


def test_a_request_is_sent_again_after_a_growing_pause_while_the_server_is_away():
    pauses: list[float] = []
    server = FakeServer()
    server.refusals = [(503, problem(503, "starting"))] * 3
    assert client_of(server, pauses=pauses).clusters() == ["gemm"]
    assert pauses == [0.25, 0.5, 1.0]


def test_a_submission_whose_answer_was_lost_takes_effect_once():
    server = FakeServer()
    lost = iter([True, False])

    def carry(request: httpx.Request) -> httpx.Response:
        headers = request.headers
        body, key = request.read(), headers.get("Idempotency-Key")
        status, answer = server.answer(request.method, request.url.path, body, headers.get("Authorization"), key)
        if next(lost):
            raise httpx.ReadError("connection reset")
        return httpx.Response(status, json=answer)

    client = Client("http://laissez.test", TOKEN, transport=httpx.MockTransport(carry), pause=lambda seconds: None)
    assert client.submit({"name": "once"})["job"] == "job_0"
    assert list(server.jobs) == ["job_0"]
    assert server.keys[0] == server.keys[1] is not None


def test_every_post_carries_a_key_of_its_own():
    server = FakeServer()
    client = client_of(server)
    job = client.submit({"name": "x"})["job"]
    client.stop(job)
    client.resume(job)
    client.checkpoint(job)
    client.migrate(job, moment="now")
    client.cancel(job)
    assert None not in server.keys
    assert len(set(server.keys)) == 6


def test_it_gives_up_after_some_attempts_and_says_where():
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    pauses: list[float] = []
    client = Client("http://laissez.test", transport=httpx.MockTransport(refuse), pause=pauses.append)
    with pytest.raises(Unavailable, match=r"http://laissez\.test cannot be reached: refused"):
        client.clusters()
    assert len(pauses) == ATTEMPTS - 1


def test_it_waits_as_long_as_a_rate_limit_says():
    answers = iter(
        [httpx.Response(429, headers={"Retry-After": "3"}, json={}), httpx.Response(200, json={"items": []})]
    )
    pauses: list[float] = []
    client = Client("http://laissez.test", transport=httpx.MockTransport(lambda _: next(answers)), pause=pauses.append)
    assert client.clusters() == []
    assert pauses == [3.0]


@pytest.mark.parametrize(
    ("status", "kind", "exit_code"),
    [
        (400, BadRequest, 2),
        (422, BadRequest, 2),
        (401, NotAuthenticated, 3),
        (403, NotAuthenticated, 3),
        (404, NotFound, 4),
        (409, Conflict, 5),
        (412, Conflict, 5),
        (429, RateLimited, 6),
        (402, OutOfFunds, 7),
        (500, ServerFault, 8),
        (503, ServerFault, 8),
    ],
)
def test_each_refusal_is_an_exception_with_its_exit_code(status: int, kind: type[ApiError], exit_code: int):
    server = FakeServer()
    server.refusals = [(status, problem(status, "No."))] * ATTEMPTS
    with pytest.raises(kind) as refused:
        client_of(server).market("gemm")
    assert (refused.value.status, refused.value.exit_code) == (status, exit_code)


def test_a_problem_names_every_fault_and_its_place():
    server = FakeServer()
    fault = {"pointer": "/rows/1/max_price_per_hour", "code": "too_precise", "detail": "more than 6 decimals"}
    server.refusals = [(422, problem(422, "The job is not valid.", fault))]
    with pytest.raises(BadRequest) as refused:
        client_of(server).submit({})
    assert str(refused.value) == "The job is not valid.\n  /rows/1/max_price_per_hour: more than 6 decimals"
    assert refused.value.codes == {"too_precise"}


def test_a_code_about_funds_is_told_apart_whatever_the_status():
    server = FakeServer()
    server.refusals = [(422, problem(422, "Too little money.", code="insufficient_funds"))]
    with pytest.raises(OutOfFunds):
        client_of(server).submit({})


def test_a_page_that_is_no_json_is_no_answer():
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>another server</html>"))
    with pytest.raises(Unavailable, match="not JSON"):
        Client("http://laissez.test", transport=transport).clusters()


def test_jobs_are_read_page_by_page():
    pages = {"": {"items": [{"job": "a"}], "next_cursor": "c"}, "c": {"items": [{"job": "b"}], "next_cursor": None}}
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, json=pages[request.url.params.get("cursor", "")])
    )
    assert [job["job"] for job in Client("http://laissez.test", transport=transport).jobs()] == ["a", "b"]
