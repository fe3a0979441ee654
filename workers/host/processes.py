"""What the kernel knows about processes: identity, descendants, memory, marks. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def now() -> float:
    """Seconds since boot, suspension included; one clock for the daemon and its shims."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when it is gone (a zombie is gone)."""
    fields = _stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return int(fields[19])


def is_same(pid: int, ticks: int) -> bool:
    """Whether ``pid`` still is the process that started at ``ticks``."""
    return start_ticks(pid) == ticks


def children(pid: int) -> list[int]:
    """The processes that ``pid`` started and that live."""
    try:
        return [int(child) for child in (PROC / f"{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Everything below ``pid``; inside a PID namespace nothing can leave this tree."""
    found, pending = [], [pid]
    while pending:
        for child in children(pending.pop()):
            found.append(child)
            pending.append(child)
    return found


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory that the processes hold in RAM, shared pages counted once per process."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int((PROC / f"{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return total


def marked(mark: str) -> list[int]:
    """Living processes whose environment at their start held ``mark`` (``NAME=value``)."""
    wanted = mark.encode()
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and start_ticks(int(entry.name)) is not None:
                found.append(int(entry.name))
    return found


def kill(pid: int, signum: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def tree_bytes(path: Path, *, most_files: int) -> int | None:
    """Bytes on disk below ``path``, links not followed; None when there are more than ``most_files`` entries."""
    total, seen, pending = 0, 0, [os.fspath(path)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > most_files:
                        return None
                    with contextlib.suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
        except OSError:
            continue
    return total
