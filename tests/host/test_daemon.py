"""The command line: what the daemon refuses, and how it says so."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from tests.host.conftest import Host, until
from tests.host.fake import FakeControlPlane
from workers.host import daemon, processes, shims


def refused(host: Host) -> tuple[int, str]:
    """Wait until the daemon has given up; its exit status and what it said."""
    return host.process.wait(20), host.log()


def test_without_a_working_sandbox_the_host_refuses_to_start(new_host: Callable[..., Host]) -> None:
    status, text = refused(new_host("--bwrap", "/bin/false"))
    assert status == daemon.NO_SANDBOX
    assert "bubblewrap does not work here" in text
    assert "--trust-tenants" in text


def test_an_owner_who_trusts_tenants_runs_them_bare_and_the_host_says_so(
    new_host: Callable[..., Host], plane: FakeControlPlane
) -> None:
    host = new_host("--bwrap", "/bin/false", "--trust-tenants")
    script = "from laissez.sdk import progress\nprogress(1.0)\nprint('bare')"
    bare = {"command": [sys.executable, "main.py"]}
    lease = host.run(script, spec=bare)
    assert host.end(lease)["reason"] == "completed", host.plane.text(lease)
    assert plane.enrolments[0]["isolation"] == "none"
    assert plane.text(lease, "stdout") == "bare\n"
    lease = host.run("import os, signal; os.fork(); print('up', flush=True); signal.pause()", spec=bare)
    plane.wait(lambda: "up" in plane.text(lease), "the program to start")
    mark = host.order(lease).mark
    os.kill(shims.proved_pid(host.folder(lease)) or 0, signal.SIGKILL)
    until(lambda: not processes.marked(mark), "the bare program to be gone")
    assert host.end(lease)["reason"] == "host_lost"


def test_two_daemons_do_not_share_a_state_directory(new_host: Callable[..., Host], plane: FakeControlPlane) -> None:
    host = new_host()
    plane.wait(lambda: plane.syncs, "the first sync")
    first = host.process
    host.start()
    status, text = refused(host)
    host.process = first
    assert status == daemon.OCCUPIED
    assert "another laissez-host works in" in text


def test_a_wrong_code_is_refused_with_the_control_planes_words(
    new_host: Callable[..., Host], plane: FakeControlPlane
) -> None:
    status, text = refused(new_host("--code", "guessed"))
    assert status == daemon.NO_KEY
    assert "this code is not valid" in text


def test_a_key_that_the_control_plane_does_not_know_ends_the_daemon(
    new_host: Callable[..., Host], plane: FakeControlPlane
) -> None:
    host = new_host()
    plane.wait(lambda: plane.syncs, "the first sync")
    plane.keys["host_1"] = "another"
    status, text = refused(host)
    assert status == daemon.NO_KEY
    assert "no host has this key" in text


@pytest.mark.parametrize("emulate", ["nvidia-a10", "nvidia-a10=0", "=1", "nvidia-a10=1,nvidia-l4=x"])
def test_devices_that_cannot_be_read_are_named(emulate: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--server", "http://127.0.0.1:1", "--state-dir", "/nowhere", "--emulate", emulate]
    assert daemon.main(arguments) == daemon.BAD_USAGE
    assert emulate.rpartition(",")[2] in capsys.readouterr().err
