"""A lease's life on one host: enrol, load data, run, checkpoint, stop, resume."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.conftest import Host

pytestmark = pytest.mark.usefixtures("sandboxed")

TWENTY_LINES = """
import json, random
from laissez.sdk import checkpoint, progress, resume

STEPS = 20
state = {"step": 0, "weight": 0.0, "random": random.Random(7).getstate()}
if (start := resume()) is not None:
    state = json.loads((start / "state.json").read_text())
    state["random"] = (state["random"][0], tuple(state["random"][1]), state["random"][2])
chance = random.Random()
chance.setstate(state["random"])

def save(folder):
    (folder / "state.json").write_text(json.dumps({**state, "random": chance.getstate()}))

while state["step"] < STEPS:
    state["weight"] += chance.random() - 0.5
    state["step"] += 1
    progress(state["step"] / STEPS, step=state["step"], loss=1 / state["step"])
    checkpoint(save, due=state["step"] % 5 == 0)
print("final", state["weight"].hex())
"""


def test_a_script_of_twenty_lines_runs_to_success(host: Host) -> None:
    lease = host.run(TWENTY_LINES)
    report = host.end(lease)
    assert report["reason"] == "completed", host.plane.text(lease)
    assert host.plane.text(lease, "stdout").startswith("final ")
    assert len(host.plane.said(lease, "first_step")) == 1
    assert [r["progress"] for r in host.plane.said(lease, "checkpoint")] == [0.25, 0.5, 0.75, 1.0]
    assert host.plane.states[lease][0] == "ready"
    assert host.plane.enrolments[0]["isolation"] == "bubblewrap"


def test_a_lease_that_stops_and_resumes_elsewhere_ends_with_the_same_bits(host: Host) -> None:
    plane = host.plane
    whole = host.run(TWENTY_LINES)
    host.end(whole)
    plane.answer_checkpoint = lambda report: {"accepted": True, "then": "stop" if report["step"] == 10 else "continue"}
    source = host.run(TWENTY_LINES)
    report = host.end(source)
    assert (report["reason"], report["exit_code"]) == ("stopped", 75)
    saved = plane.said(source, "checkpoint")[-1]
    assert saved["step"] == 10
    ready = {
        "state": "ready",
        "checkpoint": "ckp_1",
        **{name: saved[name] for name in ("uri", "sha256", "progress", "step")},
    }
    destination = host.run(TWENTY_LINES, index=1, resume=ready)
    assert host.end(destination)["reason"] == "completed"
    assert [r["step"] for r in plane.said(destination, "checkpoint")] == [15, 20]
    assert plane.text(destination, "stdout") == plane.text(whole, "stdout")


def test_a_stand_by_process_waits_in_resume_and_steps_once_it_is_answered(host: Host) -> None:
    plane = host.plane
    plane.answer_checkpoint = lambda report: {"accepted": True, "then": "stop" if report["step"] == 10 else "continue"}
    destination = host.run(TWENTY_LINES, index=1, resume={"state": "wait"}, spec={"standby": True})
    plane.wait_state(destination, "standby")
    source = host.run(TWENTY_LINES, index=0)
    plane.wait_state(source, "ended")
    saved = plane.said(source, "checkpoint")[-1]
    assert plane.said(destination, "first_step") == []
    plane.want(destination, resume={"state": "ready", **{n: saved[n] for n in ("uri", "sha256", "progress", "step")}})
    plane.wait_report(destination, "first_step")
    assert host.end(destination)["reason"] == "completed"
    plane.drop(source)


def test_without_stand_by_nothing_of_the_job_runs_before_its_predecessor_has_saved(host: Host) -> None:
    plane = host.plane
    lease = host.run("print('started')", resume={"state": "wait"})
    plane.wait_state(lease, "ready")
    syncs = plane.syncs
    plane.wait(lambda: plane.syncs > syncs + 2)
    assert plane.states[lease] == ["ready"]
    plane.want(lease, resume={"state": "none"})
    assert host.end(lease)["reason"] == "completed"


def test_data_load_runs_before_the_workload_and_its_failure_is_shown(host: Host) -> None:
    load = {"command": ["python", "-c", "print('loading'); raise SystemExit('no such bucket')"], "timeout_seconds": 20}
    lease = host.run("print('never')", spec={"data_load": load})
    report = host.end(lease)
    assert report["reason"] == "data_load_failed"
    assert report["exit_code"] == 1
    assert "no such bucket" in report["detail"]
    assert sorted(host.plane.text(lease, "data_load").splitlines()) == ["loading", "no such bucket"]
    assert host.plane.text(lease, "stdout") == ""


def test_data_load_brings_files_to_the_workload(host: Host) -> None:
    load = {"command": ["sh", "-c", "echo 42 > data.txt"], "timeout_seconds": 20}
    lease = host.run("print(open('data.txt').read())", spec={"data_load": load})
    assert host.end(lease)["reason"] == "completed"
    assert host.plane.text(lease, "stdout") == "42\n\n"


def test_data_load_that_never_ends_is_ended_at_its_limit(host: Host) -> None:
    lease = host.run("", spec={"data_load": {"command": ["sleep", "1000"], "timeout_seconds": 0.3}})
    report = host.end(lease)
    assert report["reason"] == "data_load_failed"
    assert "did not end within 0.3 s" in report["detail"]


WITHOUT_SDK = """
import os, pathlib, signal, time
resume = os.environ.get("LAISSEZ_RESUME_FROM")
print("from", pathlib.Path(resume, "count").read_text() if resume else "start", flush=True)
pathlib.Path("count").write_text("7")
signal.pause()
"""


def test_save_and_restore_callbacks_move_a_program_that_knows_nothing_of_the_sdk(host: Host) -> None:
    plane = host.plane
    plane.answer_checkpoint = lambda report: {"accepted": True, "then": "stop"}
    spec = {
        "save": {"command": ["sh", "-c", "cp count $LAISSEZ_CHECKPOINT_DIR/saved"], "timeout_seconds": 20},
        "restore": {"command": ["sh", "-c", "cd $LAISSEZ_RESUME_FROM && mv saved count"], "timeout_seconds": 20},
    }
    source = host.run(WITHOUT_SDK, spec=spec)
    plane.wait(lambda: "from start" in plane.text(source), "the program to start")
    plane.want(source, desired="save", grace_seconds=20)
    assert host.end(source)["reason"] == "stopped"
    saved = plane.wait_report(source, "checkpoint")
    assert saved["requested"]
    ready = {"state": "ready", **{name: saved[name] for name in ("uri", "sha256", "progress", "step")}}
    destination = host.run(WITHOUT_SDK, spec=spec, resume=ready)
    plane.wait(lambda: "from 7" in plane.text(destination), "the program to go on")
    plane.want(destination, desired="stop", grace_seconds=5)
    assert host.end(destination)["reason"] == "stopped"


SAVES_WHEN_ASKED = """
from itertools import count
from laissez.sdk import checkpoint, progress
for step in count(1):
    progress(min(1, step / 1000000), step=step)
    checkpoint(lambda folder: (folder / "step").write_text(str(step)), due=False)
