"""One process's ears: one tail per stream that any of its sockets follows, and one channel for all their hints.

All hubs of an installation hear the same few messages, one or so per commit, and pick out the streams that they follow.
A hint, or five seconds without one, makes the tails read what follows their cursors, all in one query; what they find
goes to every socket that follows the stream. Who may still listen is asked for all sockets at once.

A hub belongs to one event loop; it comes with the first socket and goes with the last.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import Error as DatabaseFailure
from redis.exceptions import RedisError

from laissez import clock
from laissez.events import HINTS
from laissez.feed import envelopes, replay, vocabulary
from laissez.feed.replay import MAX_PAGE, Recorded
from laissez.feed.streams import Reader

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
ALIVE_SECONDS = 2.0
CHECK_SECONDS = 2.0
RETRY_SECONDS = 1.0
STOP_SECONDS = 0.1
TRY_LATER = 1013
GROUP_SECONDS = 1.0
"""The most that joining or leaving the hints may take: where the channel layer hangs, the tails go on by polling."""

EVENTS_TOGETHER = 100
"""The most events in one frame."""

QUERIES_AT_ONCE = 4
"""Sockets' own queries that run or wait at the same time; the tails and the checks wait behind no more than these."""

FAILURES = (OSError, RedisError, DatabaseFailure, TimeoutError)


class Gate(Protocol):
    """One way of proving who one is, to sockets."""

    def admit(self, headers: Mapping[str, str]) -> tuple[str | None, Reader]:
        """Who the caller is, and the credential by which it is known from now on; None for an anonymous one.

        Raises:
            Refused: with status 403 for a foreign origin, else 401.
        """

    def readers(self, credentials: Iterable[str]) -> Mapping[str, Reader]:
        """Who these credentials stand for by now; one that is good no more is left out."""


class Listener(Protocol):
    """A socket, as the hub sees it."""

    gate: Gate
    credential: str | None

    def hear(self, bundle: "Bundle") -> None:
        """Take the newest events of a stream."""

    def touch(self, stream: str, text: str, key: Hashable) -> None:
        """Take a hint that something without a number has changed."""

    def alive(self, text: str) -> None:
        """Pass on that this process lives."""

    async def now_reads_as(self, reader: Reader | None) -> None:
        """What its credential stands for by now; None: nothing."""

    def close(self, code: int, reason: str) -> None:
        """End it."""


@dataclass(slots=True)
class Tail:
    """The end of one stream as this process has read it."""

    cursor: int
    listeners: set[Listener] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as every socket is sent it. `envelope` is its JSON; a key says that it coalesces, and with what."""

    stream: str
    seq: int
    envelope: str
    key: Hashable | None

    @property
    def text(self) -> str:
        """A frame of its own."""
        return f'{{"type": "event", "stream": {json.dumps(self.stream)}, "event": {self.envelope}}}'


class Bundle:
    """Events of one stream that were read together, in order: written down once for all sockets, however many."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.stream = frames[0].stream
        self.first, self.last = frames[0].seq, frames[-1].seq
        self.frames = frames

    @cached_property
    def singly(self) -> list[tuple[int, str, Hashable | None]]:
        """A frame for each event: its number, its text, and the key under which it coalesces."""
        return [(frame.seq, frame.text, frame.key) for frame in self.frames]

    @cached_property
    def together(self) -> tuple[str, Hashable | None]:
        """One frame for all of them; it coalesces with one of the same subjects, if all of them do."""
        envelopes_json = ", ".join(frame.envelope for frame in self.frames)
        text = f'{{"type": "events", "stream": {json.dumps(self.stream)}, "events": [{envelopes_json}]}}'
        keys = frozenset(frame.key for frame in self.frames)
        return text, None if None in keys else keys


