"""Running modules of measurements, each in a fresh process, and keeping what they say."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from laissez.stack.places import PROJECT
from tests.bench.figures import Figure, Run
from tests.bench.modules import Module

LEAST_SECONDS = 400
END_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of one module came to. `error` is empty when it ended well."""

    module: str
    figures: list[Figure] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0


def measure(module: Module, run: Run, *, tell: Callable[[Figure], None]) -> Outcome:
    """Run one module to its end, or until it has taken too long.

    Args:
        tell: is given each figure as it comes.
    """
    command = [
        sys.executable,
        "-m",
        "tests.bench.child",
        module.name,
        module.ground.name,
        str(run.seed),
        str(run.share),
    ]
    started = time.monotonic()
    child = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    limit = max(LEAST_SECONDS, module.seconds * run.share)
    alarm = threading.Timer(limit, child.send_signal, [signal.SIGINT])
    alarm.start()
    figures = []
    try:
        assert child.stdout is not None
        with child.stdout as lines:
            for line in lines:
                figures.append(Figure(**json.loads(line)))
                tell(figures[-1])
        child.wait()
    finally:
        alarm.cancel()
        _end(child)
    seconds = round(time.monotonic() - started, 1)
    late = f"stopped after {limit:.0f} s, which is more than it may take" if seconds >= limit else ""
    return Outcome(module.name, figures, late or _error(child.returncode, figures), seconds)


def _end(child: "subprocess.Popen[str]") -> None:
    """Let a child that still runs stop its servers and clear up; whatever is left of its session then is killed."""
    child.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        child.wait(END_SECONDS)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _error(status: int, figures: Sequence[Figure]) -> str:
    if status:
        return f"ended with status {status}; what it said is above"
    return "" if figures else "ended without a figure"
