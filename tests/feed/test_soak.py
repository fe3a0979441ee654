"""The soak in small: real websockets to a real uvicorn, here in a thread of the test's own process."""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from django.db import connections

from laissez.asgi import application
from laissez.stack import product
from tests import soaking

pytestmark = pytest.mark.django_db(transaction=True)

START_SECONDS = 20


@pytest.fixture
def feed() -> Iterator[str]:
    """The address of the socket for programs."""
    listener = product.listen("127.0.0.1", 0)
    config = uvicorn.Config(application, ws="websockets-sansio", lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    yield product.web_address(listener).replace("http:", "ws:") + "/api/v1/feed"
    server.should_exit = True
    thread.join()
    listener.close()
    connections.close_all()


def test_subscribers_that_are_killed_and_come_back_lose_nothing(feed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soaking, "LIFE_SECONDS", (0.1, 1.0))
    token, streams = soaking.lay_out(jobs=2)
    result = soaking.soak(feed, token, streams, subscribers=6, seconds=2.5, rate=150, seed=1)
    assert result.faults == []
    assert result.kills > 0
    assert result.told > 100
    assert result.seen > 0
