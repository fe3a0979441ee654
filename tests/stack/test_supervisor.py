"""The supervisor: order, restarts, the record it keeps, and that nothing outlives it."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laissez.stack import record
from laissez.stack.places import StackError
from laissez.stack.process import ProcessSpec
from laissez.stack.record import wait_for
from laissez.stack.supervisor import Supervisor
from tests.stack.families import FAMILY, end_family, family
from tests.stack.supervised import SLEEPER, python

WHOLE_FAMILY = 8
"""The supervisor, its guard, four children, and two grandchildren in sessions of their own."""


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A supervisor in a process of its own, with all its children up; whatever the test does, nothing of it stays."""
    command = [sys.executable, "-m", "tests.stack.supervised", str(tmp_path)]
    environment = os.environ | {FAMILY: str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        try:
            assert any(b"everything runs" in line for line in process.stdout)
            assert wait_for(lambda: len(family(str(tmp_path))) == WHOLE_FAMILY, seconds=30)
            yield process
        finally:
            end_family(str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_process_outlives_the_supervisor_however_it_ends(
    tmp_path: Path, supervised: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    supervised.send_signal(number)

    supervised.wait(timeout=30)
    assert wait_for(lambda: not family(str(tmp_path)), seconds=30)
    assert supervised.returncode == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    # A process that is being torn down loses its environment, by which it is found, before its open files.
    assert wait_for(lambda: not record.is_locked(tmp_path), seconds=5)


def test_without_its_guard_too_a_killed_supervisor_leaves_no_child_that_it_does_not_merely_ask_to_stop(
    tmp_path: Path, supervised: "subprocess.Popen[bytes]"
) -> None:
    content = read(tmp_path)
    children = {pid for name, pid in content["processes"].items() if name != "nursing"}
    assert len(children) == 3

    for pid in (content["guard"], content["pid"]):
        os.kill(pid, signal.SIGKILL)

    supervised.wait(timeout=30)
    assert wait_for(lambda: not children & family(str(tmp_path)), seconds=30)


def test_a_guard_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with Supervisor([python("sleeper", SLEEPER)], tmp_path, output=io.StringIO()):
        first = read(tmp_path)["guard"]
        os.kill(first, signal.SIGKILL)
        assert wait_for(lambda: read(tmp_path)["guard"] != first, seconds=30)


def test_a_second_stack_in_the_same_folder_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    with Supervisor([], tmp_path, output=io.StringIO()):
        with pytest.raises(record.FolderInUse, match=rf"is in use by manage.py up \(process {os.getpid()}\)"):
            Supervisor([], tmp_path, output=io.StringIO()).start()
        assert read(tmp_path)["pid"] == os.getpid()


def test_the_folder_is_free_again_after_a_stop(tmp_path: Path) -> None:
    for _ in range(2):
        with Supervisor([], tmp_path, output=io.StringIO()):
            assert record.is_locked(tmp_path)
        assert record.read(tmp_path) is None


def test_a_killed_process_is_started_again_and_the_record_follows(tmp_path: Path) -> None:
    with Supervisor(
        [python("sleeper", SLEEPER)], tmp_path, output=io.StringIO(), facts={"url": "http://x"}
    ) as supervisor:
        first = read(tmp_path)["processes"]["sleeper"]
        assert first == supervisor.pid("sleeper")

        os.kill(first, signal.SIGKILL)

        assert wait_for(lambda: supervisor.pid("sleeper") not in {None, first}, seconds=30)
        assert wait_for(lambda: read(tmp_path)["processes"].get("sleeper") == supervisor.pid("sleeper"), seconds=30)
        assert read(tmp_path)["url"] == "http://x"


def test_a_killed_process_takes_its_group_along(tmp_path: Path) -> None:
    child = ["-c", SLEEPER, str(tmp_path)]
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, *{child}]); {SLEEPER}"
    with Supervisor([python("parent", code)], tmp_path, output=io.StringIO()) as supervisor:
        assert wait_for(lambda: len(running_with(tmp_path)) == 1, seconds=30)
        (child,) = running_with(tmp_path)
        os.kill(supervisor.pid("parent") or 0, signal.SIGKILL)
        assert wait_for(lambda: child not in running_with(tmp_path), seconds=30)


def test_five_quick_failures_end_everything_and_name_the_culprit(tmp_path: Path) -> None:
    output = io.StringIO()
    specs = [python("sleeper", SLEEPER), python("broken", "print('no way'); raise SystemExit(3)")]
    with pytest.raises(StackError, match=r"broken ended 5 times.*the last time it ended with exit code 3"):
        Supervisor(specs, tmp_path, output=output).run()
    assert output.getvalue().count("broken       | no way") == 5
    assert not record.is_locked(tmp_path)


def test_a_process_that_runs_once_must_succeed(tmp_path: Path) -> None:
    specs = [python("prepare", "raise SystemExit(2)", once=True), python("never", SLEEPER)]
    with pytest.raises(StackError, match="prepare failed: it ended with exit code 2"):
        Supervisor(specs, tmp_path, output=io.StringIO()).run()


def test_the_next_process_waits_until_the_one_before_is_ready(tmp_path: Path) -> None:
    slow = f"import pathlib, time; time.sleep(0.3); pathlib.Path({str(tmp_path / 'ready')!r}).touch(); time.sleep(600)"
    seen = f"import pathlib; print('ready was', pathlib.Path({str(tmp_path / 'ready')!r}).exists())"
    specs = [
        python("slow", slow, ready=lambda _pid: (tmp_path / "ready").exists()),
        python("next", seen, once=True),
    ]
    output = io.StringIO()
    with Supervisor(specs, tmp_path, output=output):
        assert wait_for(lambda: "next         | ready was True" in output.getvalue(), seconds=30)


def test_a_process_that_never_becomes_ready_fails_the_start(tmp_path: Path) -> None:
    spec = python("deaf", SLEEPER, ready=lambda _pid: False, ready_seconds=0.2)
    with pytest.raises(StackError, match="deaf was not ready after 0 seconds"):
        Supervisor([spec], tmp_path, output=io.StringIO()).run()


def test_processes_stop_rank_by_rank(tmp_path: Path) -> None:
    def spec(name: str, rank: int) -> ProcessSpec:
        code = (
            "import signal, sys, threading; gone = threading.Event(); "
            f"signal.signal(signal.SIGTERM, lambda *_: gone.set()); print('ready', flush=True); gone.wait(); "
            f"open({str(tmp_path / 'order')!r}, 'a').write('{name} ')"
        )
        return python(name, code, stop_rank=rank)

    output = io.StringIO()
    with Supervisor([spec("database", 90), spec("beat", 10), spec("web", 30)], tmp_path, output=output):
        assert wait_for(lambda: output.getvalue().count("ready") == 3, seconds=30)
    assert (tmp_path / "order").read_text() == "beat web database "


def test_a_process_can_be_added_while_others_run(tmp_path: Path) -> None:
    with Supervisor([python("first", SLEEPER)], tmp_path, output=io.StringIO()) as supervisor:
        supervisor.add(python("second", SLEEPER))
        assert set(read(tmp_path)["processes"]) == {"first", "second"}
        with pytest.raises(StackError, match="a process named second already"):
            supervisor.add(python("second", SLEEPER))


def test_waiting_ends_when_the_condition_holds(tmp_path: Path) -> None:
    with Supervisor([python("sleeper", SLEEPER)], tmp_path, output=io.StringIO()) as supervisor:
        assert supervisor.wait(lambda: True, seconds=5)
        assert not supervisor.wait(lambda: False, seconds=0.1)


def test_lines_of_a_child_carry_its_name_and_long_ones_are_cut(tmp_path: Path) -> None:
    output = io.StringIO()
    with Supervisor([python("talker", "print('x' * 20000)", once=True)], tmp_path, output=output):
        assert wait_for(lambda: output.getvalue().count("\n") == 2, seconds=30)
    lines = output.getvalue().splitlines()
    assert all(line.startswith("talker       | xxx") for line in lines)
    assert sum(line.count("x") for line in lines) == 20_000


def read(state: Path) -> dict[str, Any]:
    """The record, which must be there."""
    content = record.read(state)
    assert content is not None
    return content


def running_with(state: Path) -> list[int]:
    """Processes that have the folder as a word of their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(state) in words:
                found.append(int(entry.name))
    return found
