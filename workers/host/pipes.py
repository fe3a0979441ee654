"""Waiting for programs and reading what they print, without ever letting their output block or flood the shim."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from collections.abc import Callable
from typing import IO

from workers.host.executors import Executor, Exit, Running

READ_BYTES = 65_536
TAIL_CHARACTERS = 4_000
GATHER_SECONDS = 0.1
LINE_SECONDS = 0.5
GONE_SECONDS = 0.005
FINISH_SECONDS = 2.0


async def wait_for(executor: Executor, running: Running) -> Exit:
    """Wait until nothing of a program lives and return how it ended."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(running.pid)
        loop.add_reader(descriptor, closed.set)
        try:
            await closed.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    while True:
        if (ended := executor.poll(running)) is not None:
            return ended
        await asyncio.sleep(GONE_SECONDS)


class Output:
    """Reads one stream of a program to its end, gathers for a moment and hands text on."""

    def __init__(self, stream: IO[bytes], write: Callable[[str], None]) -> None:
        self._stream, self._write = stream, write
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._kept = ""
        self._last_call = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._read())

    def tail(self) -> str:
        """The last output."""
        return self._kept.strip()

    async def finish(self) -> None:
        """Wait until the stream has ended and everything has been handed on; a stream left open is given up."""
        self._last_call.set()
        await asyncio.wait([self._task], timeout=FINISH_SECONDS)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._stream)
        line = ""  # begun, not ended: handed on with its end, or when it stays alone for a while
        while True:
            try:
                data = await asyncio.wait_for(reader.read(READ_BYTES), LINE_SECONDS if line else None)
            except TimeoutError:
                self._write(line)
                line = ""
                continue
            if not data:
                break
            text = self._decoder.decode(data)
            self._kept = (self._kept + text)[-TAIL_CHARACTERS:]
            whole, newline, line = (line + text).rpartition("\n")
            self._write(whole + newline)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._last_call.wait(), GATHER_SECONDS)
        self._write(line + self._decoder.decode(b"", final=True))
