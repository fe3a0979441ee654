"""First code inside a sandbox: takes its order from a pipe, limits itself, drops rights, becomes the tenant's command.

Runs alone (``python -I -S launcher.py FD``), standard library only. The order is one JSON line; an end of file instead
of it means that the shim died before it could say go, and nothing is started. With ``--namespace`` it makes the user
namespace in which root's sandboxes run as somebody else.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
CANNOT_RUN = 126
NOT_FOUND = 127


def main(arguments: list[str]) -> int:
    """Follow the order on the file descriptor named by the only argument."""
    if arguments == ["--namespace"]:
        return hold_namespace()
    with os.fdopen(int(arguments[0])) as pipe:
        line = pipe.readline()
    if not line.endswith("\n"):
        return CANNOT_RUN
    order: dict[str, Any] = json.loads(line)
    if order.get("parent"):
        die_with(order["parent"])
    for name, (soft, hard) in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (soft, hard))
    if order.get("user") is not None:
        os.setgroups([])
        os.setresgid(order["user"], order["user"], order["user"])
        os.setresuid(order["user"], order["user"], order["user"])
    os.umask(0o022)
    os.closerange(3, 4096)
    return become(order["command"], order["directory"], order["environment"])


def become(command: list[str], directory: str, environment: dict[str, str]) -> int:
    """Replace this process by the command; return an exit status only when that fails."""
    os.environ["PATH"] = environment.get("PATH", os.defpath)
    try:
        os.chdir(directory)
        os.execvpe(command[0], command, environment)
    except FileNotFoundError:
        print(f"laissez: there is no {command[0]!r} to run", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"laissez: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
    return CANNOT_RUN


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, also when it has died already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(CANNOT_RUN)


def hold_namespace() -> int:
    """Make a user namespace, wait for its id maps, forbid further ones below it, and hold it until told to go."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        return 1
    print("made", flush=True)
    sys.stdin.readline()
    with open("/proc/sys/user/max_user_namespaces", "w") as limit:
        limit.write("0")
    print("closed", flush=True)
    sys.stdin.readline()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
