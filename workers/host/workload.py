"""The socket inside the sandbox on which a workload reports progress, commits checkpoints and waits to resume."""

from __future__ import annotations

import asyncio
import math
import re
from pathlib import Path
from typing import Any, Protocol

from workers.host.control import Line, serve

MOST_LINES = 64
CHECKPOINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Keeper(Protocol):
    """What the socket needs of the shim."""

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the host has asked for a checkpoint that has not come yet."""

    async def resume(self) -> str | None:
        """Wait until it is known where the job goes on; the directory's path for the workload, None from the start."""

    async def progress(self, fraction: float, step: int | None, loss: float | None) -> bool:
        """Take in progress, keep the device's pace; whether the host wants a checkpoint."""

    async def checkpoint(self, name: str, fraction: float, step: int | None, seconds: float) -> dict[str, Any]:
        """Commit a finished checkpoint directory; the control plane's answer."""


class WorkloadSocket:
    """Serves any number of the workload's processes, each with one request at a time."""

    def __init__(self, path: Path, keeper: Keeper) -> None:
        self._path, self._keeper = path, keeper
        self._lines: set[Line] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Start to listen. The tenant has another user id, so the socket is open; its directories are not."""
        self._server = await serve(self._path, self._serve)
        self._path.chmod(0o666)

    def say_save(self) -> None:
        """Tell every process whether the host wants a checkpoint."""
        for line in self._lines:
            line.send({"push": "save", "save": self._keeper.wants_checkpoint})

    async def _serve(self, line: Line) -> None:
        if len(self._lines) >= MOST_LINES:
            return
        self._lines.add(line)
        if self._keeper.wants_checkpoint:
            line.send({"push": "save", "save": True})
        try:
            async for message in line.messages():
                line.send(await self._answer(message))
        finally:
            self._lines.discard(line)

    async def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            match message.get("op"):
                case "resume":
                    return {"path": await self._keeper.resume()}
                case "progress":
                    fraction, step = _fraction(message), _step(message)
                    return {"save": await self._keeper.progress(fraction, step, _loss(message))}
                case "checkpoint":
                    return await self._checkpoint(message)
                case other:
                    return {"error": f"there is no call {other!r}"}
        except (ValueError, TypeError) as error:
            return {"error": str(error)}

    async def _checkpoint(self, message: dict[str, Any]) -> dict[str, Any]:
        name = str(message.get("name"))
        if not CHECKPOINT_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no checkpoint name")
        seconds = max(0.0, float(message.get("seconds") or 0.0))
        return await self._keeper.checkpoint(name, _fraction(message), _step(message), seconds)


def _fraction(message: dict[str, Any]) -> float:
    value = float(message.get("progress") or 0.0)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"progress is a fraction from 0 to 1, not {value!r}")
    return value


def _step(message: dict[str, Any]) -> int | None:
    value = message.get("step")
    return None if value is None else int(value)


def _loss(message: dict[str, Any]) -> float | None:
    value = message.get("loss")
    return float(value) if value is not None and math.isfinite(float(value)) else None
