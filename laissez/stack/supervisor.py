"""Keeps a list of processes running, and leaves none behind however it ends.

Children are started by one thread that lives as long as the process, because a parent-death signal is sent when the
*thread* that forked ends. Beside them runs a guard, which ends what a killed supervisor leaves.
"""

import contextlib
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TextIO

from laissez.stack import guard, record, signals
from laissez.stack.places import StackError
from laissez.stack.process import ProcessSpec, Pump, signal_group, spawn

POLL_SECONDS = 0.05
QUICK_SECONDS = 5
"""A process that ends sooner than this after its start failed quickly."""
QUICK_FAILURES = 5
"""So many in a row end everything."""
GUARD_GRACE_SECONDS = 5
"""How long children may take to stop by themselves after the supervisor was killed."""


class _Child:
    """A process of the list, over all its starts."""

    def __init__(self, spec: ProcessSpec) -> None:
        """Not yet started."""
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.due_at = 0.0
        self.quick_failures = 0
        self.exit_code: int | None = None

    def is_running(self) -> bool:
        """Whether it has a process that has not ended."""
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Starts the processes in their order, restarts those that end, stops them by rank.

    `with Supervisor(specs, state) as supervisor:` runs them for the block's length; `run()` does so until Ctrl-C.
    While it runs, `up.json` in the state folder holds `pid`, `guard`, the given facts and `processes` (name to process
    id).
    """

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        state: Path,
        *,
        facts: Mapping[str, Any] | None = None,
        output: TextIO | None = None,
    ) -> None:
        """Facts are added to `up.json`. The children's lines go, with their names, to the output (standard output)."""
        self.failure: str | None = None
        self._specs = specs
        self._state = state
        self._facts = dict(facts or {})
        self._pump = Pump(output or sys.stdout)
        self._marker = secrets.token_hex(8)
        self._children: dict[str, _Child] = {}
        self._acts: queue.Queue[Callable[[], None]] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="supervisor", daemon=True)
        self._ending = False
        self._recorded: dict[str, Any] = {}
        self._lock = self._lifeline = -1
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start everything; a signal to stop becomes KeyboardInterrupt in the block."""
        self._signals = contextlib.ExitStack()
        self._signals.enter_context(signals.interrupting())
        try:
            self.start()
        except BaseException:
            self._signals.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop everything; further signals change nothing."""
        with signals.ignoring():
            self.stop()
        self._signals.close()

    def run(self, until: Callable[[], bool] | None = None, *, started: Callable[[], object] = lambda: None) -> None:
        """Start, wait until the condition holds or somebody says stop, and stop.

        Raises StackError when a process cannot be started or kept running.
        """
        with contextlib.suppress(KeyboardInterrupt), self:
            started()
            self.wait(until)

    def start(self) -> None:
        """Start the processes one after the other, each when the one before is ready.

        Raises StackError, with nothing left running.
        """
        self._lock = record.acquire(self._state, purpose="manage.py up")
        try:
            self._thread.start()
            self._do(self._start_guard)
            self._do(self._write_record)
            for spec in self._specs:
                self.add(spec)
        except BaseException:
            with signals.ignoring():
                self.stop()
            raise

    def add(self, spec: ProcessSpec) -> None:
        """Start one more process and wait until it is ready."""
        if spec.before:
            spec.before()
        child = _Child(spec)
        self._do(lambda: self._first_start(child))
        ready = spec.ready

        def settled() -> bool:
            if self.failure or (spec.once and child.exit_code is not None):
                return True
            process = child.process
            return not spec.once and process is not None and (ready is None or ready(process.pid))

        if not record.wait_for(settled, seconds=spec.ready_seconds):
            raise StackError(f"{spec.name} was not ready after {spec.ready_seconds:.0f} seconds")
        if self.failure:
            raise StackError(self.failure)

    def wait(self, until: Callable[[], bool] | None = None, *, seconds: float = float("inf")) -> bool:
        """Whether the condition came to hold in time. Raises StackError when a process cannot be kept running."""

        def over() -> bool:
            return self.failure is not None or (until is not None and until())

        reached = record.wait_for(over, seconds=seconds)
        if self.failure:
            raise StackError(self.failure)
        return reached

    def pid(self, name: str) -> int | None:
        """The process id that a name has now."""
        child = self._children.get(name)
        return child.process.pid if child and child.process and child.is_running() else None

    def stop(self) -> None:
        """Stop everything in its order and give the state folder free. Safe to call again."""
        self._ending = True
        if self._thread.is_alive():
            self._thread.join()
        if self._lock >= 0:
            record.remove(self._state)
            record.release(self._lock)
            self._lock = -1

    # From here on everything runs in the supervisor's own thread.

    def _do(self, act: Callable[[], None]) -> None:
        """Have the supervisor's thread do something, and wait for it."""
        done: Future[None] = Future()

        def perform() -> None:
            try:
                act()
            except (StackError, OSError) as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self._acts.put(perform)
        done.result()

    def _work(self) -> None:
        """The thread: do what is asked, restart what ended, and at the end stop all."""
        while not self._ending:
            with contextlib.suppress(queue.Empty):
                self._acts.get(timeout=POLL_SECONDS)()
            for child in list(self._children.values()):
                self._tend(child)
            if self._guard is not None and self._guard.poll() is not None:
                self._start_guard()
            self._write_record()
        self._stop_all()

    def _first_start(self, child: _Child) -> None:
        """Take a new process into the list."""
        if child.spec.name in self._children and not self._children[child.spec.name].spec.once:
            raise StackError(f"there is a process named {child.spec.name} already")
        self._children[child.spec.name] = child
        self._launch(child)
        self._write_record()

    def _launch(self, child: _Child) -> None:
        """Start it, now or again."""
        child.process = spawn(child.spec, output=subprocess.PIPE, marker=self._marker)
        child.started_at = time.monotonic()
        self._pump.follow(child.spec.name, child.process)

    def _tend(self, child: _Child) -> None:
        """Look after one process: restart it when it has ended and its pause is over."""
        if child.process is not None and child.process.poll() is not None:
            self._note_end(child, child.process)
        elif child.process is None and not child.spec.once and not self.failure and time.monotonic() >= child.due_at:
            self._launch(child)

    def _note_end(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        """It ended: clear its group away, and decide when it starts again, or that it is hopeless."""
        code = process.returncode
        child.process = None
        child.exit_code = code
        signal_group(process.pid, signal.SIGKILL)
        if child.spec.once:
            self.failure = self.failure or (f"{child.spec.name} failed: it {ending(code)}" if code else None)
            return
        now = time.monotonic()
        child.quick_failures = child.quick_failures + 1 if now - child.started_at < QUICK_SECONDS else 0
        child.due_at = now + (0.1 * 2**child.quick_failures if child.quick_failures else 0)
        self._pump.say("supervisor", f"{child.spec.name} {ending(code)}")
        if child.quick_failures >= QUICK_FAILURES:
            self.failure = self.failure or (
                f"{child.spec.name} ended {QUICK_FAILURES} times, each time within {QUICK_SECONDS} seconds of its "
                f"start; the last time it {ending(code)}"
            )

    def _start_guard(self) -> None:
        """Start the guard, or start it again after somebody killed it."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
        kept, self._lifeline = os.pipe()
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(kept), self._marker, str(GUARD_GRACE_SECONDS)],
            pass_fds=(kept, self._lock),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(kept)

    def _write_record(self) -> None:
        """Keep `up.json` current."""
        running = {name: child.process.pid for name, child in self._children.items() if child.process}
        content = {"pid": os.getpid(), "guard": self._guard.pid if self._guard else None} | self._facts
        content["processes"] = running
        if content != self._recorded:
            record.write(self._state, content)
            self._recorded = content

    def _stop_all(self) -> None:
        """Rank by rank: ask, wait for the grace, kill. Then sweep what slipped away, and let the guard go."""
        known = guard.family(self._marker)
        for rank in sorted({child.spec.stop_rank for child in self._children.values()}):
            self._stop_rank([child for child in self._children.values() if child.spec.stop_rank == rank])
        guard.sweep(self._marker, grace_seconds=1, known=known)
        if self._guard is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._lifeline, b".")
            os.close(self._lifeline)
            self._guard.wait()
        self._pump.drain()

    def _stop_rank(self, children: list[_Child]) -> None:
        """Stop these together, each within its own grace."""
        asked_at = time.monotonic()
        for child in children:
            if child.process and child.is_running():
                child.process.send_signal(child.spec.stop_signal)
        while left := [child for child in children if child.is_running()]:
            for child in left:
                if time.monotonic() - asked_at >= child.spec.grace_seconds:
                    self._kill(child)
            time.sleep(POLL_SECONDS)
        for child in children:
            if child.process:
                signal_group(child.process.pid, signal.SIGKILL)

    def _kill(self, child: _Child) -> None:
        """End one that did not heed its stop signal."""
        if child.process:
            self._pump.say(
                "supervisor", f"{child.spec.name} did not stop in {child.spec.grace_seconds:g} s and is killed"
            )
            signal_group(child.process.pid, signal.SIGKILL)
            child.process.wait()


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
