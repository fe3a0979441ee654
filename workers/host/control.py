"""The line between the daemon and a shim: JSON lines over a unix socket, once both have proved the lease's secret."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

LINE_BYTES = 4 << 20
HANDSHAKE_SECONDS = 5.0


class Unproved(ConnectionError):
    """The other side does not know the lease's secret."""


def _proof(secret: str, who: str, nonce: str) -> str:
    return hmac.new(secret.encode(), f"{who}:{nonce}".encode(), hashlib.sha256).hexdigest()


class Line:
    """One end of a connection that carries JSON objects."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, message: dict[str, Any]) -> None:
        """Queue one message; a line that has broken swallows it, and the reader sees the end."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, allow_nan=False).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message, None at the end of the line."""
        try:
            line = await self._reader.readuntil(b"\n")
            message = json.loads(line)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """Every message until the end of the line."""
        while (message := await self.receive()) is not None:
            yield message

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._writer.close()


async def connect(path: Path, secret: str) -> Line:
    """Reach a shim and prove each other; `Unproved` or `OSError` when that fails."""
    with _short(path) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=LINE_BYTES)
    line = Line(reader, writer)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            nonce = secrets.token_hex(16)
            line.send({"nonce": nonce})
            answer = await line.receive() or {}
            if not hmac.compare_digest(str(answer.get("proof")), _proof(secret, "shim", nonce)):
                raise Unproved(f"{path} is served by somebody who does not know the lease's secret")
            line.send({"proof": _proof(secret, "daemon", str(answer["nonce"]))})
    except TimeoutError as error:
        line.close()
        raise Unproved(f"{path} does not answer") from error
    except Unproved:
        line.close()
        raise
    return line


async def admit(line: Line, secret: str) -> bool:
    """The shim's half of the proof; False for a stranger."""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            hello = await line.receive() or {}
            nonce = secrets.token_hex(16)
            line.send({"proof": _proof(secret, "shim", str(hello.get("nonce"))), "nonce": nonce})
            answer = await line.receive() or {}
    except TimeoutError:
        return False
    return hmac.compare_digest(str(answer.get("proof")), _proof(secret, "daemon", nonce))


async def serve(path: Path, handle: Callable[[Line], Awaitable[None]]) -> asyncio.Server:
    """Listen on a unix socket and give every connection to `handle`."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        try:
            await handle(line)
        except asyncio.CancelledError:
            pass  # the process ends; Python 3.11 would print each open connection as an error
        finally:
            line.close()

    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with _short(path) as address:
        return await asyncio.start_unix_server(accepted, address, limit=LINE_BYTES)


@contextlib.contextmanager
def _short(path: Path) -> Any:
    """An address for a socket whose path may be longer than the kernel's 107 bytes."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
