"""A websocket of the feed. Who the caller is, a gate says; the rest is the same for browsers and programs.

client: `subscribe{stream, after, together}`, `unsubscribe{stream}`
server: `subscribed`, `event`, `touched`, `alive` every two seconds, `refused`; for who subscribes with `together` true,
`events` in place of `event`s that came at once
close codes: 4400 malformed, 4401 not signed in any more, 4403 foreign origin, 4408 too slow; the client comes back
with its cursors, and loses nothing.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.db import Error as DatabaseFailure

from laissez.errors import Refused
from laissez.feed import replay, snapshots, streams
from laissez.feed.hub import TRY_LATER, Bundle, Gate, Hub, frame_of, hub, stop
from laissez.feed.queues import Outgoing
from laissez.feed.replay import MAX_PAGE, LostCursor, Range, Recorded
from laissez.feed.streams import MAX_NAME_CHARACTERS, Reader

logger = logging.getLogger(__name__)

MALFORMED, NOT_SIGNED_IN, FOREIGN, SLOW = 4400, 4401, 4403, 4408
MAX_FRAME_CHARACTERS = 4096
MAX_SUBSCRIPTIONS = 50
MAX_SOCKETS = 5000
MAX_ANONYMOUS = 4000
MAX_PER_CREDENTIAL = 200
"""Neither visitors nor one session or token can use up the places of everybody else."""

BURST_FRAMES = 120
FRAMES_PER_SECOND = 10.0

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class FeedConsumer:
    """The application behind a websocket address: one `Socket` for each connection that its gate lets in."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection. It is accepted before it is judged: only then does a browser see the close code."""
        await receive()
        await send({"type": "websocket.accept"})
        try:
            async with hub().turns:
                credential, reader = await _admit(self.gate, _headers(scope))
        except Refused as refusal:
            await _close(send, FOREIGN if refusal.status == FOREIGN_STATUS else NOT_SIGNED_IN, refusal.detail)
            return
        except DatabaseFailure:
            await _close(send, TRY_LATER, "The database cannot be reached; try again.")
            return
        most = MAX_ANONYMOUS if credential is None else MAX_PER_CREDENTIAL
        if len(hub()) >= MAX_SOCKETS or hub().count(self.gate, credential) >= most:
            await _close(send, TRY_LATER, "Too many sockets are open here; try again.")
            return
        await Socket(self.gate, credential, reader, hub()).serve(receive, send)


FOREIGN_STATUS = 403


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """The request's headers by lower-case name; of a repeated one the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


class Malformed(Exception):
    """A frame that is none of this protocol; the connection ends with it."""


class _Closing(Exception):
    """The server ends the connection."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


@dataclass(slots=True, eq=False)
class Subscription:
    """How far a socket has been sent a stream. It is live once it has caught up with the stream's tail."""

    stream: str
    cursor: int
    together: bool = False
    is_live: bool = False
    catching_up: "asyncio.Task[None] | None" = None


