"""What waits to be sent to one socket: bounded, and no event is ever dropped but a price that a newer one replaces."""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass

LIMIT = 1000
"""Frames; a reader that is further behind is sent away and comes back with its cursor."""
PRESSURE = 50
"""From so many waiting frames on a reader counts as slow, and is spared what is out of date."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    text: str
    key: Hashable | None


class Outgoing:
    """Frames in the order in which they are sent."""

    def __init__(self, *, limit: int = LIMIT, pressure: int = PRESSURE) -> None:
        self._limit, self._pressure = limit, pressure
        self._frames: dict[int, _Waiting] = {}
        self._newest: dict[Hashable, int] = {}
        self._next = 0
        self._waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, text: str) -> bool:
        """Append a frame. False when there is no room; the socket has to be closed then."""
        return self._append(text, None)

    def put_price(self, text: str, key: Hashable) -> bool:
        """Append a frame that makes an older one of its key worthless; a slow reader is not sent the older one."""
        if len(self._frames) >= self._pressure:
            self._drop(key)
        return self._append(text, key)

    def put_newest(self, text: str, key: Hashable) -> bool:
        """Append a frame in place of one of its key that has not been sent yet."""
        self._drop(key)
        return self._append(text, key)

    def take(self) -> str | None:
        """The next frame to send; None when nothing waits."""
        if not self._frames:
            return None
        number = next(iter(self._frames))
        waiting = self._frames.pop(number)
        if waiting.key is not None and self._newest.get(waiting.key) == number:
            del self._newest[waiting.key]
        self._tell()
        return waiting.text

    async def filled(self) -> None:
        """Wait until something is there to send."""
        while not self._frames:
            await self._change()

    async def drained(self) -> int:
        """Wait until at most half is taken up, and say how much history may be put in at once: a quarter."""
        while len(self._frames) > self._limit // 2:
            await self._change()
        return max(1, self._limit // 4)

    def _append(self, text: str, key: Hashable | None) -> bool:
        if len(self._frames) >= self._limit:
            return False
        self._frames[self._next] = _Waiting(text, key)
        if key is not None:
            self._newest[key] = self._next
        self._next += 1
        self._tell()
        return True

    def _drop(self, key: Hashable) -> None:
        number = self._newest.pop(key, None)
        if number is not None:
            del self._frames[number]

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _tell(self) -> None:
        """Wake whoever waits; each looks again for itself."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
