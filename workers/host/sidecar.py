"""The economic agent beside a workload: one context in, one decision out, within a time limit.

Whatever goes wrong (rubbish, a crash, silence) means "stay" and is reported; the next question starts it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from workers.host.executors import CannotRun, Executor, Running, Task
from workers.host.pipes import Output, wait_for
from workers.host.protocol import AgentSpec

ANSWER_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question; `decision` is the agent's line as it stands, for the daemon to check."""

    ask: int
    outcome: Literal["ok", "invalid", "crashed", "timeout"]
    detail: str = ""
    decision: Any = None


def command_of(spec: AgentSpec) -> tuple[str, ...]:
    """The command line of an agent."""
    if spec.command:
        return spec.command
    serve = (sys.executable, "-m", "laissez.sdk.agents")
    if spec.class_path:
        return (*serve, "--class", spec.class_path)
    return (*serve, "--policy", str(spec.policy), "--params", json.dumps(dict(spec.params)))


class Sidecar:
    """One agent process, started when first needed and again after it has failed."""

    def __init__(self, executor: Executor, spec: AgentSpec, task: Task, log: Callable[[str], None]) -> None:
        self._executor, self._spec, self._task, self._log = executor, spec, task, log
        self._running: Running | None = None
        self._reader: asyncio.StreamReader | None = None
        self._errors: Output | None = None
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Start the process if none runs."""
        if self._running is not None:
            return
        running = self._executor.start(self._task)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=ANSWER_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), running.stdout)
        self._running, self._reader = running, reader
        self._errors = Output(running.stderr, self._log)

    async def ask(self, number: int, context: dict[str, Any]) -> Answer:
        """Ask one question and wait for its answer, at most the time limit."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._spec.timeout_seconds):
                    return await self._ask(number, context)
            except TimeoutError:
                self.stop()
                return Answer(number, "timeout", f"the agent did not answer within {self._spec.timeout_seconds:g} s")
            except CannotRun as error:
                return Answer(number, "crashed", str(error))

    async def _ask(self, number: int, context: dict[str, Any]) -> Answer:
        await self.start()
        assert self._running is not None
        assert self._running.stdin is not None
        assert self._reader is not None
        try:
            self._running.stdin.write(json.dumps(context).encode() + b"\n")
            self._running.stdin.flush()
            line = await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            self.stop()
            return Answer(number, "invalid", f"the agent answered with more than {ANSWER_BYTES} bytes")
        except (asyncio.IncompleteReadError, OSError):
            return Answer(number, "crashed", await self._last_words())
        try:
            return Answer(number, "ok", decision=json.loads(line, parse_constant=_no_constant))
        except ValueError:
            return Answer(number, "invalid", f"the agent's answer is no JSON: {line[:200].decode(errors='replace')!r}")

    async def _last_words(self) -> str:
        running, errors = self._running, self._errors
        self.stop()
        if running is None or errors is None:
            return "the agent ended"
        ended = await wait_for(self._executor, running)
        await errors.finish()
        how = f"signal {ended.signal}" if ended.signal is not None else f"exit status {ended.code}"
        return f"the agent ended with {how}: {errors.tail()[-500:]}".rstrip(": ")

    def stop(self) -> None:
        """End the process; the next question starts a new one."""
        if self._running is not None:
            self._executor.signal(self._running, signal.SIGKILL)
            if self._running.stdin is not None:
                with contextlib.suppress(OSError):
                    self._running.stdin.close()
        self._running = self._reader = self._errors = None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
