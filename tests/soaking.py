"""Subscribers that are killed and come back, over real websockets, while events are told: what each has seen is judged.

Used by `python -m tests.soak`, and in small by the tests of the feed.
"""

import asyncio
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from laissez.events import Outbox, transact
from laissez.models import Stream
from tests import scenes
from tests.tenancy import a_token

EVENT = "org.laissez.ledger.top_up_settled.v1"
PER_TRANSACTION = 8
FOLLOWED = 2
"""Streams that each subscriber follows."""
LIFE_SECONDS = (0.5, 8.0)
"""How long a subscriber lives until it is killed, at least and at most."""
PAUSE_SECONDS = 0.2
LAST_SECONDS = 30.0
"""How long the subscribers have to be told the last events."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it. `faults` is empty when nothing was lost, doubled or out of order."""

    subscribers: int
    seconds: float
    told: int
    per_second: float
    seen: int
    kills: int
    median_ms: float | None
    worst_ms: float | None
    faults: list[str]

    def as_json(self) -> dict[str, Any]:
        """As one object."""
        return asdict(self)


@dataclass(slots=True)
class Teller:
    """Tells events on random streams, at a steady rate, in a thread of its own."""

    streams: Sequence[str]
    rate: float
    seconds: float
    chance: random.Random
    committed_at: dict[str, float] = field(default_factory=dict)
    told: int = 0
    took: float = 0.0

    def run(self) -> None:
        """Until the time is over."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < self.seconds:
            if self.told > passed * self.rate:
                time.sleep(0.002)
                continue
            names = [str(self.told + place) for place in range(PER_TRANSACTION)]
            transact(lambda outbox, names=names: self._tell(outbox, names))
            self.committed_at.update(dict.fromkeys(names, time.monotonic()))
            self.told += PER_TRANSACTION
        self.took = time.monotonic() - began
        connection.close()

    def _tell(self, outbox: Outbox, names: Sequence[str]) -> None:
        for name in names:
            data = {"reference": name, "amount": "1", "currency": "USD"}
            outbox.add(self.chance.choice(self.streams), EVENT, name, data)


@dataclass(slots=True)
class Subscriber:
    """Follows its streams from their beginning, and notes what does not fit."""

    url: str
    token: str
    streams: Sequence[str]
    chance: random.Random
    teller: Teller
    cursors: dict[str, int] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    kills: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def live(self) -> None:
        """Connect, listen, be killed while events are told, and come back, until it is cancelled."""
        while True:
            try:
                headers = {"Authorization": f"Bearer {self.token}"}
                async with connect(self.url, additional_headers=headers, compression=None) as socket:
                    await self._listen(socket)
            except (OSError, WebSocketException):
                await asyncio.sleep(PAUSE_SECONDS)

    def has_seen(self, lasts: dict[str, int]) -> bool:
        """Whether these last numbers have come, as far as it follows the streams."""
        return all(self.cursors.get(stream, 0) == lasts[stream] for stream in self.streams)

    async def until(self, lasts: dict[str, int]) -> None:
        """Wait until it has seen these last numbers."""
        while not self.has_seen(lasts):
            self.moved.clear()
            await self.moved.wait()

    async def _listen(self, socket: ClientConnection) -> None:
        for stream in self.streams:
            frame = {"type": "subscribe", "stream": stream, "after": self.cursors.setdefault(stream, 0)}
            await socket.send(json.dumps(frame))
        connected_at = time.monotonic()
        try:
            async with asyncio.timeout(None if self.teller.took else self.chance.uniform(*LIFE_SECONDS)):
                async for text in socket:
                    self._take(json.loads(text), connected_at)
        except TimeoutError:
            self.kills += 1
            socket.transport.abort()

    def _take(self, frame: dict[str, Any], connected_at: float) -> None:
        if frame["type"] == "refused":
            self.faults.append(f"refused: {frame}")
        if frame["type"] != "event":
            return
        stream, event = frame["stream"], frame["event"]
        number, expected = int(event["sequence"]), self.cursors[stream] + 1
        if number != expected:
            self.faults.append(f"{stream}: {number} came where {expected} was due")
        if event["id"] in self.ids:
            self.faults.append(f"{stream}: {event['id']} came twice")
        self.ids.add(event["id"])
        self.cursors[stream] = number
        self.moved.set()
        committed_at = self.teller.committed_at.get(event["subject"])
        if committed_at is not None and committed_at > connected_at:
            self.latencies.append(time.monotonic() - committed_at)


def lay_out(jobs: int = 4) -> tuple[str, list[str]]:
    """A tenant with some jobs: the text of a token, and the streams that it may read."""
    cluster = scenes.make_cluster()
    tenant = scenes.make_tenant("soaker")
    names = [scenes.submit(tenant, ("nvidia-a10", "0.7")).public_id for _ in range(jobs)]
    scenes.tick(cluster)
    return a_token(tenant, "jobs:read", "billing:read")[1], [tenant.stream, *(f"job:{name}" for name in names)]


def soak(
    url: str, token: str, streams: Sequence[str], *, subscribers: int, seconds: float, rate: float, seed: int
) -> Result:
    """Tell so many events a second for so long, to so many subscribers at this socket's address."""
    chance = random.Random(seed)
    teller = Teller(streams, rate, seconds, random.Random(chance.random()))
    crowd = [
        Subscriber(url, token, chance.sample(streams, FOLLOWED), random.Random(chance.random()), teller)
        for _ in range(subscribers)
    ]
    thread = threading.Thread(target=teller.run)
    thread.start()
    try:
        lasts = asyncio.run(_attend(crowd, thread, streams))
    finally:
        thread.join()
    faults = [fault for each in crowd for fault in each.faults]
    faults += [
        f"{stream}: {lasts[stream] - each.cursors.get(stream, 0)} of {lasts[stream]} never came"
        for each in crowd
        for stream in each.streams
        if each.cursors.get(stream, 0) != lasts[stream]
    ]
    latencies = sorted(latency * 1000 for each in crowd for latency in each.latencies)
    return Result(
        subscribers=subscribers,
        seconds=round(teller.took, 1),
        told=teller.told,
        per_second=round(teller.told / teller.took, 1),
        seen=sum(len(each.ids) for each in crowd),
        kills=sum(each.kills for each in crowd),
        median_ms=round(statistics.median(latencies), 1) if latencies else None,
        worst_ms=round(latencies[-1], 1) if latencies else None,
        faults=faults[:20],
    )


async def _attend(crowd: Sequence[Subscriber], thread: threading.Thread, streams: Sequence[str]) -> dict[str, int]:
    """Let the subscribers live until the last event has reached them all, or for as long as that may take."""
    lives = [asyncio.create_task(each.live()) for each in crowd]
    try:
        await asyncio.to_thread(thread.join)
        lasts = await asyncio.to_thread(_lasts, streams)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await asyncio.gather(*(each.until(lasts) for each in crowd))
        return lasts
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)


def _lasts(streams: Sequence[str]) -> dict[str, int]:
    try:
        return dict(Stream.objects.filter(name__in=streams).values_list("name", "last_seq"))
    finally:
        connection.close()


def main(arguments: Sequence[str]) -> int:
    """Soak a server that runs: its address, subscribers, seconds, rate and seed."""
    sys.setswitchinterval(0.0005)  # else whoever tells waits 5 ms for the listeners at every answer of the database
    url, subscribers, seconds, rate, seed = arguments
    token, streams = lay_out()
    result = soak(
        url, token, streams, subscribers=int(subscribers), seconds=float(seconds), rate=float(rate), seed=int(seed)
    )
    print(json.dumps(result.as_json()))
    return 1 if result.faults else 0
