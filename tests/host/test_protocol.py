"""Messages of the control plane: read strictly, and one that is wrong does not spoil the others."""

from __future__ import annotations

import pytest

from workers.host.client import ControlPlane
from workers.host.protocol import BadMessage, DesiredLease, JobSpec, SyncAnswer
from workers.host.transfers import TransferFailed, fetch, local_path, upload

LEASE = {
    "lease": "lea_1",
    "job": "job_1",
    "fence": 7,
    "index": 0,
    "accelerator_type": "nvidia-a10",
    "desired": "run",
    "grace_seconds": 5,
    "deadline_seconds": None,
    "ask": 0,
    "cause": "heartbeat",
    "resume": {"state": "none"},
    "spec": {"command": ["python", "main.py"]},
    "artifact": {"url": "/a", "sha256": "0" * 64, "size_bytes": 1},
    "expected_hours": "0.23",
}


def test_a_lease_is_read_whole():
    lease = DesiredLease.of(LEASE)
    assert (lease.lease, lease.fence, lease.expected_hours) == ("lea_1", 7, "0.23")
    assert lease.artifact is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease": "../../etc"},
        {"lease": ""},
        {"fence": "x"},
        {"desired": "dance"},
        {"resume": {"state": "ready"}},
        {"artifact": {"url": "/a", "sha256": "../x", "size_bytes": 1}},
    ],
)
def test_a_lease_that_cannot_be_read_is_listed_and_the_others_are_served(wrong):
    answer = SyncAnswer.of({"lease_ttl_seconds": 15, "leases": [{**LEASE, **wrong}, LEASE]})
    assert [lease.lease for lease in answer.leases] == ["lea_1"]
    assert len(answer.unreadable) == 1


def test_the_row_of_the_type_may_bring_its_own_command():
    spec = {"command": ["a"], "rows": [{"accelerator_type": "x", "command": ["b"]}, {"accelerator_type": "y"}]}
    assert JobSpec.of(spec, "x").command == ("b",)
    assert JobSpec.of(spec, "y").command == ("a",)
    with pytest.raises(BadMessage, match="command must be a list of words"):
        JobSpec.of({"command": "python main.py"}, "x")


def test_the_doorbell_hangs_beside_the_api():
    assert ControlPlane("https://market.example:8443").doorbell == "wss://market.example:8443/ws/host"
    assert ControlPlane("http://127.0.0.1:8000/").doorbell == "ws://127.0.0.1:8000/ws/host"


def test_a_local_store_sees_a_checkpoint_whole_or_not_at_all(tmp_path):
    source, store = tmp_path / "source", tmp_path / "a store"
    source.mkdir()
    (source / "state").write_text("1")
    stored = upload(source, f"{store.as_uri()}/job_1/lea_1-1.tar")
    assert [path.name for path in (store / "job_1").iterdir()] == ["lea_1-1.tar"]
    fetch(stored.uri, stored.sha256, tmp_path / "back.tar")
    assert (tmp_path / "back.tar").stat().st_size == stored.size_bytes
    with pytest.raises(TransferFailed, match="its hash differs"):
        fetch(stored.uri, "0" * 64, tmp_path / "back.tar")
    (source / "link").symlink_to("/etc/passwd")
    with pytest.raises(TransferFailed, match="cannot be packed"):
        upload(source, f"{store.as_uri()}/job_1/lea_1-2.tar")
    assert [path.name for path in (store / "job_1").iterdir()] == ["lea_1-1.tar"]


def test_any_store_that_fsspec_knows_will_do(tmp_path):
    (tmp_path / "state").write_text("1")
    stored = upload(tmp_path, "memory://store/job_1/lea_1-1.tar")
    fetch(stored.uri, stored.sha256, tmp_path / "back.tar")
    assert local_path("memory://store/x") is None
