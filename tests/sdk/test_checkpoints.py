"""Checkpoints on a laptop and on the wire: atomic, hashed, resumable, and the same script as under a lease."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from laissez.sdk import callbacks, checkpoint, progress, resume
from laissez.sdk.callbacks import HostGone, HostSocket, Lease
from laissez.sdk.checkpoints import KEPT, MANIFEST, SAVED_AND_STOPPED, DamagedCheckpoint, verify


@pytest.fixture(autouse=True)
def laptop(tmp_path, monkeypatch):
    """No lease, an empty folder to work in, and no memory of other tests."""
    for name in [name for name in os.environ if name.startswith("LAISSEZ_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    callbacks.session.cache_clear()
    yield
    callbacks.session.cache_clear()


def save_number(number: int):
    return lambda folder: (folder / "number").write_text(str(number))


def test_there_is_nothing_to_resume_from_at_first():
    assert resume() is None


def test_what_was_saved_is_resumed_from():
    progress(0.25, step=5, loss=1.5)
    assert checkpoint(save_number(5))
    callbacks.session.cache_clear()
    path = resume()
    assert path is not None
    assert (path / "number").read_text() == "5"
    assert (callbacks.session().fraction, callbacks.session().step) == (0.25, 5)


def test_a_checkpoint_that_is_not_due_is_not_made():
    assert not checkpoint(save_number(1), due=False)
    assert not Path("checkpoints").exists()


def test_only_the_newest_checkpoints_are_kept_and_numbers_go_on():
    for number in range(5):
        checkpoint(save_number(number))
    names = sorted(path.name for path in Path("checkpoints").iterdir())
    assert names == ["checkpoint-000004", "checkpoint-000005"]
    assert len(names) == KEPT


def test_a_save_that_fails_leaves_nothing_and_the_last_checkpoint_counts():
    checkpoint(save_number(1))

    def fails(folder: Path) -> None:
        (folder / "half").write_text("...")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoint(fails)
    assert [path.name for path in Path("checkpoints").iterdir()] == ["checkpoint-000001"]
    assert resume() == Path("checkpoints/checkpoint-000001")


@pytest.mark.parametrize("damage", ["changed", "missing", "extra", "no manifest", "rubbish manifest"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(damage):
    checkpoint(save_number(1))
    checkpoint(save_number(2))
    newest = Path("checkpoints/checkpoint-000002")
    match damage:
        case "changed":
            (newest / "number").write_text("3")
        case "missing":
            (newest / "number").unlink()
        case "extra":
            (newest / "more").write_text("")
        case "no manifest":
            (newest / MANIFEST).unlink()
        case "rubbish manifest":
            (newest / MANIFEST).write_text("[]")
    with pytest.raises(DamagedCheckpoint):
        verify(newest)
    assert resume() == Path("checkpoints/checkpoint-000001")


def test_a_checkpoint_holds_files_and_directories_only():
    with pytest.raises(DamagedCheckpoint, match="neither a file nor a directory"):
        checkpoint(lambda folder: (folder / "link").symlink_to("/etc/passwd"))


def test_the_manifest_names_every_file_with_its_hash():
    def deep(folder: Path) -> None:
        (folder / "layers").mkdir()
        (folder / "layers" / "0").write_bytes(b"weights")

    progress(0.5, step=7)
    checkpoint(deep)
    manifest = json.loads(Path(f"checkpoints/checkpoint-000001/{MANIFEST}").read_text())
    assert (manifest["progress"], manifest["step"]) == (0.5, 7)
    assert manifest["files"]["layers/0"]["size_bytes"] == 7


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), float("inf")])
def test_progress_is_a_fraction(fraction):
    with pytest.raises(ValueError, match="fraction from 0 to 1"):
        progress(fraction)


def test_importing_the_sdk_in_a_workload_loads_no_client_libraries():
    script = (
        "import sys, laissez.sdk\n"
        "print([m for m in ('httpx', 'yaml', 'click', 'fsspec', 'asyncio', 'django') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


class FakeHost:
    """Answers one connection with prepared lines, and notes what was asked."""

    def __init__(self, folder: Path, answers: list[list[dict]], stays: bool) -> None:
        self.asked: list[dict] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "socket"))
        self._listener.listen()
        self._answers, self._stays = answers, stays
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as lines:
            for answer in self._answers:
                self.asked.append(json.loads(lines.readline()))
                connection.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in answer))
            if self._stays:
                lines.read()

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def lease(tmp_path, monkeypatch):
    """Environment of a lease, and a way to prepare its host's answers."""
    places = {"LAISSEZ_SOCKET": tmp_path / "socket", "LAISSEZ_CHECKPOINT_DIR": tmp_path / "saved"}
    names = {"LAISSEZ_JOB": "job_1", "LAISSEZ_ACCELERATOR": "x", "LAISSEZ_LEASE": "lea_1", "LAISSEZ_FENCE": "7"}
    for name, value in {**places, **names}.items():
        monkeypatch.setenv(name, str(value))
    callbacks.session.cache_clear()
    hosts: list[FakeHost] = []

    def answering(*answers: list[dict], stays: bool = True) -> FakeHost:
        hosts.append(FakeHost(tmp_path, list(answers), stays))
        return hosts[0]

    yield answering
    host = callbacks.session()._host
    if host is not None:
        host._socket.close()
    for fake in hosts:
        fake.close()


