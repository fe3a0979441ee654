"""What runs in a state folder: a lock that at most one stack holds, and `up.json`, which says how to reach it.

The lock is a kernel file lock: it ends with the last process that holds the file open, however that process ends.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laissez.stack.places import StackError, make_private

POLL_SECONDS = 0.1
LEFTOVER_SECONDS = 30
"""How long the children of a killed holder may take to end."""


class FolderInUse(StackError):
    """Another process runs a stack in this state folder."""


def acquire(state: Path, *, purpose: str, wait_seconds: float = 0) -> int:
    """Take the folder's lock and return the open file that holds it; the purpose is shown to whoever comes second.

    Leftovers of a holder that was killed keep the lock while they end; they are waited for.
    """
    make_private(state)
    handle = os.open(state / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    started = time.monotonic()
    while not _try_lock(handle):
        holder = os.pread(handle, 400, 0).decode(errors="replace").strip()
        patience = wait_seconds if _is_alive(holder) else max(wait_seconds, LEFTOVER_SECONDS)
        if time.monotonic() - started >= patience:
            os.close(handle)
            raise FolderInUse(f"{state} is in use by {holder}. Stop that one first, or set LAISSEZ_STATE_DIR.")
        time.sleep(POLL_SECONDS)
    name_holder(handle, purpose=purpose, pid=os.getpid())
    return handle


def name_holder(handle: int, *, purpose: str, pid: int) -> None:
    """Write into the lock who holds it."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{purpose} (process {pid})".encode(), 0)


def release(handle: int) -> None:
    """Give the lock back; helpers that inherited the file keep it until they end."""
    os.close(handle)


def is_locked(state: Path) -> bool:
    """Whether some process holds the folder now."""
    try:
        handle = os.open(state / "up.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(handle)
    finally:
        os.close(handle)


def write(state: Path, content: dict[str, Any]) -> None:
    """Replace `up.json` in one step; it may carry a password, so only its owner reads it."""
    fresh = state / "up.json.new"
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(content, indent=2) + "\n")
    fresh.replace(state / "up.json")


def read(state: Path) -> dict[str, Any] | None:
    """The record of the stack that runs here, or None where none runs."""
    if not is_locked(state):
        return None
    try:
        content: dict[str, Any] = json.loads((state / "up.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return content


def remove(state: Path) -> None:
    """Forget what ran here."""
    (state / "up.json").unlink(missing_ok=True)


def wait_for(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Whether the condition came true within so many seconds of this machine's clock."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS / 4)
    return True


def _try_lock(handle: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(holder: str) -> bool:
    """Whether the process that the lock names exists."""
    named = re.search(r"\(process (\d+)\)$", holder)
    return named is not None and Path(f"/proc/{named[1]}").exists()
