"""The whole product on real processes, for a browser to look at: started, read, killed in parts, and ended."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import redis

from laissez.sdk.client import Client
from laissez.stack import record
from laissez.stack.places import PROJECT
from tests.stack.families import FAMILY, end_family

START_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1
T = TypeVar("T")


@dataclass
class Stage:
    """A running `manage.py demo` or `manage.py up` with a state folder of its own."""

    state: Path
    process: "subprocess.Popen[str]"
    told: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where its pages are, without a slash at the end."""
        return str(self.facts()["url"])

    @property
    def password(self) -> str:
        """The password of every login of the demo."""
        return self.said(r"password (\S+)")

    def said(self, pattern: str) -> str:
        """What the first group of a pattern found in what the command has told."""
        found = re.search(pattern, "".join(self.told))
        assert found is not None, f"it never said {pattern!r}: {''.join(self.told)[-2000:]}"
        return found.group(1)

    def facts(self) -> dict[str, Any]:
        """What `up.json` says now."""
        found = record.read(self.state)
        assert found is not None, "".join(self.told)[-2000:]
        return found

    def kill(self, name: str) -> int:
        """Kill one process of it outright; returns the id that it had. The supervisor starts another."""
        pid = int(self.facts()["processes"][name])
        os.kill(pid, signal.SIGKILL)
        return pid

    def flush_valkey(self) -> None:
        """Lose everything that Valkey knew, groups and queues included."""
        with redis.Redis.from_url(self.facts()["redis_url"]) as valkey:
            valkey.flushall()

    def token(self, tenant: str = "Guest") -> str:
        """A token drawn for a tenant."""
        told = self.manage("create_token", tenant, "--name", "a test")
        found = re.search(r"lz_live_\w+", told)
        assert found is not None, told
        return found.group()

    def client(self, tenant: str = "Guest") -> Client:
        """A tenant's way in through the API."""
        return Client(self.url, self.token(tenant))

    def manage(self, *arguments: str) -> str:
        """Another `manage.py` command beside it; what it prints."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=PROJECT, env=_environment(self.state), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def laissez(self, home: Path, *arguments: str) -> str:
        """The `laissez` command of somebody whose settings are in `home`; what it prints."""
        command = [str(Path(sys.executable).with_name("laissez")), *arguments]
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(home)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


def wait_for(condition: Callable[[], T], *, seconds: float, what: str) -> T:
    """The condition's value once it is true; fails when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(POLL_SECONDS)
    return found


@contextmanager
def running(*command: str) -> Iterator[Stage]:
    """`manage.py <command> --port 0`, up and answering; nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="laissez-live-") as folder:
        state = Path(folder)
        process = subprocess.Popen(
            [sys.executable, "-u", "manage.py", *command, "--port", "0"],
            cwd=PROJECT,
            env=_environment(state),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        stage = Stage(state, process)
        listener = threading.Thread(target=_listen, args=(stage,), daemon=True)
        listener.start()
        try:
            wait_for(lambda: process.poll() is not None or _is_up(stage), seconds=START_SECONDS, what="the start")
            assert process.poll() is None, "".join(stage.told)[-4000:]
            yield stage
        finally:
            _end(stage)
            listener.join(timeout=STOP_SECONDS)
            process.stdout.close()


def _is_up(stage: Stage) -> bool:
    return any("Laissez is up at" in line for line in stage.told)


def _listen(stage: Stage) -> None:
    assert stage.process.stdout is not None
    for line in stage.process.stdout:
        stage.told.append(line)  # at once: extending would tell nothing before the end


def _end(stage: Stage) -> None:
    """As Ctrl-C would, then less kindly."""
    if stage.process.poll() is None:
        stage.process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            stage.process.wait(timeout=STOP_SECONDS)
    end_family(str(stage.state))
    stage.process.wait(timeout=STOP_SECONDS)


def _environment(state: Path) -> dict[str, str]:
    """What a developer's shell has, with a state folder of the test's own and sign-up open."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    own = {"LAISSEZ_STATE_DIR": str(state), "LAISSEZ_ENV": "development", "LAISSEZ_SIGNUP": "open"}
    return inherited | own | {FAMILY: str(state)}