class Allowance:
    """How many frames a client may send: so many at once, and so many a second after that."""

    def __init__(self, burst: float, per_second: float, now: float) -> None:
        self._burst, self._per_second, self._left, self._at = burst, per_second, burst, now

    def spend(self, now: float) -> bool:
        """Use up one; False when there is none."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        self._left -= 1
        return self._left >= 0


class Socket:
    """One open connection: what it follows, how far it is, and what waits to be sent to it."""

    def __init__(self, gate: Gate, credential: str | None, reader: Reader, ears: Hub) -> None:
        self.gate, self.credential = gate, credential
        self._reader, self._hub = reader, ears
        self._outgoing = Outgoing()
        self._followed: dict[str, Subscription] = {}
        self._closing: asyncio.Future[_Closing] = asyncio.get_running_loop().create_future()
        self._reading_history = asyncio.Lock()
        self._allowance = Allowance(BURST_FRAMES, FRAMES_PER_SECOND, asyncio.get_running_loop().time())

    async def serve(self, receive: Receive, send: Send) -> None:
        """Until either side ends it."""
        self._hub.attach(self)
        receiving = asyncio.create_task(self._receive(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            ends: set[asyncio.Future[Any]] = {receiving, sending, self._closing}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._closing.done():
                await stop(sending)
                closing = self._closing.result()
                await _close(send, closing.code, closing.reason)
            for task in (receiving, sending):
                if task.done() and not task.cancelled():
                    task.result()
        except OSError:
            logger.debug("The client has gone.")
        finally:
            catching_up = [each.catching_up for each in self._followed.values() if each.catching_up is not None]
            await stop(receiving, sending, *catching_up)
            await self._hub.detach(self)

    def close(self, code: int, reason: str) -> None:
        """End the connection; the first reason counts."""
        if not self._closing.done():
            self._closing.set_result(_Closing(code, reason))

    # What the hub tells

    def hear(self, bundle: Bundle) -> None:
        """The newest events of a stream; a subscription that is still catching up reads them for itself."""
        found = self._followed.get(bundle.stream)
        if found is None or not found.is_live or bundle.last <= found.cursor:
            return
        if found.together and found.cursor < bundle.first:
            self._put(*bundle.together)
        else:
            for seq, text, key in bundle.singly:
                if seq > found.cursor:
                    self._put(text, key)
        found.cursor = bundle.last

    def _put(self, text: str, key: Hashable | None) -> None:
        self._enqueue(self._outgoing.put(text) if key is None else self._outgoing.put_price(text, key))

    def touch(self, stream: str, text: str, key: Hashable) -> None:
        """A hint; of several that wait the newest is enough."""
        if stream in self._followed:
            self._enqueue(self._outgoing.put_newest(text, key))

    def alive(self, text: str) -> None:
        """The process lives."""
        self._enqueue(self._outgoing.put_newest(text, "alive"))

    async def now_reads_as(self, reader: Reader | None) -> None:
        """Close where the credential is good no more; drop the streams that it does not open any more."""
        if reader is None or reader.tenant != self._reader.tenant:
            self.close(NOT_SIGNED_IN, "The sign-in or the token is not valid any more.")
            return
        if reader == self._reader:
            return
        self._reader = reader
        for stream in list(self._followed):
            try:
                await _may_read(reader, stream)
            except Refused as refusal:
                await self._drop(stream)
                self._refuse(stream, refusal)
            except DatabaseFailure:
                self.close(TRY_LATER, "The database cannot be reached; try again.")
                raise

    def _enqueue(self, taken: bool) -> None:
        if not taken:
            self.close(SLOW, "You read too slowly; come back with your cursors.")

    # What the client says

    async def _receive(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                if not self._allowance.spend(asyncio.get_running_loop().time()):
                    raise Malformed(f"More than {FRAMES_PER_SECOND:g} frames a second.")
                await self._obey(_parsed(message.get("text")))
            except Malformed as fault:
                self.close(MALFORMED, str(fault))
                return
            except DatabaseFailure:
                self.close(TRY_LATER, "The database cannot be reached; try again.")
                return

    async def _obey(self, frame: Mapping[str, Any]) -> None:
        stream = frame.get("stream")
        if not isinstance(stream, str) or not 0 < len(stream) <= MAX_NAME_CHARACTERS:
            self._refuse(None, Refused("malformed", f"stream is not a text of 1 to {MAX_NAME_CHARACTERS} characters."))
            return
        try:
            match frame.get("type"):
                case "subscribe":
                    await self._subscribe(stream, _after(frame.get("after")), together=_flag(frame, "together"))
                case "unsubscribe":
                    await self._drop(stream)
                case _:
                    raise Refused("malformed", "type is neither subscribe nor unsubscribe.")
        except Refused as refusal:
            self._refuse(stream, refusal)

    async def _subscribe(self, stream: str, after: int | None, *, together: bool) -> None:
        await self._drop(stream)
        if len(self._followed) >= MAX_SUBSCRIPTIONS:
            detail = f"{MAX_SUBSCRIPTIONS} streams are followed here already; unsubscribe from one first."
            raise Refused("too_many_subscriptions", detail)
        held = await self._admitted(stream, after)
        cursor = held.last if after is None else after
        found = self._followed[stream] = Subscription(stream, cursor, together)
        self._say({"type": "subscribed", "stream": stream, "after": cursor, "last": held.last})
        self._hub.follow(self, stream, last=held.last)
        if cursor >= self._hub.cursor_of(stream):
            found.is_live = True
        else:
            found.catching_up = asyncio.create_task(self._catch_up(found))

    async def _admitted(self, stream: str, after: int | None) -> Range:
        """What a stream holds, for the reader that the credential stands for when the answer is there."""
        while True:
            reader = self._reader
            async with self._hub.turns:
                held = await _held(reader, stream, after)
            if reader == self._reader:
                return held

    async def _drop(self, stream: str) -> None:
        found = self._followed.pop(stream, None)
        if found is None:
            return
        if found.catching_up is not None:
            await stop(found.catching_up)
        self._hub.unfollow(self, stream)

    async def _catch_up(self, found: Subscription) -> None:
        """Read page after page, no faster than they are sent, until the tail's end is reached."""
        try:
            while found.cursor < self._hub.cursor_of(found.stream):
                if not await self._read_on(found):
                    await self._fell_behind(found)
                    return
            found.is_live = True
        except DatabaseFailure:
            self.close(TRY_LATER, "The database cannot be reached; try again.")
        except Exception:
            logger.exception("A fault while a socket caught up with %s", found.stream)
            self.close(TRY_LATER, "Something broke on our side; try again.")

    async def _read_on(self, found: Subscription) -> bool:
        """Put a page of history into the queue; streams that catch up together take turns. False: it is not there."""
        async with self._reading_history:
            room = await self._outgoing.drained()
            async with self._hub.turns:
                events = await _page(found.stream, found.cursor, min(room, MAX_PAGE))
            if not events or events[0].seq != found.cursor + 1:
                return False
            for event in events:
                self._enqueue(self._outgoing.put(frame_of(event).text))
            found.cursor = events[-1].seq
        return True

    async def _fell_behind(self, found: Subscription) -> None:
        """What it was about to read has been purged meanwhile."""
        del self._followed[found.stream]
        self._hub.unfollow(self, found.stream)
        self._refuse(found.stream, replay.gone(found.stream, await _range(found.stream)))

    # What it is told

    def _refuse(self, stream: str | None, refusal: Refused) -> None:
        frame: dict[str, Any] = {"type": "refused", "stream": stream, "code": refusal.code, "detail": refusal.detail}
        if isinstance(refusal, LostCursor) and stream is not None:
            frame |= {"oldest": refusal.held.oldest, "snapshot": snapshots.address_of(stream)}
        self._say(frame)

    def _say(self, frame: Mapping[str, Any]) -> None:
        self._enqueue(self._outgoing.put(json.dumps(frame)))

    async def _send(self, send: Send) -> None:
        while True:
            await self._outgoing.filled()
            text = self._outgoing.take()
            if text is not None:
                await send({"type": "websocket.send", "text": text})
                await asyncio.sleep(0)  # a full queue to a quick client must not keep the others waiting


