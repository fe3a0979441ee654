"""Sees to it that a lease's programs end in time and stay within their totals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from workers.host import processes
from workers.host.executors import Executor, Running
from workers.host.limits import Limits
from workers.host.outcomes import Outcome
from workers.host.tenure import Tenure

CHECK_SECONDS = 0.5


class Watch:
    """Waits for whatever ends the lease from outside its programs."""

    def __init__(self, tenure: Tenure, limits: Limits, directory: Path, executor: Executor) -> None:
        self.changed = asyncio.Event()
        self.running: Running | None = None
        self.terminated = False
        self._tenure, self._limits, self._directory, self._executor = tenure, limits, directory, executor

    async def until_over(self) -> Outcome:
        """Return once the lease has to be ended by force."""
        while True:
            self.changed.clear()
            outcome = self._due(processes.now()) or self._excess()
            if outcome is not None:
                return outcome
            now = processes.now()
            wait = min(CHECK_SECONDS, max(0.01, self._tenure.deadlines.next_after(now) - now))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), wait)

    def terminate_now(self) -> None:
        """Send the workload TERM, once."""
        if self.running is not None and not self.terminated:
            self.terminated = True
            self._executor.signal(self.running, signal.SIGTERM)

    def _due(self, now: float) -> Outcome | None:
        deadlines = self._tenure.deadlines
        due = deadlines.due(now)
        if due == "expired" and deadlines.told == "run":
            return Outcome("killed", "the lease's life ended: no word from the control plane prolonged it")
        if deadlines.told != "run" and (self.running is None or not self._tenure.resumed.done()):
            return Outcome("stopped", "told to leave before its first step")
        if due in ("kill", "expired"):
            return Outcome("killed", "told to leave, and still there at its deadline")
        if due == "term" and not self._tenure.committing:
            self.terminate_now()
        return None

    def _excess(self) -> Outcome | None:
        limits = self._limits
        on_disk = processes.tree_bytes(self._directory, most_files=limits.files)
        if on_disk is None:
            return Outcome("failed", f"it made more than {limits.files} files")
        if on_disk > limits.disk_bytes:
            return Outcome("failed", f"it used more than its {limits.disk_bytes} bytes of disk")
        if self.running is not None:
            resident = processes.resident_bytes(self.running.members())
            if resident > limits.memory_bytes:
                return Outcome("failed", f"it used more than its {limits.memory_bytes} bytes of memory")
        return None