async def stop(*tasks: "asyncio.Task[None]") -> None:
    """End tasks, and wait for it. One that loses its cancellation on the way, as libraries do, is cancelled again."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=STOP_SECONDS)


class Hub:
    """See the module."""

    def __init__(self) -> None:
        self._tails: dict[str, Tail] = {}
        self._listeners: set[Listener] = set()
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        self._channel = ""
        self._joining = asyncio.Lock()
        self._is_joined = False
        self._tasks: list[asyncio.Task[None]] = []
        self._read_at: tuple[datetime, float] | None = None
        self.turns = asyncio.Semaphore(QUERIES_AT_ONCE)

    # Sockets come and go

    def attach(self, listener: Listener) -> None:
        """A socket has opened."""
        self._listeners.add(listener)
        if not self._tasks:
            work = (self._listen, self._read, self._breathe, self._poll, self._check)
            self._tasks = [asyncio.create_task(self._for_ever(each)) for each in work]

    async def detach(self, listener: Listener) -> None:
        """A socket has closed; with the last one the hub stops."""
        self._listeners.discard(listener)
        for stream in [name for name, tail in self._tails.items() if listener in tail.listeners]:
            self.unfollow(listener, stream)
        if self._listeners:
            return
        if _hubs.get(loop := asyncio.get_running_loop()) is self:
            del _hubs[loop]
        await self._leave()
        await stop(*self._tasks)

    def __len__(self) -> int:
        return len(self._listeners)

    def count(self, gate: Gate, credential: str | None) -> int:
        """How many sockets one credential has here; None: how many are anonymous."""
        return sum(each.credential == credential and each.gate is gate for each in self._listeners)

    def follow(self, listener: Listener, stream: str, *, last: int) -> None:
        """Give a socket what comes in a stream, of which it knows that `last` has been written."""
        tail = self._tails.get(stream)
        if tail is None:
            tail = self._tails[stream] = Tail(cursor=last)
        tail.listeners.add(listener)
        self._mark(stream)

    def unfollow(self, listener: Listener, stream: str) -> None:
        """Give it no more; a stream that nobody follows is forgotten."""
        tail = self._tails.get(stream)
        if tail is None:
            return
        tail.listeners.discard(listener)
        if not tail.listeners:
            del self._tails[stream]

    def cursor_of(self, stream: str) -> int:
        """The last number that a stream's tail has passed on."""
        return self._tails[stream].cursor

    # The work

    async def _for_ever(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat one piece of work; what fails is tried again, so that no failure ends the feed."""
        while True:
            try:
                await work()
            except FAILURES as error:
                logger.warning("The feed tries again: %s: %s", type(error).__name__, error)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                logger.exception("A fault in the feed; it tries again.")
                await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        layer = get_channel_layer()
        if layer is None:
            await asyncio.sleep(POLL_SECONDS)
            return
        await self._join()
        message = await layer.receive(self._channel)
        numbers = message.get("numbers", {})
        self._mark(*(name for name in self._tails.keys() & numbers.keys() if numbers[name] > self._tails[name].cursor))
        for touch in message.get("touches", ()):
            self._touched(touch["stream"], touch["facts"])

    async def _read(self) -> None:
        """Read what is due, once more as soon as something is due again."""
        await self._wake.wait()
        self._wake.clear()
        due = [stream for stream in self._due if stream in self._tails]
        self._due.clear()
        try:
            await self._join()
        finally:
            found = await _following({stream: self._tails[stream].cursor for stream in due if stream in self._tails})
            self._pass_on(found)

    def _pass_on(self, events: list[Recorded]) -> None:
        for stream, group in groupby(events, key=attrgetter("stream")):
            told = list(group)
            if len(told) == MAX_PAGE:
                self._mark(stream)
            tail = self._tails.get(stream)
            fresh = [] if tail is None else [event for event in told if event.seq > tail.cursor]
            for start in range(0, len(fresh), EVENTS_TOGETHER):
                self._tell(stream, [frame_of(event) for event in fresh[start : start + EVENTS_TOGETHER]])

    def _tell(self, stream: str, frames: Sequence[Frame]) -> None:
        tail, bundle = self._tails[stream], Bundle(frames)
        tail.cursor = bundle.last
        for listener in list(tail.listeners):
            listener.hear(bundle)

    async def _breathe(self) -> None:
        """Tell every socket the time, from the database's clock as last read."""
        await asyncio.sleep(ALIVE_SECONDS)
        if self._read_at is None:
            return
        moment, at = self._read_at
        passed = timedelta(seconds=asyncio.get_running_loop().time() - at)
        text = json.dumps({"type": "alive", "time": clock.rfc3339(moment + passed)})
        for listener in list(self._listeners):
            listener.alive(text)

    async def _poll(self) -> None:
        """Look at every stream without having been told to, and join the hubs of this installation again."""
        await self._read_clock()
        if cursors := {name: tail.cursor for name, tail in self._tails.items()}:
            for stream in await _rewound(cursors):
                self._send_away(stream)
        self._is_joined = False
        self._mark(*self._tails)
        await asyncio.sleep(POLL_SECONDS)

    def _send_away(self, stream: str) -> None:
        """The stream began anew under its tail. Its sockets come back, and are told that their cursors are ahead."""
        logger.warning("The stream %s has told less than was read of it: its sockets are closed", stream)
        tail = self._tails.get(stream)
        for listener in [] if tail is None else list(tail.listeners):
            listener.close(TRY_LATER, "The stream has begun anew; come back.")

    async def _read_clock(self) -> None:
        self._read_at = (await _now(), asyncio.get_running_loop().time())

    async def _check(self) -> None:
        """Ask who may still listen: one question for all sockets that have come in the same way."""
        await asyncio.sleep(CHECK_SECONDS)
        for gate in {listener.gate for listener in self._listeners}:
            known = [(each, each.credential) for each in self._listeners if each.gate is gate]
            credentials = {credential for _, credential in known if credential is not None}
            if not credentials:
                continue
            valid = await _readers(gate, credentials)
            for listener, credential in known:
                if credential is not None:
                    await listener.now_reads_as(valid.get(credential))

    def _touched(self, stream: str, facts: Mapping[str, Any]) -> None:
        tail = self._tails.get(stream)
        if tail is None:
            return
        text = json.dumps({"type": "touched", "stream": stream, **facts})
        for listener in list(tail.listeners):
            listener.touch(stream, text, ("touched", stream, facts.get("what")))

    def _mark(self, *names: str) -> None:
        if names:
            self._due.update(names)
            self._wake.set()

    async def _join(self) -> None:
        """Be told all hints. Joining again costs nothing where the channel layer remembers."""
        layer = get_channel_layer()
        if layer is None or self._is_joined:
            return
        async with asyncio.timeout(GROUP_SECONDS), self._joining:
            if not self._channel:
                self._channel = await layer.new_channel("feed.")
                self._mark(*self._tails)
            await layer.group_add(HINTS, self._channel)
            self._is_joined = True

    async def _leave(self) -> None:
        layer = get_channel_layer()
        if layer is None or not self._channel:
            return
        try:
            async with asyncio.timeout(GROUP_SECONDS):
                await layer.group_discard(HINTS, self._channel)
        except FAILURES as error:
            logger.warning("The hints were not left, they are ignored: %s: %s", type(error).__name__, error)


_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


def frame_of(event: Recorded) -> Frame:
    """An event as sockets are sent it."""
    envelope = envelopes.envelope(event, retention=timedelta(days=settings.EVENT_RETENTION_DAYS))
    found = vocabulary.known(event.type)
    key = (event.stream, event.subject) if found is not None and found.coalesces else None
    return Frame(event.stream, event.seq, json.dumps(envelope), key)


@database_sync_to_async
def _following(cursors: Mapping[str, int]) -> list[Recorded]:
    return replay.following(cursors)


@database_sync_to_async
def _rewound(cursors: Mapping[str, int]) -> list[str]:
    return replay.rewound(cursors)


@database_sync_to_async
def _now() -> datetime:
    return clock.now()


@database_sync_to_async
def _readers(gate: Gate, credentials: set[str]) -> Mapping[str, Reader]:
    return gate.readers(credentials)
