"""Finding the processes that descend from one that a test started."""

import os
import signal
from contextlib import suppress
from pathlib import Path

FAMILY = "LAISSEZ_TEST_FAMILY"


def family(name: str) -> set[int]:
    """Every process that has LAISSEZ_TEST_FAMILY=<name> in its environment."""
    wanted = f"{FAMILY}={name}".encode()
    found = set()
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(pid)
    return found


def end_family(name: str) -> None:
    """Kill what a failed test left."""
    for pid in family(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
