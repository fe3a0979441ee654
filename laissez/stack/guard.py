"""Ends what a killed supervisor leaves behind. Run by path under `python -I -S`, so only the standard library is there.

    python -I -S guard.py LIFELINE MARKER GRACE_SECONDS

LIFELINE is the read end of a pipe whose other end only the supervisor holds: its end of file means that the supervisor
is gone, a byte before that that it stopped everything itself. When it is gone the kernel has told its children to stop;
what still runs after the grace, and whatever descends from it, is killed. The guard inherits the state folder's lock,
so that no second stack starts in between.
"""

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 10
"""How long a killed process may take to vanish (one that waits for a disk does not at once)."""


class Identity(NamedTuple):
    """A process: its number alone may be used again."""

    pid: int
    started: int
    """In the kernel's ticks since it booted."""


def main() -> None:
    """Wait for the supervisor's end, then clean up."""
    lifeline, marker, grace_seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if not os.read(lifeline, 1):
        sweep(marker, grace_seconds=grace_seconds)


def sweep(marker: str, *, grace_seconds: float, known: Iterable[Identity] = ()) -> None:
    """Wait until no process with the marker, and none of the known ones, is left; kill those that outlast the grace.

    What descends from such a process counts too, also after that process has ended.
    """
    started = time.monotonic()
    targets = set(known)
    while time.monotonic() - started < grace_seconds + PATIENCE_SECONDS:
        targets = {process for process in targets if is_alive(process)} | family(marker)
        if not targets:
            return
        if time.monotonic() - started >= grace_seconds:
            for process in targets:
                _kill(process)
        time.sleep(POLL_SECONDS)


def marked(marker: str) -> set[int]:
    """The ids of the family's processes."""
    return {process.pid for process in family(marker)}


def family(marker: str) -> set[Identity]:
    """The processes that have `LAISSEZ_SUPERVISOR=<marker>` in their environment, and all that descend from them."""
    wanted = f"LAISSEZ_SUPERVISOR={marker}".encode()
    children: dict[int, list[Identity]] = defaultdict(list)
    found: list[Identity] = []
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            parent, process = _look(pid)
            children[parent].append(process)
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
        except OSError:
            continue  # it has just ended, or is somebody else's
    result: set[Identity] = set()
    while found:
        process = found.pop()
        if process not in result and process.pid != os.getpid():
            result.add(process)
            found += children[process.pid]
    return result


def is_alive(process: Identity) -> bool:
    """Whether that very process runs, and not a later one of the same number."""
    try:
        return _look(process.pid)[1] == process
    except OSError:
        return False


def _look(pid: int) -> tuple[int, Identity]:
    """A live process's parent and identity. A zombie is none: it only waits to be counted."""
    state, parent, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if state == "Z":
        raise ProcessLookupError(pid)
    return int(parent), Identity(pid, int(fields[17]))


def _kill(process: Identity) -> None:
    """Kill one process, unless it is gone or not ours."""
    try:
        os.kill(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    main()
