"""What a measured figure depends on besides the code: the machine, how busy it is, the versions of what runs."""

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from laissez.stack.places import PROJECT, postgres_binary

PACKAGES = ("django", "numpy", "numba", "psycopg", "celery", "uvicorn")
GIGABYTE = 1_000_000_000


def facts() -> dict[str, Any]:
    """The machine and the versions, as JSON."""
    return {
        "cores": os.cpu_count(),
        "cpu": _named("/proc/cpuinfo", "model name"),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIGABYTE, 1),
        "system": f"{platform.system()} {platform.release()}",
        "commit": commit(),
        "versions": {"python": platform.python_version(), "postgresql": _postgres(), **_packages()},
    }


def load() -> list[float]:
    """The load averages of 1, 5 and 15 minutes."""
    return [round(each, 2) for each in os.getloadavg()]


def commit() -> str:
    """The commit that is checked out, with a plus where files differ from it; empty outside a repository."""
    head = _output("git", "rev-parse", "--short=12", "HEAD")
    return head + ("+" if head and _output("git", "status", "--porcelain", "--untracked-files=no") else "")


def busy_share(seconds: float) -> float:
    """Which share of all cores' time went to work or to other machines during this time, of 0 to 1."""
    before = _cpu_times()
    time.sleep(seconds)
    spent = [after - former for former, after in zip(before, _cpu_times(), strict=True)]
    idle = spent[3] + spent[4]
    return 1 - idle / max(1, sum(spent))


def _cpu_times() -> list[int]:
    """User, nice, system, idle, waiting, interrupts, steal: ticks since the machine started."""
    with Path("/proc/stat").open() as stat:
        return [int(word) for word in stat.readline().split()[1:9]]


def _named(path: str, name: str) -> str:
    with Path(path).open() as lines:
        found = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
        return next(found, "")


def _postgres() -> str:
    return _output(postgres_binary("postgres"), "--version").removeprefix("postgres (PostgreSQL) ")


def _packages() -> dict[str, str]:
    return {name: found for name in PACKAGES if (found := _version(name))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
