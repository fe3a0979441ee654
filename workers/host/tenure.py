"""The state of one lease inside its shim, and what the workload's calls do to it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any, Protocol

from workers.host import processes
from workers.host.deadlines import Deadlines
from workers.host.devices import Pacer
from workers.host.eventlog import EventLog
from workers.host.protocol import Observed

COMMIT_SECONDS = 30.0
NOT_COMMITTED = {"accepted": False, "then": "continue"}


class Notify(Protocol):
    """Called whenever the daemon should know."""

    def __call__(self, *, urgent: bool) -> None:
        """At once, or gathered for a moment."""


class Tenure:
    """Serves `resume`, `progress` and `checkpoint` to the workload's socket."""

    def __init__(
        self,
        events: EventLog,
        checkpoints: Path,
        deadlines: Deadlines,
        pacer: Pacer | None,
        notify: Notify,
    ) -> None:
        self.events, self.checkpoints, self.deadlines = events, checkpoints, deadlines
        self.phase: Observed = "ready"
        self.asked = 0
        self.saved = False
        self.checkpointing = False
        self.resumed: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._pacer, self._notify = pacer, notify
        self._from_progress = 0.0
        self._stepped = False
        self._latest: dict[str, Any] | None = None
        self._sequence = 0
        self._pending: dict[str, Any] | None = None
        self._commit: asyncio.Future[dict[str, Any]] | None = None
        self._committing = asyncio.Lock()

    def status(self) -> dict[str, Any]:
        """Everything that the daemon needs to know at any time; the last one counts."""
        return {
            "phase": self.phase,
            "asked": self.asked,
            "told": self.deadlines.told,
            "checkpointing": self.checkpointing,
            "resumed": self.resumed.done(),
            "progress": self._latest,
            "pending": self._pending,
            "events": self.events.count,
        }

    def enter(self, phase: Observed) -> None:
        """Change the phase that the control plane sees."""
        if phase != self.phase:
            self.phase = phase
            self._notify(urgent=True)

    def go_on_from(self, path: str | None, progress: float) -> None:
        """It is settled where the job goes on; a waiting workload wakes."""
        if not self.resumed.done():
            self._from_progress = progress
            self.begin_pace()
            self.resumed.set_result(path)

    def begin_pace(self) -> None:
        """The emulated device starts to count from now."""
        if self._pacer is not None:
            self._pacer.begin(at=processes.now(), progress=self._from_progress)

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the host has asked for a checkpoint, to leave after it or to go on."""
        return self.deadlines.told != "run" or self.checkpointing

    @property
    def committing(self) -> bool:
        """Whether a checkpoint is on its way to the control plane."""
        return self._pending is not None

    def reached(self) -> tuple[float, int | None]:
        """The last reported progress and step."""
        latest = self._latest or {"progress": self._from_progress, "step": None}
        return latest["progress"], latest["step"]

    async def resume(self) -> str | None:
        """Wait until it is known where the job goes on."""
        path = await asyncio.shield(self.resumed)
        self.begin_pace()
        return path

    async def progress(self, fraction: float, step: int | None, loss: float | None) -> bool:
        """Note the progress and return when the device would have got there."""
        at = processes.now()
        self._latest = {"progress": fraction, "step": step, "loss": loss, "at_step_seconds": round(at, 6)}
        if not self._stepped:
            self._stepped = True
            self.events.append({"kind": "first_step"})
            self._notify(urgent=True)
        else:
            self._notify(urgent=False)
        if self._pacer is not None:
            await asyncio.sleep(self._pacer.delay(at=at, progress=fraction))
        return self.wants_checkpoint

    async def checkpoint(self, name: str, fraction: float, step: int | None, seconds: float) -> dict[str, Any]:
        """Have the daemon upload a finished directory and wait for the control plane's answer."""
        path = self.checkpoints / name
        try:
            whole = stat.S_ISDIR(path.lstat().st_mode)
        except OSError:
            whole = False
        if not whole:
            raise ValueError(f"there is no checkpoint directory {name!r}")
        async with self._committing:
            return await self._wait_for_commit(name, fraction, step, seconds)

    async def _wait_for_commit(self, name: str, fraction: float, step: int | None, seconds: float) -> dict[str, Any]:
        self._sequence += 1
        self._commit = asyncio.get_running_loop().create_future()
        self._pending = {
            "sequence": self._sequence,
            "name": name,
            "progress": fraction,
            "step": step,
            "seconds": round(seconds, 6),
            "requested": self.wants_checkpoint,
        }
        self._notify(urgent=True)
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                answer = await self._commit
        except TimeoutError:
            answer = {**NOT_COMMITTED, "code": "no_answer"}
        finally:
            self._pending = self._commit = None
        if answer["then"] == "stop":
            self.saved = True
            self.deadlines = self.deadlines.leaving(processes.now())
        elif answer["accepted"]:
            self.checkpointing = False
        self._notify(urgent=True)
        return {**answer, "save": self.wants_checkpoint}

    def committed(self, sequence: int, answer: dict[str, Any]) -> None:
        """The control plane's answer to a checkpoint has come; an old or repeated one changes nothing."""
        if self._commit is None or self._pending is None or self._pending["sequence"] != sequence:
            return
        if not self._commit.done():
            then = "stop" if answer.get("then") == "stop" else "continue"
            self._commit.set_result({"accepted": bool(answer.get("accepted")), "then": then})
