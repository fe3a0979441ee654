"""kill -9 of daemons, shims and workloads at any instant: nothing is left behind, every end is told exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.host.conftest import Host, until
from tests.host.fake import FakeControlPlane
from tests.host.test_life import TWENTY_LINES
from workers.host import processes, shims

pytestmark = pytest.mark.usefixtures("sandboxed")
FOREVER = "import signal; print('up', flush=True); signal.pause()"


def running(host: Host, script: str = FOREVER, **fields: Any) -> str:
    """Start a lease and wait until its program has started."""
    lease = host.run(script, **fields)
    host.plane.wait(lambda: "up" in host.plane.text(lease), f"{lease} to start")
    host.order(lease)
    return lease


def shim_of(host: Host, lease: str) -> int:
    """The lease's shim."""
    pid = shims.proved_pid(host.folder(lease))
    assert pid is not None
    return pid


def gone(host: Host, lease: str, seconds: float = 15.0) -> None:
    """Wait until nothing of the lease lives."""
    until(lambda: not processes.marked(host.order(lease).mark), f"{lease} to be gone", seconds)


def test_a_daemon_that_was_killed_adopts_its_lease_and_ends_it_once(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host, "from laissez.sdk import progress\n" + FOREVER.replace("; s", "; progress(0.5); s"))
    shim = shim_of(host, lease)
    host.kill()
    host.start()
    syncs = host.plane.syncs
    host.plane.wait(lambda: host.plane.syncs > syncs + 1, "the new daemon")
    assert shim_of(host, lease) == shim
    assert host.plane.states[lease] == ["ready", "running"]
    assert len(host.plane.enrolments) == 1
    host.plane.want(lease, desired="stop", grace_seconds=5)
    assert host.end(lease)["reason"] == "stopped"
    assert len(host.plane.said(lease, "exit")) == 1


def test_when_a_shim_is_killed_its_workload_dies_with_it_and_the_lease_is_lost_once(
    new_host: Callable[..., Host],
) -> None:
    host = new_host()
    lease = running(host)
    os.kill(shim_of(host, lease), signal.SIGKILL)
    gone(host, lease)
    assert host.end(lease)["reason"] == "host_lost"
    assert len(host.plane.said(lease, "exit")) == 1
    assert host.end(host.run("print('the device is free')"))["reason"] == "completed"


def test_a_workload_that_is_killed_is_told_as_killed(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host)
    tenants = [pid for pid in processes.descendants(shim_of(host, lease)) if processes.children(pid) == []]
    os.kill(tenants[0], signal.SIGKILL)
    report = host.end(lease)
    assert (report["reason"], report["signal"]) == ("killed", 9)


def test_without_its_daemon_a_lease_ends_at_its_own_deadline(
    new_host: Callable[..., Host], plane: FakeControlPlane
) -> None:
    plane.ttl_seconds = 2.0
    host = new_host()
    lease = running(host)
    host.kill()
    gone(host, lease, seconds=5)
    host.start()
    report = host.end(lease)
    assert report["reason"] == "killed"
    assert "no word from the control plane" in report["detail"]
    assert len(plane.said(lease, "exit")) == 1


@pytest.mark.slow
def test_a_shim_that_has_fallen_silent_is_ended_with_its_workload(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host)
    os.kill(shim_of(host, lease), signal.SIGSTOP)
    gone(host, lease)
    assert host.end(lease)["reason"] == "host_lost"


def test_daemon_and_shim_killed_together_leave_a_lease_that_is_lost_once(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host)
    shim = shim_of(host, lease)
    host.kill()
    os.kill(shim, signal.SIGKILL)
    gone(host, lease)
    host.start()
    assert host.end(lease)["reason"] == "host_lost"
    assert len(host.plane.said(lease, "exit")) == 1


def test_a_shim_that_does_not_know_the_secret_is_not_adopted_but_ended(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host)
    host.kill()
    path = host.folder(lease) / "lease.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "secret": "another"}))
    host.start()
    gone(host, lease)
    assert host.end(lease)["reason"] == "host_lost"


@pytest.mark.parametrize("seed", range(3))
def test_a_daemon_killed_again_and_again_loses_and_repeats_nothing(
    new_host: Callable[..., Host], plane: FakeControlPlane, seed: int
) -> None:
    chance = random.Random(seed)
    host = new_host("--emulated-speedup", "3600")
    plane.ttl_seconds = 120.0
    kills = sorted(chance.sample(range(3, 24), 3))
    sync = plane.sync

    def sync_and_kill(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Kill the daemon after its message has been taken in and before it hears the answer."""
        answer = sync(body)
        if kills and plane.syncs >= kills[0]:
            kills.pop(0)
            host.process.kill()
        return answer

    plane.sync = sync_and_kill  # type: ignore[method-assign]
    lease = host.run(TWENTY_LINES)

    def over() -> bool:
        if host.process.poll() is not None:
            host.start()
        return "ended" in plane.states.get(lease, [])

    until(over, "the lease to end", 60)
    host.order(lease)
    assert len(plane.said(lease, "exit")) == 1
    reason = plane.said(lease, "exit")[0]["reason"]
    assert reason in ("completed", "host_lost")
    steps = [report["step"] for report in plane.said(lease, "checkpoint")]
    assert steps == sorted(set(steps))
    offsets = [(report["offset"], len(report["text"])) for report in plane.said(lease, "log")]
    assert len(set(offsets)) == len(offsets)
    if reason == "completed":
        assert steps == [5, 10, 15, 20]


def test_hanging_up_leaves_the_lease_to_the_next_daemon(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host)
    shim = shim_of(host, lease)
    host.kill(signal.SIGHUP)
    host.start()
    syncs = host.plane.syncs
    host.plane.wait(lambda: host.plane.syncs > syncs + 1, "the new daemon")
    assert shim_of(host, lease) == shim


def test_terminating_the_daemon_ends_its_leases_and_says_so(new_host: Callable[..., Host]) -> None:
    host = new_host()
    lease = running(host)
    mark = host.order(lease).mark
    host.kill(signal.SIGTERM)
    assert processes.marked(mark) == []
    assert host.plane.states[lease][-1] == "ended"
    assert host.plane.wait_report(lease, "exit")["reason"] == "stopped"


def test_a_control_plane_that_is_away_for_a_moment_ends_nothing(
    new_host: Callable[..., Host], plane: FakeControlPlane
) -> None:
    host = new_host()
    lease = running(host)
    plane.away = True
    until(lambda: "out of reach" in host.log(), "the daemon to notice")
    plane.away = False
    syncs = plane.syncs
    plane.wait(lambda: plane.syncs > syncs + 1, "the daemon to come back")
    assert plane.states[lease] == ["ready", "running"]


def test_a_message_number_that_was_heard_before_is_leapt_over(
    new_host: Callable[..., Host], plane: FakeControlPlane
) -> None:
    host = new_host()
    plane.wait(lambda: plane.syncs, "the first sync")
    with plane.changed:
        plane.last_sequence += 1000
    syncs = plane.syncs
    plane.wait(lambda: plane.syncs > syncs + 2, "the daemon to go on")
    assert plane.last_sequence >> 32 == 2
    assert "heard a later message" in host.log()
