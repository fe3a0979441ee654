"""The programs of one lease: how the extractor, the callbacks, the workload and the agent are started and heard."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from workers.host.eventlog import OutputLog
from workers.host.executors import Executor, Exit, Places, Running, Task
from workers.host.orders import Order, environment
from workers.host.pipes import Output, wait_for
from workers.host.protocol import Callback, JobSpec
from workers.host.sidecar import Sidecar, command_of
from workers.host.tenure import Notify

UNPACK_SECONDS = 120.0


class Programs:
    """Starts programs through the executor; what they print goes to the lease's log."""

    def __init__(self, order: Order, executor: Executor, log: OutputLog, notify: Notify) -> None:
        self.spec: JobSpec = order.job_spec()
        self._order, self._executor, self._log, self._notify = order, executor, log, notify
        self._outputs: list[Output] = []

    @property
    def places(self) -> Places:
        """Where the lease's directories are for its programs."""
        return self._executor.places

    async def unpack(self, archive: Path | None, target: Path) -> str | None:
        """Unpack an archive inside a sandbox of its own; return why it was refused."""
        if archive is None:
            return None
        places = self.places
        command = [sys.executable, "-I", "-S", str(places.tools / "archives.py")]
        command += [str(places.archive or archive), str(target), "--total-bytes", str(self.spec.limits.disk_bytes)]
        into_resume = target == places.resume
        task = Task(command, {}, target, archive=archive, writes_resume=into_resume)
        ended, tail = await self._finished(self._executor.start(task), "host", UNPACK_SECONDS, quiet=True)
        return None if ended is not None and ended.clean else tail or "unpacking did not end in time"

    async def call(
        self, stream: str, callback: Callback, more: Mapping[str, str] | None = None
    ) -> tuple[Exit | None, str]:
        """Run a callback; return how it ended (None: out of time, and killed) and its last output."""
        variables, restores = {**self._environment(), **(more or {})}, stream == "restore"
        task = Task(callback.command, variables, self.places.job, writes_resume=restores)
        return await self._finished(self._executor.start(task), stream, callback.timeout_seconds)

    async def _finished(
        self, running: Running, stream: str, seconds: float, *, quiet: bool = False
    ) -> tuple[Exit | None, str]:
        """Wait for a short program; return how it ended (None: out of time, and killed) and its last output."""
        outputs = [Output(pipe, self._logger("" if quiet else stream)) for pipe in (running.stdout, running.stderr)]
        ended: Exit | None = None
        try:
            async with asyncio.timeout(seconds):
                ended = await wait_for(self._executor, running)
        except TimeoutError:
            self._executor.signal(running, signal.SIGKILL)
            await wait_for(self._executor, running)
        for output in outputs:
            await output.finish()
        return ended, "\n".join(text for output in outputs if (text := output.tail()))

    def start_workload(self) -> Running:
        """Start the job's own command."""
        running = self._executor.start(Task(self.spec.command, self._environment(), self.places.job))
        self._outputs = [
            Output(running.stdout, self._logger("stdout")),
            Output(running.stderr, self._logger("stderr")),
        ]
        return running

    async def drain(self) -> None:
        """Wait until everything that the workload printed is in the log."""
        for output in self._outputs:
            await output.finish()

    def agent(self) -> Sidecar | None:
        """The job's economic agent, None when it has none."""
        if self.spec.agent is None:
            return None
        variables = {name: value for name, value in self._environment().items() if name != "LAISSEZ_SOCKET"}
        task = Task(command_of(self.spec.agent), variables, self.places.job, listens=True)
        return Sidecar(self._executor, self.spec.agent, task, self._logger("agent"))

    def note(self, text: str) -> None:
        """Put a line of the host's own into the lease's log."""
        self._logger("host")(f"[{text}]\n")

    def _environment(self) -> dict[str, str]:
        return environment(self._order, self.spec, self.places, resumes=self._order.resume_state != "none")

    def _logger(self, stream: str) -> Callable[[str], None]:
        def write(text: str) -> None:
            if stream and self._log.write(stream, text):
                self._notify(urgent=False)

        return write