"""


def test_a_checkpoint_is_made_when_the_host_asks_for_it(host: Host) -> None:
    plane = host.plane
    plane.answer_checkpoint = lambda report: {"accepted": True, "then": "stop" if report["requested"] else "continue"}
    lease = host.run(SAVES_WHEN_ASKED)
    plane.wait_state(lease, "running")
    plane.wait_report(lease, "first_step")
    plane.want(lease, desired="save", grace_seconds=20)
    assert host.end(lease)["reason"] == "stopped"
    assert len(plane.said(lease, "checkpoint")) == 1


def test_a_checkpoint_can_be_asked_for_without_leaving(host: Host) -> None:
    plane = host.plane

    def answer(report: dict[str, Any]) -> dict[str, Any]:
        plane.desired[lease]["checkpoint"] = False
        return {"accepted": True, "then": "continue"}

    plane.answer_checkpoint = answer
    lease = host.run(SAVES_WHEN_ASKED)
    plane.wait_report(lease, "first_step")
    for number in (1, 2):
        plane.want(lease, checkpoint=True)
        plane.wait(lambda: len(plane.said(lease, "checkpoint")) >= number, "a checkpoint")  # noqa: B023
        reached = plane.said(lease, "checkpoint")[-1]["step"]
        plane.wait(lambda: plane.said(lease, "progress")[-1]["step"] > reached, "the job to go on")  # noqa: B023
    assert [report["requested"] for report in plane.said(lease, "checkpoint")] == [True, True]


def test_a_wish_to_save_that_is_taken_back_lets_the_job_run_on(host: Host) -> None:
    plane = host.plane
    lease = host.run("import signal; print('up', flush=True); signal.pause()")
    plane.wait(lambda: "up" in plane.text(lease), "the program to start")
    plane.want(lease, desired="save", grace_seconds=20)
    plane.wait_state(lease, "saving")
    plane.want(lease, desired="run")
    plane.wait(lambda: plane.states[lease][-2:] == ["saving", "running"], "the job to run on")
    plane.want(lease, desired="stop", grace_seconds=1)
    assert host.end(lease)["reason"] == "stopped"


def test_a_program_that_ignores_term_is_killed_after_its_grace(host: Host) -> None:
    script = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
    lease = host.run(script)
    host.plane.wait(lambda: "up" in host.plane.text(lease), "the program to start")
    host.plane.want(lease, desired="stop", grace_seconds=0.2)
    assert host.end(lease)["reason"] == "killed"


def test_a_failing_script_shows_its_exit_status_and_its_traceback(host: Host) -> None:
    lease = host.run("raise ValueError('shapes differ')")
    report = host.end(lease)
    assert (report["reason"], report["exit_code"]) == ("failed", 1)
    assert "ValueError: shapes differ" in host.plane.text(lease, "stderr")


def test_a_row_of_the_launch_table_may_bring_its_own_command(host: Host) -> None:
    rows = [{"accelerator_type": "nvidia-l4", "command": ["echo", "for the L4"]}]
    lease = host.run("print('for all')", index=1, spec={"rows": rows})
    host.end(lease)
    assert host.plane.text(lease, "stdout") == "for the L4\n"


def test_a_command_that_does_not_exist_fails_with_its_name(host: Host) -> None:
    lease = host.run("", spec={"command": ["trian.py"]})
    assert host.end(lease)["exit_code"] == 127
    assert "there is no 'trian.py' to run" in host.plane.text(lease, "stderr")


def test_an_artifact_that_is_not_what_its_hash_says_never_runs(host: Host) -> None:
    artifact = host.plane.add_artifact({"main.py": "print('right')"})
    host.plane.artifacts[artifact["sha256"]] = b"something else"
    lease = host.run("", artifact=artifact)
    report = host.end(lease)
    assert (report["reason"], report["detail"]) == ("failed", "the artifact is not what its sha256 says")


def test_a_checkpoint_that_was_changed_in_the_store_is_not_resumed_from(host: Host) -> None:
    store = host.plane.store
    store.mkdir(exist_ok=True)
    (store / "bad.tar").write_bytes(b"rubbish")
    resume = {"state": "ready", "uri": f"{store.as_uri()}/bad.tar", "sha256": "0" * 64, "progress": 0.5, "step": 5}
    lease = host.run("print('never')", resume=resume)
    report = host.end(lease)
    assert report["reason"] == "failed"
    assert "its hash differs" in report["detail"]


def test_a_lease_for_a_device_that_is_not_there_is_refused(host: Host) -> None:
    lease = host.run("", accelerator_type="nvidia-h100")
    assert host.end(lease)["detail"] == "accelerator 0 is no nvidia-h100"


def test_a_second_lease_waits_until_the_device_is_free(host: Host) -> None:
    plane = host.plane
    first = host.run("import signal; signal.pause()")
    plane.wait_state(first, "running")
    second = host.run("print('mine now')")
    syncs = plane.syncs
    plane.wait(lambda: plane.syncs > syncs + 2)
    assert second not in plane.states
    plane.drop(first)
    plane.wait_state(first, "ended")
    assert host.end(second)["reason"] == "completed"


def test_a_lease_that_is_no_longer_listed_is_ended(host: Host) -> None:
    lease = host.run("import signal; signal.pause()")
    host.plane.wait_state(lease, "running")
    host.plane.drop(lease)
    host.plane.wait_state(lease, "ended")
    assert host.plane.wait_report(lease, "exit")["reason"] == "stopped"


def test_a_lease_whose_fence_is_refused_as_stale_is_ended(host: Host) -> None:
    plane = host.plane
    lease = host.run("import signal; print('up', flush=True); signal.pause()")
    plane.wait_state(lease, "running")
    plane.want(lease, fence=2)
    plane.wait_state(lease, "ended")
    plane.wait(lambda: plane.refusals, "a refused report")
    plane.drop(lease)


def test_the_job_knows_its_lease(host: Host) -> None:
    script = "import os\nfor n in sorted(os.environ):\n    if n.startswith('LAISSEZ_'): print(n, os.environ[n])"
    lease = host.run(script, spec={"environment": {"LAISSEZ_FENCE": "99", "MINE": "yes"}})
    host.end(lease)
    text = host.plane.text(lease, "stdout")
    assert f"LAISSEZ_LEASE {lease}\n" in text
    assert "LAISSEZ_ACCELERATOR nvidia-a10\n" in text
    assert "LAISSEZ_FENCE 1\n" in text
    assert f"LAISSEZ_JOB job_{lease}\n" in text