def _parsed(text: str | None) -> Mapping[str, Any]:
    if text is None:
        raise Malformed("Frames are texts.")
    if len(text) > MAX_FRAME_CHARACTERS:
        raise Malformed(f"A frame has at most {MAX_FRAME_CHARACTERS} characters.")
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("The frame is not JSON.") from error
    if not isinstance(frame, dict):
        raise Malformed("The frame is not a JSON object.")
    return frame


def _after(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise Refused("malformed", "after is neither null nor a whole number from 0.", "/after")
    return value


def _flag(frame: Mapping[str, Any], name: str) -> bool:
    value = frame.get(name, False)
    if not isinstance(value, bool):
        raise Refused("malformed", f"{name} is neither true nor false.", f"/{name}")
    return value


async def _close(send: Send, code: int, reason: str) -> None:
    await send({"type": "websocket.close", "code": code, "reason": reason[:100]})


@database_sync_to_async
def _admit(gate: Gate, headers: Mapping[str, str]) -> tuple[str | None, Reader]:
    return gate.admit(headers)


@database_sync_to_async
def _may_read(reader: Reader, stream: str) -> None:
    streams.may_read(reader, stream)


@database_sync_to_async
def _held(reader: Reader, stream: str, after: int | None) -> Range:
    """What a stream holds, for a reader who may read it and a cursor that can be followed."""
    streams.may_read(reader, stream)
    held = replay.range_of(stream)
    if after is not None:
        replay.check(stream, after, held)
    return held


@database_sync_to_async
def _range(stream: str) -> Range:
    return replay.range_of(stream)


@database_sync_to_async
def _page(stream: str, after: int, limit: int) -> list[Recorded]:
    return replay.page(stream, after=after, limit=limit)
