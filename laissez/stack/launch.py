"""Becomes another program, after tying its life to its parent's.

Run by path under `python -I -S`, so only the standard library is there.

    python -I -S launch.py --parent 41 --death-signal 9 [--unprivileged DIR[:DIR...]] -- program argument ...

The parent-death signal is set after every change of user, since such a change clears it. PostgreSQL refuses to run as
root; `--unprivileged` gives it a user namespace of its own in which root is user 1000, and where the kernel refuses
that, becomes the user `nobody`, to whom the folders are given.
"""

import ctypes
import os
import pwd
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
NAMESPACE_USER = 1000


def main() -> None:
    """Read the arguments, prepare this process, and replace it."""
    options, command = _split(sys.argv[1:])
    folders = options.get("--unprivileged")
    if folders and os.geteuid() == 0 and not _enter_namespace():
        _become_nobody(command[0], [Path(folder) for folder in folders.split(os.pathsep)])
    die_with_parent(int(options.get("--death-signal", "0")), int(options.get("--parent", "0")))
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


def die_with_parent(signal_number: int, parent: int) -> None:
    """Have the kernel send the signal when the thread that started this process ends. 0 asks for nothing."""
    if not signal_number:
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if parent and os.getppid() != parent:
        sys.exit("the parent ended before its child began")


def _split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """The `--name value` pairs before `--`, and the command after it."""
    middle = arguments.index("--")
    pairs = arguments[:middle]
    return dict(zip(pairs[::2], pairs[1::2], strict=True)), arguments[middle + 1 :]


def _enter_namespace() -> bool:
    """Be user 1000 of a fresh user namespace, which is still root to the file system. False where that is refused."""
    if os.environ.get("LAISSEZ_NO_USER_NAMESPACE"):
        return False
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{NAMESPACE_USER} 0 1")
        Path("/proc/self/gid_map").write_text(f"{NAMESPACE_USER} 0 1")
    except OSError as error:
        sys.exit(f"a user namespace was made but its map was refused ({error}): set LAISSEZ_NO_USER_NAMESPACE=1")
    return True


def _become_nobody(program: str, folders: list[Path]) -> None:
    """Give the folders to `nobody`, let it pass through the state folder that holds them, and become it for good."""
    nobody = pwd.getpwnam("nobody")
    for folder in folders:
        folder.parent.chmod(folder.parent.stat().st_mode | 0o011)
        for root, _, files in os.walk(folder):
            for path in [root, *(os.path.join(root, name) for name in files)]:
                os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    for needed in [Path(program), *folders]:
        if not os.access(needed, os.X_OK):
            sys.exit(
                "PostgreSQL does not run as root, this kernel refuses user namespaces, and the user 'nobody' may not "
                f"reach {needed}. Keep the project and LAISSEZ_STATE_DIR outside private homes, or be an ordinary user."
            )


if __name__ == "__main__":
    main()
