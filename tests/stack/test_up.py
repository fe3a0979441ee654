"""`manage.py up` as a person uses it: one command, a page, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from laissez.stack import record
from laissez.stack.places import PROJECT
from laissez.stack.record import wait_for
from tests.stack.families import FAMILY, end_family, family

pytestmark = [pytest.mark.xdist_group("up"), pytest.mark.slow]
EVERY_PROCESS = {"postgres", "valkey", "web", "celery-ticks", "celery", "beat"}


def environment(state: Path) -> dict[str, str]:
    """What a developer's shell has, and a state folder of the test's own."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    return inherited | {"LAISSEZ_STATE_DIR": str(state), "LAISSEZ_ENV": "development", FAMILY: str(state)}


def manage(state: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Another `manage.py` command in the same folder."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=PROJECT, env=environment(state), capture_output=True, text=True, timeout=60)


@dataclass(frozen=True)
class Stack:
    """A running `manage.py up`."""

    state: Path
    process: "subprocess.Popen[bytes]"

    def content(self) -> dict[str, Any]:
        """What `up.json` says."""
        found = record.read(self.state)
        assert found is not None
        return found

    def family(self) -> set[int]:
        """Every process of it."""
        return family(str(self.state))


@contextmanager
def running(state: Path) -> Iterator[Stack]:
    """`manage.py up` on a free port, ready; whatever happens, nothing of it stays."""
    log = state / "up.log"
    command = [sys.executable, "manage.py", "up", "--port", "0"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=PROJECT, env=environment(state), stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            wait_for(lambda: process.poll() is not None or b"Laissez is up at" in log.read_bytes(), seconds=120)
            assert b"Laissez is up at" in log.read_bytes(), log.read_text()
            yield Stack(state, process)
        finally:
            end_family(str(state))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for the tests of this module; the last of them ends it."""
    with running(tmp_path_factory.mktemp("up")) as stack:
        yield stack


def page_status(stack: Stack) -> int:
    """What a caller of the web process gets."""
    with urllib.request.urlopen(stack.content()["url"] + "/healthz", timeout=30) as answer:
        status: int = answer.status
        return status


def test_one_command_starts_every_process_and_answers(up: Stack) -> None:
    assert set(up.content()["processes"]) == EVERY_PROCESS
    assert page_status(up) == 200


def test_a_second_one_in_the_same_folder_is_refused_in_one_line(up: Stack) -> None:
    again = manage(up.state, "up", "--port", "0")
    assert again.returncode == 1
    assert again.stderr.strip().endswith(
        f"{up.state} is in use by manage.py up (process {up.process.pid}). "
        "Stop that one first, or set LAISSEZ_STATE_DIR."
    )
    assert "Traceback" not in again.stderr


def test_a_command_beside_it_uses_its_servers(up: Stack) -> None:
    code = "from django.conf import settings; print(settings.REDIS_URL)"
    beside = manage(up.state, "shell", "--no-imports", "-c", code)
    assert beside.stdout.strip() == up.content()["redis_url"]


def test_a_killed_web_process_comes_back_at_the_same_address(up: Stack) -> None:
    before = up.content()["processes"]["web"]
    os.kill(before, signal.SIGKILL)
    assert page_status(up) == 200
    assert up.content()["processes"]["web"] != before


def test_ctrl_c_ends_every_process_and_the_folder_is_free(up: Stack) -> None:
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(timeout=60) == 0
    assert up.family() == set()
    assert not record.is_locked(up.state)


def test_killing_the_supervisor_leaves_no_process_and_the_next_start_works(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        pids = set(stack.content()["processes"].values())
        stack.process.kill()
        stack.process.wait(timeout=10)
        assert wait_for(lambda: not stack.family() and not any(map(alive, pids)), seconds=30)
        assert manage(tmp_path, "showmigrations", "--plan").returncode == 0


def alive(pid: int) -> bool:
    """Whether a process of that number exists."""
    return Path(f"/proc/{pid}").exists()


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        done = manage(tmp_path, "up", "--port", str(taken))
    assert done.returncode == 1
    assert f"127.0.0.1 port {taken} cannot be used: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
