"""The `process` executor: a subprocess in a bubblewrap sandbox, or a bare one where the owner trusts its tenants."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import laissez.sdk
from workers.host import archives, launcher, processes
from workers.host.executors import CannotRun, Exit, Places, Running, Task
from workers.host.limits import Limits
from workers.host.sandbox import TOOLS, Bind, Sandbox

FOLDERS = ("job", "checkpoints", "resume", "run")
END_SECONDS = 5.0


@dataclass(slots=True)
class Program:
    """A started process with the descriptors that belong to it."""

    popen: subprocess.Popen[bytes]
    root: int  # the first process inside: the namespace's init, or the process itself
    root_ticks: int | None
    contained: bool

    @property
    def pid(self) -> int:
        """The process that the shim started."""
        return self.popen.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its input, for tasks that listen."""
        return self.popen.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """Its output."""
        assert self.popen.stdout is not None
        return self.popen.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Its other output."""
        assert self.popen.stderr is not None
        return self.popen.stderr

    def members(self) -> list[int]:
        """The tenant's processes, without bubblewrap's own two."""
        below = processes.descendants(self.root)
        return below if self.contained else [self.root, *below]

    def gone(self) -> bool:
        """Whether nothing of it lives."""
        if self.contained:
            return self.root_ticks is None or not processes.is_same(self.root, self.root_ticks)
        return not self.members_of_session()

    def members_of_session(self) -> list[int]:
        """Uncontained: what still runs below or beside the first process."""
        return [pid for pid in [self.root, *processes.descendants(self.root)] if processes.start_ticks(pid) is not None]


@dataclass(slots=True)
class ProcessExecutor:
    """Runs one lease's programs in `directory`; `sandbox` None means bare processes."""

    directory: Path
    limits: Limits
    sandbox: Sandbox | None
    uid: int | None
    mark: str
    _started: dict[int, Program] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        """Inside the sandbox the directories have short names; bare programs see the machine's own."""
        if self.sandbox is not None:
            run = Path("/run/laissez/host/socket")
            archive = TOOLS / "archive.tar"
            return Places(Path("/job"), Path("/checkpoints"), Path("/resume"), run, TOOLS, TOOLS / "python", archive)
        tools, python_path = Path(archives.__file__).parent, Path(laissez.sdk.__file__).parents[2]
        job, checkpoints, resume, run = (self.directory / name for name in FOLDERS)
        return Places(job, checkpoints, resume, run / "socket", tools, python_path, None)

    def prepare(self) -> None:
        """Make the lease's directories, owned by the tenant's id where it has one."""
        for name in FOLDERS:
            path = self.directory / name
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            if self.uid is not None:
                os.chown(path, self.uid, self.uid)

    def start(self, task: Task) -> Program:
        """Start a program: nothing of it runs before the order has been written, so a dying shim leaves nothing."""
        order_read, order_write = os.pipe()
        try:
            program = self._spawn(task, order_read)
        except OSError as error:
            os.close(order_write)
            raise CannotRun(f"the sandbox does not start: {error}") from error
        finally:
            os.close(order_read)
        self._started[program.pid] = program
        with os.fdopen(order_write, "w") as pipe, contextlib.suppress(BrokenPipeError):
            pipe.write(json.dumps(self._order(task)) + "\n")
        return program

    def signal(self, running: Running, signum: int) -> None:
        """Signal the tenant's first process; SIGKILL takes the whole namespace."""
        program = self._started[running.pid]
        if signum == signal.SIGKILL:
            for pid in [] if program.contained else program.members():
                processes.kill(pid)
            program.popen.kill()
            return
        below = processes.children(program.root) if program.contained else [program.root]
        for pid in below:
            processes.kill(pid, signum)

    def poll(self, running: Running) -> Exit | None:
        """The end of the program, once its namespace is empty."""
        program = self._started[running.pid]
        code = program.popen.poll()
        if code is None or not program.gone():
            return None
        if code < 0:
            return Exit(None, -code)
        if program.contained and code > 128:
            return Exit(None, code - 128)
        return Exit(code)

    def clean(self) -> None:
        """Kill every program, wait until they are gone, remove the directories."""
        programs = list(self._started.values())
        for program in programs:
            self.signal(program, signal.SIGKILL)
        _wait_until(lambda: all(self.poll(program) is not None for program in programs), END_SECONDS)
        for pid in processes.marked(self.mark):
            if pid != os.getpid():
                processes.kill(pid)
        for name in FOLDERS:
            shutil.rmtree(self.directory / name, onerror=_make_writable)

    def _spawn(self, task: Task, order: int) -> Program:
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE if task.listens else subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        environment = dict([self.mark.split("=", 1)])
        if self.sandbox is None:
            command = [sys.executable, "-I", "-S", launcher.__file__, str(order)]
            popen = subprocess.Popen(command, env=environment, pass_fds=[order], start_new_session=True, **pipes)
            return Program(popen, popen.pid, processes.start_ticks(popen.pid), contained=False)
        info_read, info_write = os.pipe()
        try:
            command = self.sandbox.command(self._binds(task), info=info_write, order=order)
            passed = [order, info_write, *([] if self.sandbox.namespace is None else [self.sandbox.namespace])]
            popen = subprocess.Popen(command, env=environment, pass_fds=passed, start_new_session=True, **pipes)
        except OSError:
            os.close(info_read)
            raise
        finally:
            os.close(info_write)
        with os.fdopen(info_read) as pipe:
            root = _first_process(pipe.read())
        if root is None:
            popen.kill()
            _, said = popen.communicate()
            raise CannotRun(f"bubblewrap: {said.decode(errors='replace').strip()[-500:]}")
        return Program(popen, root, processes.start_ticks(root), contained=True)

    def _binds(self, task: Task) -> list[Bind]:
        places = self.places
        archive = [Bind(task.archive, places.archive)] if task.archive and places.archive else []
        return [
            Bind(self.directory / "job", places.job, writable=True),
            Bind(self.directory / "checkpoints", places.checkpoints, writable=True),
            Bind(self.directory / "resume", places.resume, writable=task.writes_resume),
            Bind(self.directory / "run", places.socket.parent),
            *archive,
        ]

    def _order(self, task: Task) -> dict[str, object]:
        contained = self.sandbox is not None
        name, value = self.mark.split("=", 1)
        return {
            "command": list(task.command),
            "environment": {**task.environment, name: value},
            "directory": str(task.directory),
            "limits": self.limits.kernel(count_processes=contained),
            "user": self.sandbox.user() if self.sandbox is not None else None,
            "parent": None if contained else os.getpid(),
        }


def _first_process(info: str) -> int | None:
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def _make_writable(remove: Callable[[str], object], path: str, _error: object) -> None:
    """A tenant may have taken its own rights away; give them back and try once more."""
    with contextlib.suppress(OSError):
        parent = os.path.dirname(path)
        if stat.S_ISDIR(os.lstat(parent).st_mode):
            os.chmod(parent, 0o700)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            os.chmod(path, 0o700)
        remove(path)