def test_under_a_lease_a_checkpoint_is_committed_through_the_host(lease, tmp_path):
    host = lease([{"save": False}], [{"accepted": True, "then": "continue", "save": False}])
    progress(0.5, step=3, loss=float("nan"))
    assert checkpoint(save_number(3))
    assert host.asked[0] == {"op": "progress", "progress": 0.5, "step": 3, "loss": None}
    assert host.asked[1]["op"] == "checkpoint"
    assert (host.asked[1]["progress"], host.asked[1]["step"]) == (0.5, 3)
    verify(tmp_path / "saved" / host.asked[1]["name"])


def test_a_checkpoint_that_is_answered_with_stop_ends_the_process(lease):
    lease([{"accepted": True, "then": "stop"}])
    with pytest.raises(SystemExit) as end:
        checkpoint(save_number(3))
    assert end.value.code == SAVED_AND_STOPPED


def test_a_checkpoint_that_was_not_accepted_is_told(lease):
    lease([{"accepted": False, "then": "continue"}])
    assert not checkpoint(save_number(3))


def test_the_host_asks_for_a_checkpoint_in_an_answer_or_unasked(lease):
    host = lease(
        [{"save": False}, {"push": "save", "save": True}],
        [{"accepted": True, "then": "continue", "save": False}],
        [{"save": False}],
    )
    progress(0.1)
    assert checkpoint(save_number(1), due=False) or checkpoint(save_number(1), due=False)
    progress(0.2)
    assert not checkpoint(save_number(2), due=False)
    assert [message["op"] for message in host.asked] == ["progress", "checkpoint", "progress"]


def test_resuming_under_a_lease_checks_the_files(lease, tmp_path, monkeypatch):
    folder = tmp_path / "resume"
    folder.mkdir()
    (folder / "number").write_text("5")
    lease([{"path": str(folder)}], [{"path": str(folder)}], [{"path": None}])
    assert resume() == folder  # without a manifest it was saved by a callback
    (folder / MANIFEST).write_text(json.dumps({"files": {}}))
    with pytest.raises(DamagedCheckpoint):
        resume()
    assert resume() is None


def test_an_error_of_the_host_is_an_error_here_and_a_closed_socket_is_the_end(lease):
    lease([{"error": "no"}], stays=False)
    with pytest.raises(ValueError, match="no"):
        progress(0.1)
    with pytest.raises(HostGone):
        progress(0.2)


def test_a_socket_may_have_a_path_longer_than_the_kernel_takes(tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    here = os.open(deep, os.O_PATH)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{here}/socket")
    listener.listen()
    HostSocket(deep / "socket")._socket.close()
    listener.close()
    os.close(here)
    with pytest.raises(HostGone, match="cannot reach the host"):
        HostSocket(deep / "socket")


def test_outside_a_lease_there_is_none():
    assert Lease.from_environment({}) is None
    assert callbacks.session().lease is None
