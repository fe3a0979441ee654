"""The embedded PostgreSQL: its files, its command line, and whether it is the one that answers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from laissez.stack.places import StackError, make_private, postgres_binary, socket_dir

USER = DATABASE = "laissez"
LAUNCHER = str(Path(__file__).with_name("launch.py"))
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "120",
    "shared_buffers": "256MB",  # taken from the machine only as far as it is used
    "max_wal_size": "2GB",  # checkpoints by the clock, not in the middle of a busy minute
    "random_page_cost": "1.1",
    "autovacuum_naptime": "10s",  # the log of changes is emptied every second
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "",
    "log_checkpoints": "off",
    "jit": "off",
}
FAST_AND_LOSSY = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""For test databases only: nobody misses them after a power cut."""


def url(state: Path) -> str:
    """DATABASE_URL of this state folder's server, known before it runs. Its socket's folder stands percent-encoded."""
    return f"postgresql://{USER}@{quote(str(socket_dir(state)), safe='')}/{DATABASE}"


def data_dir(state: Path) -> Path:
    """Where the database lies."""
    return state / "postgres"


def initialise(state: Path, *, durable: bool = True) -> None:
    """Create the server's files and the database where they are missing; half-made ones, left by a kill, anew."""
    data = data_dir(state)
    if (data / "PG_VERSION").exists():
        return
    fresh = state / "postgres.new"
    shutil.rmtree(fresh, ignore_errors=True)
    make_private(fresh)
    sync = [] if durable else ["--no-sync"]
    _run(fresh, "initdb", f"--pgdata={fresh}", f"--username={USER}", "--auth=trust", "--encoding=UTF8",
         "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", "--no-instructions", *sync)  # fmt: skip
    _run(fresh, "postgres", "--single", "-D", str(fresh), "postgres", statement=f"CREATE DATABASE {DATABASE}")
    fresh.rename(data)


def command(state: Path, *, durable: bool = True) -> tuple[str, ...]:
    """The server's command line."""
    settings = SETTINGS | {"unix_socket_directories": str(socket_dir(state))} | ({} if durable else FAST_AND_LOSSY)
    pairs = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return (postgres_binary("postgres"), "-D", str(data_dir(state)), *pairs)


def folders(state: Path) -> tuple[Path, ...]:
    """What the server writes to; another user gets them where root may not run it."""
    return (data_dir(state), socket_dir(state))


def is_ready(state: Path, pid: int) -> bool:
    """Whether that very process accepts connections. Another server on the folder would answer a mere ping too."""
    try:
        lines = (data_dir(state) / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _run(folder: Path, name: str, *arguments: str, statement: str = "") -> None:
    """Run one of PostgreSQL's programs to its end, not as root; an error carries its output."""
    launched = [sys.executable, "-I", "-S", LAUNCHER, "--unprivileged", str(folder), "--", postgres_binary(name)]
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
    if "LAISSEZ_NO_USER_NAMESPACE" in os.environ:
        environment["LAISSEZ_NO_USER_NAMESPACE"] = os.environ["LAISSEZ_NO_USER_NAMESPACE"]
    done = subprocess.run(
        [*launched, *arguments],
        input=statement,
        env=environment,
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    if done.returncode:
        raise StackError(f"{name} failed with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
