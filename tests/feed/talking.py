"""A websocket client without a network: it speaks ASGI with the application itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from asgiref.testing import ApplicationCommunicator

from laissez.asgi import application

DEADLINE_SECONDS = 10
HOST = "testserver"


class Client:
    """One connection. What the server sends besides `alive` is read one by one."""

    def __init__(self, communicator: ApplicationCommunicator) -> None:
        self._communicator = communicator

    async def send(self, frame: Mapping[str, Any] | str) -> None:
        text = frame if isinstance(frame, str) else json.dumps(frame)
        await self._communicator.send_input({"type": "websocket.receive", "text": text})

    async def subscribe(self, stream: str, after: int | None = None) -> dict[str, Any]:
        """Subscribe, and return the answer."""
        await self.send({"type": "subscribe", "stream": stream, "after": after})
        return await self.read()

    async def output(self) -> dict[str, Any]:
        """The next thing that the server does, frames of life included."""
        return dict(await self._communicator.receive_output(timeout=DEADLINE_SECONDS))

    async def is_silent(self) -> bool:
        """Whether the server does nothing more, as far as it has got."""
        return bool(await self._communicator.receive_nothing())

    async def read(self) -> dict[str, Any]:
        """The next frame but `alive`; a close counts as a frame `closed`."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                output = await self.output()
                if output["type"] == "websocket.close":
                    return {"type": "closed", "code": output["code"]}
                frame = json.loads(output["text"])
                if frame["type"] != "alive":
                    return dict(frame)

    async def events(self, count: int) -> list[dict[str, Any]]:
        """The envelopes of the next frames, which are all events."""
        frames = [await self.read() for _ in range(count)]
        assert {frame["type"] for frame in frames} == {"event"}, frames
        return [frame["event"] for frame in frames]

    async def numbers(self, count: int) -> list[int]:
        """Their numbers."""
        return [int(event["sequence"]) for event in await self.events(count)]


@asynccontextmanager
async def connected(path: str = "/api/v1/feed", **headers: str) -> AsyncIterator[Client]:
    """A connection with these headers, accepted; it is closed at the end."""
    listed = [(name.encode(), value.encode()) for name, value in {"host": HOST, **headers}.items()]
    scope = {"type": "websocket", "path": path, "headers": listed, "query_string": b"", "subprotocols": []}
    communicator = ApplicationCommunicator(application, scope)
    await communicator.send_input({"type": "websocket.connect"})
    assert (await communicator.receive_output(timeout=DEADLINE_SECONDS))["type"] == "websocket.accept"
    try:
        yield Client(communicator)
    finally:
        await communicator.send_input({"type": "websocket.disconnect", "code": 1000})
        await communicator.wait(timeout=DEADLINE_SECONDS)
