"""Contexts and decisions on the wire, and the sidecar that speaks them."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import pytest

from laissez.sdk.agents import Context, Decision, EconomicAgent, Event, Notice, Quote, Row, main, serve

D = Decimal
CONTEXT = Context(
    job="job_x",
    state="running",
    now="2025-01-01T00:00:00+00:00",
    elapsed_seconds=D("12.5"),
    progress=D("0.358"),
    last_checkpoint=D("0.25"),
    checkpoint_seconds=D("0.1"),
    cause="notice",
    rows=(Row("nvidia-a10", None, None, D("0.2300")), Row("nvidia-l4", D("2"), D("2.5"), None)),
    stated={"nvidia-a10": None, "nvidia-l4": D("2")},
    holds="nvidia-a10",
    notice=Notice("outbid", D("27.5")),
    exchange={"nvidia-a10": Quote(D("0.687"), D("0.606"), D("2"), 0, 1, D("0.7"))},
    budget_left=D("1.23"),
    events=(Event("market.price", "2025-01-01T00:00:00+00:00", {"price": "0.687"}),),
)


class Talker(EconomicAgent):
    def decide(self, context: Context) -> Decision:
        print("this must not reach the host")
        return Decision("rebid", {"nvidia-l4": D("1.5")}, reason=f"Asked by {context.cause}.")


def test_a_context_survives_the_wire():
    text = json.dumps(CONTEXT.to_json())
    assert Context.from_json(json.loads(text, parse_float=Decimal)) == CONTEXT
    assert Context.from_json(json.loads(text)) == CONTEXT


def test_prices_travel_as_decimal_text():
    wire = CONTEXT.to_json()
    assert wire["rows"][0]["max_price_per_hour"] == "cap"
    assert wire["rows"][1]["keep_price_per_hour"] == "2.500000"
    assert wire["exchange"]["nvidia-a10"]["price_per_hour"] == "0.687000"


@pytest.mark.parametrize(
    "decision",
    [
        Decision("stay"),
        Decision("stop", reason="Enough."),
        Decision("migrate", {"nvidia-a10": D("0.652")}, "now", "Cheaper elsewhere."),
    ],
)
def test_a_decision_survives_the_wire(decision):
    assert Decision.from_json(json.loads(json.dumps(decision.to_json()))) == decision


def test_a_bare_kind_is_a_decision():
    assert Decision.from_json({"kind": "checkpoint"}) == Decision("checkpoint")


@pytest.mark.parametrize(
    ("wire", "complaint"),
    [
        (None, "decision: expected an object"),
        ([], "decision: expected an object"),
        ({}, "decision.kind: is missing"),
        ({"kind": "dance"}, "decision.kind: expected one of checkpoint, migrate, rebid, stay, stop, got 'dance'"),
        ({"kind": "stay", "moment": "later"}, "decision.moment: expected one of"),
        ({"kind": "stay", "bid": {}}, "decision.bid: is not known here"),
        ({"kind": "rebid"}, "decision.bids: a rebid names at least one row"),
        ({"kind": "stop", "bids": {"a": "1"}}, "decision.bids: a job that stops bids nothing"),
        ({"kind": "rebid", "bids": {"nvidia-l4": 1.5}}, "decision.bids.nvidia-l4: expected a price as decimal text"),
        ({"kind": "rebid", "bids": {"nvidia-l4": "NaN"}}, "decision.bids.nvidia-l4: expected a finite number"),
        ({"kind": "rebid", "bids": {"nvidia-l4": "-1"}}, "decision.bids.nvidia-l4: expected a finite number"),
        ({"kind": "rebid", "bids": {"nvidia-l4": "0"}}, "decision.bids.nvidia-l4: expected a price above 0"),
        ({"kind": "rebid", "bids": {"nvidia-l4": "0.1234567"}}, "at most 6 decimals"),
        ({"kind": "rebid", "bids": {"nvidia-l4": "1e999999"}}, "up to 1000000"),
        ({"kind": "rebid", "bids": {"nvidia-l4": "much"}}, "decision.bids.nvidia-l4: expected a number"),
        ({"kind": "stay", "reason": 7}, "decision.reason: expected text, got 7"),
    ],
)
def test_a_bad_decision_is_refused_by_the_path_of_what_is_wrong(wire, complaint):
    with pytest.raises(ValueError, match=r"^decision") as refused:
        Decision.from_json(wire)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schema": 2}, "context.schema: expected 1"),
        ({"state": "asleep"}, "context.state: expected one of queued, running"),
        ({"progress": 1.5}, "context.progress: expected a share between 0 and 1"),
        ({"progress": -1}, "context.progress: expected a finite number of at least 0"),
        ({"rows": {}}, "context.rows: expected an array"),
        ({"rows": [{"accelerator_type": "x"}]}, "context.rows[0].max_price_per_hour: is missing"),
        ({"exchange": {"x": {}}}, "context.exchange.x.price_per_hour: is missing"),
        ({"moving": "yes"}, "context.moving: expected true or false"),
        ({"notice": {"reason": "outbid"}}, "context.notice.deadline_seconds: is missing"),
        ({"surprise": 1}, "context.surprise: is not known here"),
    ],
)
def test_a_bad_context_is_refused_by_the_path_of_what_is_wrong(change, complaint):
    with pytest.raises(ValueError, match=r"^context") as refused:
        Context.from_json(CONTEXT.to_json() | change)
    assert complaint in str(refused.value)


def test_the_sidecar_answers_each_line_and_keeps_prints_apart(capsys):
    lines = f"{json.dumps(CONTEXT.to_json())}\n\n{json.dumps(replace(CONTEXT, cause='price').to_json())}\n"
    out = io.StringIO()
    serve(Talker(), io.StringIO(lines), out)
    answers = [Decision.from_json(json.loads(line)) for line in out.getvalue().splitlines()]
    assert [answer.reason for answer in answers] == ["Asked by notice.", "Asked by price."]
    assert "must not reach" in capsys.readouterr().err


def test_a_line_that_is_no_context_ends_the_sidecar():
    with pytest.raises(ValueError, match=r"context\.schema: is missing"):
        serve(Talker(), io.StringIO("{}\n"), io.StringIO())


def test_the_sidecar_runs_a_policy_as_a_process():
    command = [sys.executable, "-m", "laissez.sdk.agents", "--policy", "hold"]
    line = json.dumps(CONTEXT.to_json()) + "\n"
    done = subprocess.run(command, input=line * 2, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert [json.loads(answer)["kind"] for answer in done.stdout.splitlines()] == ["stay", "stay"]


def test_the_sidecar_runs_a_class_of_the_tenants_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from laissez.sdk.agents import Decision, EconomicAgent\n"
        "class Mine(EconomicAgent):\n"
        "    def decide(self, context):\n"
        "        return Decision('checkpoint', reason=context.job)\n"
    )
    command = [sys.executable, "-m", "laissez.sdk.agents", "--class", "mine:Mine"]
    environment = {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"}
    line = json.dumps(CONTEXT.to_json()) + "\n"
    done = subprocess.run(command, input=line, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"kind": "checkpoint", "bids": {}, "moment": "checkpoint", "reason": "job_x"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--policy", "nonsense"], "invalid choice"),
        (["--class", "nowhere"], "expected module:Class"),
        (["--class", "no_such_module_here:Mine"], "No module named"),
        (["--class", "laissez.sdk.agents:Nobody"], "Nobody"),
        (["--policy", "hold", "--params", "[]"], "expected a JSON object"),
    ],
)
def test_an_agent_that_cannot_be_made_is_refused_before_anything_is_read(arguments, complaint, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert complaint in capsys.readouterr().err
