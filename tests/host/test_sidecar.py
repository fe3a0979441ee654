"""The economic agent beside a workload: whatever it does wrong means "stay" and is reported."""

from __future__ import annotations

from typing import Any

import pytest

from tests.host.conftest import Host

pytestmark = pytest.mark.usefixtures("sandboxed")
WAITING = "import signal; print('up', flush=True); signal.pause()"
CONTEXT = {
    "schema": 1,
    "job": "job_x",
    "state": "running",
    "now": "2026-01-01T00:00:00Z",
    "elapsed_seconds": 12,
    "progress": 0.36,
    "last_checkpoint": 0.25,
    "checkpoint_seconds": 0.1,
    "cause": "heartbeat",
    "rows": [
        {
            "accelerator_type": "nvidia-a10",
            "max_price_per_hour": "0.652000",
            "keep_price_per_hour": None,
            "expected_hours": "0.2300",
        }
    ],
    "stated": {"nvidia-a10": "2.000000"},
    "holds": "nvidia-a10",
    "destination": None,
    "award": None,
    "moving": False,
    "notice": None,
    "exchange": {
        "nvidia-a10": {
            "price_per_hour": "0.606000",
            "base_price_per_hour": "0.606000",
            "cap_price_per_hour": "2.000000",
            "units_free": 0,
            "units_total": 1,
            "scheduled_base_price_per_hour": None,
        }
    },
    "budget_left": None,
    "events": [],
    "stale": False,
}
HEAD = "import json, sys\nfor line in sys.stdin:\n    context = json.loads(line)\n"
REBID = """    print(json.dumps({"kind": "rebid", "bids": {"nvidia-a10": "0.700000"}, "moment": "checkpoint",
        "reason": "progress " + str(context["progress"])}), flush=True)
"""


def ask(host: Host, agent: str | None, questions: int = 1, **spec: Any) -> tuple[str, list[dict[str, Any]]]:
    """Run a waiting job with an agent, ask it, and return the lease with the decisions that came back."""
    plane = host.plane
    plane.context = CONTEXT
    description = {"command": ["python", "agent.py"], "timeout_seconds": 5, **spec}
    lease = host.run(WAITING, files={"agent.py": agent or ""}, spec={"agent": description})
    plane.wait(lambda: "up" in plane.text(lease), "the job to start")

    def decided() -> list[dict[str, Any]]:
        return [decision for decision in plane.decisions if decision["lease"] == lease]

    for number in range(1, questions + 1):
        plane.want(lease, ask=number)
        plane.wait(lambda: len(decided()) >= number, f"decision {number}")  # noqa: B023
    plane.drop(lease)
    plane.wait_state(lease, "ended")
    return lease, decided()


def test_an_agent_is_asked_with_the_context_and_its_decision_is_handed_in(host: Host) -> None:
    _, decisions = ask(host, HEAD + REBID, questions=2)
    assert [decision["ask"] for decision in decisions] == [1, 2]
    assert decisions[0]["decision"]["kind"] == "rebid"
    assert decisions[0]["decision"]["bids"] == {"nvidia-a10": "0.700000"}
    assert decisions[0]["decision"]["reason"] == "progress 0.36"
    assert decisions[0]["fence"] == 1


def test_a_named_policy_answers_inside_the_sandbox(host: Host) -> None:
    lease, decisions = ask(host, None, command=None, policy="hold", params={})
    assert [decision["decision"]["kind"] for decision in decisions] == ["stay"], host.plane.text(lease, "agent")
    assert host.plane.said(lease, "agent") == []


def test_an_agent_that_prints_rubbish_means_stay_and_is_reported(host: Host) -> None:
    lease, decisions = ask(host, HEAD + "    print('sell everything', flush=True)")
    assert decisions[0]["decision"]["kind"] == "stay"
    report = host.plane.wait_report(lease, "agent")
    assert report["outcome"] == "invalid"
    assert "sell everything" in report["detail"]


def test_an_agent_that_answers_with_an_unknown_kind_means_stay_and_is_reported(host: Host) -> None:
    lease, decisions = ask(host, HEAD + "    print(json.dumps({'kind': 'panic'}), flush=True)")
    assert decisions[0]["decision"]["kind"] == "stay"
    assert "panic" in host.plane.wait_report(lease, "agent")["detail"]


def test_an_agent_that_crashes_means_stay_and_the_next_question_starts_it_anew(host: Host) -> None:
    crash = (
        "    import os\n    if not os.path.exists('once'):\n        open('once', 'w'); raise RuntimeError('no idea')\n"
    )
    lease, decisions = ask(host, HEAD + crash + REBID, questions=2)
    assert [decision["decision"]["kind"] for decision in decisions] == ["stay", "rebid"]
    report = host.plane.wait_report(lease, "agent")
    assert report["outcome"] == "crashed"
    assert "no idea" in report["detail"]


def test_a_silent_agent_means_stay_after_its_time_limit_and_is_reported(host: Host) -> None:
    lease, decisions = ask(host, HEAD + "    pass", timeout_seconds=0.4)
    assert decisions[0]["decision"]["kind"] == "stay"
    report = host.plane.wait_report(lease, "agent")
    assert (report["outcome"], report["detail"]) == ("timeout", "the agent did not answer within 0.4 s")


def test_an_agent_that_answers_without_end_means_stay(host: Host) -> None:
    lease, decisions = ask(host, HEAD + "    print('x' * 200000, flush=True)")
    assert decisions[0]["decision"]["kind"] == "stay"
    assert host.plane.wait_report(lease, "agent")["outcome"] == "invalid"


def test_what_an_agent_prints_beside_its_answers_is_logged(host: Host) -> None:
    lease, _ = ask(host, HEAD + "    print('thinking', file=sys.stderr, flush=True)\n" + REBID)
    assert host.plane.wait(lambda: host.plane.text(lease, "agent"), "what the agent printed") == "thinking\n"
