"""A supervisor with small children, for tests to stop and kill: `python -m tests.stack.supervised STATE`."""

import signal
import sys
from pathlib import Path
from typing import Any

from laissez.stack.process import ProcessSpec
from laissez.stack.supervisor import Supervisor

SLEEPER = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
ESCAPING = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], start_new_session=True)
time.sleep(600)
"""

NURSING = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
kept = {{"LAISSEZ_TEST_FAMILY": os.environ["LAISSEZ_TEST_FAMILY"]}}
subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], start_new_session=True, env=kept)
time.sleep(600)
"""
"""Like a host and its shims: told to stop rather than killed, and its child has neither its session nor its mark."""


def python(name: str, code: str, *, stop_rank: int = 10, **more: Any) -> ProcessSpec:
    """A process that runs a few lines of Python."""
    return ProcessSpec(name=name, command=(sys.executable, "-c", code), stop_rank=stop_rank, **more)


if __name__ == "__main__":
    state = Path(sys.argv[1])
    children = [
        python("sleeper", SLEEPER),
        python("stubborn", STUBBORN, grace_seconds=0.5),
        python("escaping", ESCAPING),
        python("nursing", NURSING, grace_seconds=0.5, death_signal=signal.SIGTERM),
    ]
    Supervisor(children, state).run(started=lambda: print("everything runs", flush=True))
