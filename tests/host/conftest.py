"""A daemon per test module (`host`), or one of a test's own (`new_host`); nothing of either may be left behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.fake import CODE, FakeControlPlane
from workers.host import processes, sandbox
from workers.host.orders import Order

ROOT = Path(__file__).parents[2]
NUMBERS = itertools.count(1)


def until(condition: Callable[[], Any], what: str, seconds: float = 15.0) -> Any:
    """Wait until a condition holds and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        os.sched_yield()
        time.sleep(0.005)
    return value


class Host:
    """A running `laissez-host` with its control plane."""

    def __init__(self, plane: FakeControlPlane, state_dir: Path, *options: str) -> None:
        self.plane, self.state_dir, self.options = plane, state_dir, options
        self.marks: set[str] = set()
        self.start()

    def start(self, *more: str) -> None:
        """Start the daemon, again or for the first time."""
        command = [sys.executable, "-m", "workers.host", "--server", self.plane.url, "--code", CODE]
        command += ["--state-dir", str(self.state_dir), *self.options, *more]
        with (self.state_dir.parent / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def log(self) -> str:
        """What the daemon printed."""
        return (self.state_dir.parent / "daemon.log").read_text()

    def folder(self, lease: str) -> Path:
        """A lease's directory on the host."""
        return self.state_dir / "leases" / lease

    def order(self, lease: str) -> Order:
        """What the lease's shim was told."""
        order = until(lambda: self._order(lease), f"the order of {lease}")
        self.marks.add(order.mark)
        return order

    def _order(self, lease: str) -> Order | None:
        try:
            return Order.read(self.folder(lease))
        except (OSError, ValueError):
            return None

    def run(self, script: str, *, index: int = 0, **fields: Any) -> str:
        """Have a Python script run under a new lease and return the lease's name."""
        lease = f"lea_{next(NUMBERS)}"
        files = {"main.py": script, **fields.pop("files", {})}
        spec = {"command": ["python", "main.py"], "environment": {}, "rows": [], **fields.pop("spec", {})}
        artifact = fields.pop("artifact", None) or self.plane.add_artifact(files)
        types = ("nvidia-a10", "nvidia-l4")
        entry = {"fence": 1, "index": index, "accelerator_type": types[index], "artifact": artifact, "spec": spec}
        self.plane.want(lease, **{**entry, **fields})
        return lease

    def end(self, lease: str) -> dict[str, Any]:
        """Wait until a lease has ended, close it, and return its exit report."""
        self.plane.wait_state(lease, "ended")
        report = self.plane.wait_report(lease, "exit")
        self.plane.drop(lease)
        return report

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """End the daemon."""
        self.process.send_signal(signum)
        self.process.wait(15)

    def close(self) -> None:
        """End everything, and see that nothing is left."""
        for folder in (self.state_dir / "leases").glob("*"):
            try:
                self.marks.add(Order.read(folder).mark)
            except (OSError, ValueError):
                continue
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)
        for mark in self.marks:
            left = processes.marked(mark)
            for pid in left:
                processes.kill(pid)
            assert not left, f"left behind: {left}"


def _plane(folder: Path) -> FakeControlPlane:
    folder.mkdir(parents=True, exist_ok=True)
    return FakeControlPlane(folder / "store")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[FakeControlPlane]:
    """A control plane without hosts."""
    plane = _plane(tmp_path / "plane")
    yield plane
    plane.close()


@pytest.fixture
def new_host(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Starts hosts of a test's own."""
    hosts: list[Host] = []

    def make(*options: str) -> Host:
        folder = tmp_path / f"host{len(hosts)}"
        folder.mkdir()
        hosts.append(Host(plane, folder / "state", "--emulate", "nvidia-a10=1,nvidia-l4=1", *options))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for the tests of a module, each with leases of its own."""
    folder = tmp_path_factory.mktemp("host")
    plane = _plane(folder / "plane")
    host = Host(plane, folder / "state", "--emulate", "nvidia-a10=1,nvidia-l4=1", "--emulated-speedup", "3600")
    yield host
    host.close()
    plane.close()


@pytest.fixture(scope="session")
def sandboxed() -> None:
    """Skips, loudly, where no sandbox works."""
    try:
        sandbox.probe()
    except sandbox.SandboxUnavailable as error:
        pytest.skip(f"NO SANDBOX ON THIS MACHINE: {error}")


@pytest.fixture(autouse=True)
def plain_answers(request: pytest.FixtureRequest) -> None:
    """Every test starts with a control plane that accepts checkpoints and lets jobs continue."""
    if "host" in request.fixturenames:
        plane = request.getfixturevalue("host").plane
        for lease in list(plane.desired):
            plane.drop(lease)
        plane.answer_checkpoint = lambda report: {"accepted": True, "then": "continue"}
        plane.on_report = lambda report: None
