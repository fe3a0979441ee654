"""One child process: what to run, how it is told to stop, and how it is started so that it cannot outlive its parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from laissez.stack.places import PROJECT

LAUNCHER = str(Path(__file__).with_name("launch.py"))
MARKER = "LAISSEZ_SUPERVISOR"
"""The environment variable by which the leftovers of a stack are recognised, whoever their parent has become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A process that the supervisor keeps running."""

    name: str
    command: tuple[str, ...]
    stop_rank: int
    """Processes of a lower rank stop earlier; those of one rank stop together."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the supervisor's own."""
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 5
    """How long it may take to stop before it is killed."""
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends it when the supervisor is killed."""
    ready: Callable[[int], bool] | None = None
    """Given its process id, whether the next process may start."""
    ready_seconds: float = 60
    unprivileged: tuple[Path, ...] = ()
    """Not to be run as root; the folders that it writes to."""
    once: bool = False
    """It ends by itself, must succeed, and the next process waits for that."""


def spawn(
    spec: ProcessSpec,
    *,
    output: IO[bytes] | int,
    marker: str = "",
    tied: bool = True,
    inherited: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start it in a session of its own. Tied to the calling *thread*: its death signal comes when that ends."""
    launched = [sys.executable, "-I", "-S", LAUNCHER]
    if tied:
        launched += ["--parent", str(os.getpid()), "--death-signal", str(int(spec.death_signal))]
    if spec.unprivileged:
        launched += ["--unprivileged", os.pathsep.join(map(str, spec.unprivileged))]
    return subprocess.Popen(
        [*launched, "--", *spec.command],
        cwd=PROJECT,
        env=os.environ | dict(spec.environment) | ({MARKER: marker} if marker else {}),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=inherited,
    )


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send the signal to a child's whole process group; it is no error that all of it has ended."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return
