"""The web process's own way of answering: through the application itself, without a network."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import connections

from laissez.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)

DEADLINE_SECONDS = 10


async def ask(path: str, *, query: bytes = b"", body: bytes = b"", method: str = "GET") -> tuple[int, bytes]:
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query,
        "root_path": "", "http_version": "1.1", "scheme": "http", "server": ("testserver", 80),
        "headers": [(b"host", b"testserver"), (b"content-length", str(len(body)).encode())],
    }  # fmt: skip
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": "http.request", "body": body, "more_body": False})
    start = await communicator.receive_output(DEADLINE_SECONDS)
    parts = [await communicator.receive_output(DEADLINE_SECONDS)]
    while parts[-1].get("more_body"):
        parts.append(await communicator.receive_output(DEADLINE_SECONDS))
    await communicator.wait(DEADLINE_SECONDS)
    return int(start["status"]), b"".join(part.get("body", b"") for part in parts)


async def test_a_view_answers() -> None:
    assert await ask("/readyz") == (200, b'{"status": "ready"}')


async def test_a_file_is_sent_whole() -> None:
    status, content = await ask("/static/feed.js")
    assert status == 200
    assert b"One socket to the server's feed" in content


async def test_many_requests_at_once_are_all_answered() -> None:
    answers = await asyncio.gather(*(ask("/readyz") for _ in range(50)))
    assert {status for status, _ in answers} == {200}


async def test_what_cannot_be_read_as_a_request_is_refused() -> None:
    assert (await ask("/healthz", query=b"\xff"))[0] == 400


async def test_a_client_that_leaves_before_its_body_is_there_is_answered_nothing() -> None:
    scope: Mapping[str, Any] = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait(DEADLINE_SECONDS)
    assert await communicator.receive_nothing()


async def test_no_request_leaves_a_connection_open_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[bool] = []
    wrapper = type(connections["default"])
    close = wrapper.close_if_unusable_or_obsolete

    def noted(self: Any) -> None:
        close(self)
        left.append(self.connection is not None)

    monkeypatch.setattr(wrapper, "close_if_unusable_or_obsolete", noted)
    await ask("/readyz")
    assert left
    assert not left[-1]
