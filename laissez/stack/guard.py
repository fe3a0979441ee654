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
from pathlib import Path

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 10
"""How long a killed process may take to vanish (one that waits for a disk does not at once)."""


def main() -> None:
    """Wait for the supervisor's end, then clean up."""
    lifeline, marker, grace_seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if not os.read(lifeline, 1):
        sweep(marker, grace_seconds=grace_seconds)


def sweep(marker: str, *, grace_seconds: float) -> None:
    """Wait until no process with the marker is left; kill those that outlast the grace, and their descendants."""
    started = time.monotonic()
    while (left := marked(marker)) and time.monotonic() - started < grace_seconds + PATIENCE_SECONDS:
        if time.monotonic() - started >= grace_seconds:
            for pid in left:
                _kill(pid)
        time.sleep(POLL_SECONDS)


def marked(marker: str) -> set[int]:
    """The processes that have `LAISSEZ_SUPERVISOR=<marker>` in their environment, and all that descend from them."""
    wanted = f"LAISSEZ_SUPERVISOR={marker}".encode()
    children: dict[int, list[int]] = defaultdict(list)
    found = []
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            children[_parent(pid)].append(pid)
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue  # it has just ended, or is somebody else's
    result: set[int] = set()
    while found:
        pid = found.pop()
        if pid not in result:
            result.add(pid)
            found += children[pid]
    return result - {os.getpid()}


def _parent(pid: int) -> int:
    """The parent of a live process. A zombie has none here: it only waits to be counted."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    if state == "Z":
        raise ProcessLookupError(pid)
    return int(parent)


def _kill(pid: int) -> None:
    """Kill one process, unless it is gone or not ours."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


if __name__ == "__main__":
    main()
