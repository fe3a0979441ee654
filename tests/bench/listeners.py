"""Many sockets of the feed in one process without Django, as the clients of a measurement.

    python -m tests.bench.listeners URL STREAM SOCKETS    tokens on the first line of the input

Says `ready` once all have subscribed. For each number on a line of the input it waits until every socket has been told
that event, and prints when, in seconds of the machine's steady clock: the first, the middle, and the last of them.
"""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import monotonic

from websockets.asyncio.client import ClientConnection, connect

SEQUENCE = re.compile(r'"sequence": "(\d+)"')
AT_ONCE = 25
"""Sockets that are being opened at the same time."""


@dataclass(slots=True)
class Crowd:
    """What all sockets have been told so far."""

    reached: list[int]
    arrivals: dict[int, list[float]] = field(default_factory=dict)
    frames: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, place: int, text: str) -> None:
        """One frame of one socket; only its last number is read."""
        if '"event' not in text[:20]:
            return
        now = monotonic()
        self.frames += 1
        last = int(SEQUENCE.findall(text)[-1])
        self.reached[place] = last
        self.arrivals.setdefault(last, []).append(now)
        self.moved.set()

    async def until(self, number: int) -> None:
        """Wait until every socket has been told this event."""
        while min(self.reached) < number:
            self.moved.clear()
            await self.moved.wait()


async def listen(url: str, stream: str, token: str, place: int, crowd: Crowd, opening: asyncio.Semaphore) -> None:
    """One socket, for as long as the process lives."""
    async with opening:
        socket = await connect(
            url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None, ping_interval=None,
            max_size=None,
        )  # fmt: skip
        await socket.send(json.dumps({"type": "subscribe", "stream": stream, "after": None, "together": True}))
        crowd.reached[place] = await _subscribed(socket)
        crowd.moved.set()
    async for text in socket:
        crowd.take(place, str(text))


async def _subscribed(socket: ClientConnection) -> int:
    while True:
        frame = json.loads(await socket.recv())
        if frame["type"] == "subscribed":
            return int(frame["after"])
        if frame["type"] == "refused":
            raise RuntimeError(frame["detail"])


async def main(url: str, stream: str, sockets: int, tokens: Sequence[str]) -> None:
    """The command line above."""
    crowd, opening = Crowd(reached=[-1] * sockets), asyncio.Semaphore(AT_ONCE)
    lives = [
        asyncio.create_task(listen(url, stream, tokens[place % len(tokens)], place, crowd, opening))
        for place in range(sockets)
    ]
    waiting = asyncio.create_task(crowd.until(0))
    done, _ = await asyncio.wait([waiting, *lives], return_when=asyncio.FIRST_COMPLETED)
    if waiting not in done:
        raise RuntimeError("a socket was closed") from next(iter(done)).exception()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await crowd.until(int(line))
        times = sorted(crowd.arrivals.pop(int(line)))
        print(json.dumps({"first": times[0], "middle": median(times), "last": times[-1]}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.stdin.readline().split()))
