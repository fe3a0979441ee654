"""How a lease's programs are run: five calls, behind which other engines (containers, Slurm) find their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol


class CannotRun(RuntimeError):
    """The executor could not start a program; the tenant's code never ran."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the lease's directories are for the program itself."""

    job: Path
    checkpoints: Path
    resume: Path
    socket: Path
    tools: Path
    python_path: Path
    archive: Path | None  # None: at the machine's own path


@dataclass(frozen=True, slots=True)
class Task:
    """One program to run: a callback, the workload, the agent, or the extractor."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    listens: bool = False
    writes_resume: bool = False
    archive: Path | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended: its exit status, or the signal that ended it."""

    code: int | None
    signal: int | None = None

    @property
    def clean(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.code == 0


class Running(Protocol):
    """A started program."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its input, for tasks that listen."""

    @property
    def stdout(self) -> IO[bytes]:
        """Its output."""

    @property
    def stderr(self) -> IO[bytes]:
        """Its other output."""

    @property
    def pid(self) -> int:
        """The process whose end is the program's end."""

    def members(self) -> list[int]:
        """Every process of the program."""


class Executor(Protocol):
    """The five calls. All but `clean` are quick; none waits for the program."""

    @property
    def places(self) -> Places:
        """Where the lease's directories are for the programs that `start` runs."""

    def prepare(self) -> None:
        """Make the lease's directories; again and again does no harm."""

    def start(self, task: Task) -> Running:
        """Start a program, or raise `CannotRun`."""

    def signal(self, running: Running, signum: int) -> None:
        """Send a signal to the program; SIGKILL ends all of its processes."""

    def poll(self, running: Running) -> Exit | None:
        """How the program ended, None while any of its processes lives."""

    def clean(self) -> None:
        """End what still runs and remove the lease's directories."""
