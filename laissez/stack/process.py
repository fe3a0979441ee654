"""One child process: what to run, how it is told to stop, and how it starts so that it cannot outlive its parent."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TextIO

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
    before: Callable[[], None] | None = None
    """Done once, before its first start."""
    ready: Callable[[int], bool] | None = None
    """Given its process id, whether the next process may start."""
    ready_seconds: float = 60
    unprivileged: tuple[Path, ...] = ()
    """Not to be run as root; the folders that it writes to."""
    inherited: tuple[int, ...] = ()
    """Open files of the supervisor's that it takes over, such as a listening socket."""
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
        pass_fds=(*spec.inherited, *inherited),
    )


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send the signal to a child's whole process group; it is no error that all of it has ended."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


class Pump:
    """Carries the children's lines to one output, each with the name of the process that wrote it."""

    def __init__(self, output: TextIO) -> None:
        """Lines of several processes never mix."""
        self._output = output
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def say(self, name: str, line: str) -> None:
        """Write one line; an output that nobody reads any more stops nothing."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._output.write(f"{name:<12} | {line}\n")
            self._output.flush()

    def follow(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Carry this process's lines until it and all that share its output have ended."""
        thread = threading.Thread(
            target=self._carry, args=(name, process.stdout), name=f"output of {name}", daemon=True
        )
        self._threads = [known for known in self._threads if known.is_alive()] + [thread]
        thread.start()

    def drain(self) -> None:
        """Wait for the last lines, though not for long."""
        for thread in self._threads:
            thread.join(timeout=1)

    def _carry(self, name: str, lines: IO[bytes]) -> None:
        """One process's lines; very long ones are cut into several."""
        with lines:
            while line := lines.readline(16_384):
                self.say(name, line.decode(errors="replace").rstrip("\n"))
