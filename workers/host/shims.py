"""Starting shims and telling whether one lives: the daemon's half of what survives the daemon."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import workers
from workers.host import processes
from workers.host.orders import Order
from workers.host.shim import IDENTITY, TENANT

LOCK = "lock"
LOG = "shim.log"
SWEEP_SECONDS = 5.0


def start(directory: Path, order: Order) -> subprocess.Popen[bytes]:
    """Start a lease's shim in a session of its own; it holds the lease's lock from before its first instruction."""
    directory.mkdir(mode=0o700, parents=True)
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        order.write(directory)
        name, _, value = order.mark.partition("=")
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join([str(Path(workers.__path__[0]).parent), *_own_python_path()]),
            name: value,
        }
        with (directory / LOG).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "workers.host.shim", str(directory)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                cwd="/",
            )
    finally:
        os.close(lock)


def _own_python_path() -> list[str]:
    return [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []


def lives(directory: Path) -> bool:
    """Whether a shim of this lease lives: the kernel lets go of its lock when it dies, however it dies."""
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def proved_pid(directory: Path) -> int | None:
    """The shim's process, proved by its start time; None when it has not said yet, or is somebody else by now."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        identity = json.loads((directory / IDENTITY).read_text())
        if processes.is_same(int(identity["pid"]), int(identity["ticks"])):
            return int(identity["pid"])
    return None


def last_words(directory: Path) -> str:
    """The end of what a shim printed: empty unless something went wrong in it."""
    with contextlib.suppress(OSError):
        return (directory / LOG).read_text(errors="replace")[-500:].strip()
    return ""


def sweep(directory: Path, mark: str) -> bool:
    """End whatever a dead shim left behind and remove the tenant's files; False if something would not die."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while left := processes.marked(mark):
        if time.monotonic() > deadline:
            return False
        for pid in left:
            processes.kill(pid)
        time.sleep(0.01)
    shutil.rmtree(directory / TENANT, ignore_errors=True)
    return True
