"""The harness of the measurements: each module in a process of its own, a table, JSON, and a gate that does not lie."""

import json

import pytest

from laissez.stack import machine
from tests.bench import gate
from tests.bench.__main__ import main
from tests.bench.figures import Figure, Run
from tests.bench.gate import Limit, faults_of, limit_of, ratios_of
from tests.bench.measuring import Outcome, measure
from tests.bench.modules import MODULES, Ground, Module, chosen
from tests.bench.report import document, failures_of, lines_of, table

RUN = Run(seed=7, share=0.1)


def ratio(value: float, *, name: str = "clearing.cold", goal: float | None = 4.0) -> Outcome:
    return Outcome("clearing", [Figure(name, value, "x", "lower", goal, "of 5")], seconds=1.0)


def test_a_module_is_measured_in_a_process_of_its_own() -> None:
    told: list[Figure] = []
    outcome = measure(Module("trials.steady", Ground.NOTHING), RUN, tell=told.append)
    assert outcome.error == ""
    assert [(figure.name, figure.value) for figure in outcome.figures] == [("trial.seed", 7), ("trial.size", 100)]
    assert told == outcome.figures


def test_a_module_that_fails_is_reported_with_the_figures_it_had() -> None:
    outcome = measure(Module("trials.failing", Ground.NOTHING), RUN, tell=lambda figure: None)
    assert [figure.name for figure in outcome.figures] == ["trial.first"]
    assert failures_of([outcome]) == ["trials.failing: ended with status 1; what it said is above"]


def test_only_names_are_checked() -> None:
    assert [module.name for module in chosen("ticks, clearing")] == ["clearing", "ticks"]
    assert chosen("") == list(MODULES.values())
    with pytest.raises(SystemExit, match="no measurements are called tics; there are clearing"):
        main(["--only", "tics"])


@pytest.mark.parametrize("share", ["0", "1.5", "much"])
def test_a_share_is_above_zero_and_at_most_one(share: str) -> None:
    with pytest.raises(SystemExit):
        main(["--share", share])


def test_a_figure_meets_its_goal_by_its_median_over_all_rounds() -> None:
    (line,) = lines_of([ratio(9.0), ratio(3.0), ratio(4.0)])
    assert (line.median, line.met, line.values) == (4.0, True, (9.0, 3.0, 4.0))
    (missed,) = lines_of([ratio(4.1)])
    assert missed.met is False
    (reported,) = lines_of([ratio(9.0, goal=None)])
    assert reported.met is None


def test_higher_is_better_where_a_figure_says_so() -> None:
    outcome = Outcome("requests", [Figure("requests.single", 180.0, "requests/s", "higher", 200.0)])
    assert lines_of([outcome])[0].met is False


def test_the_table_shows_value_unit_goal_and_whether_it_is_met() -> None:
    shown = table(lines_of([ratio(3.14159), ratio(5_000_000.0, name="other")])).splitlines()
    assert shown[0].split() == ["figure", "value", "unit", "goal", "met", "detail"]
    assert shown[1].split() == ["clearing.cold", "3.14", "x", "<=", "4", "yes", "of", "5"]
    assert shown[2].split() == ["other", "5,000,000", "x", "<=", "4", "NO", "of", "5"]


def test_the_document_says_on_what_machine_and_how_busy_it_was() -> None:
    facts = machine.facts()
    content = document([ratio(3.0), ratio(5.0)], RUN, at="2026-01-01", machine=facts, load=([1.0], [2.0]))
    assert json.loads(json.dumps(content)) == content
    assert {"cores", "cpu", "memory_gb", "commit", "versions"} <= facts.keys()
    assert {"python", "postgresql", "numpy", "django"} <= facts["versions"].keys()
    assert (content["seed"], content["share"], content["load_before"], content["load_after"]) == (7, 0.1, [1.0], [2.0])
    assert content["seconds"] == {"clearing": 2.0}
    (figure,) = content["figures"]
    assert (figure["least"], figure["median"], figure["greatest"]) == (3.0, 4.0, 5.0)


def test_a_limit_lies_four_median_deviations_from_the_median() -> None:
    values = [1.0, 1.2, 1.4, 1.6, 1.8]
    assert limit_of(values, "lower").value == pytest.approx(1.4 + 4 * 0.2)
    assert limit_of(values, "higher").value == pytest.approx(1.4 - 4 * 0.2)


def test_a_limit_lies_at_least_fifteen_per_cent_beyond_the_worst() -> None:
    assert limit_of([2.0] * 10, "lower").value == pytest.approx(2.3)
    assert limit_of([2.0] * 9 + [4.0], "lower").value == pytest.approx(4.6)
    assert limit_of([2.3] * 10, "higher").value == pytest.approx(2.0)


def test_the_recorded_runs_pass_the_limits_they_set() -> None:
    for better in ("lower", "higher"):
        values = [1.0, 1.3, 0.9, 1.1, 2.0, 1.0, 1.2, 0.8, 1.1, 1.0]
        limit = limit_of(values, better)
        assert all(limit.allows(value) for value in values)


def test_a_ratio_beyond_its_limit_fails_the_gate() -> None:
    ratios = ratios_of([ratio(2.0), ratio(9.0), ratio(2.1)])
    assert faults_of(ratios, {"clearing.cold": Limit(2.2, "lower")}) == []
    assert faults_of(ratios, {"clearing.cold": Limit(2.0, "lower")}) == ["clearing.cold is 2.1, its limit 2"]


def test_a_ratio_that_disappears_or_is_new_fails_the_gate() -> None:
    ratios = ratios_of([ratio(2.0)])
    assert faults_of(ratios, {}) == ["clearing.cold has no limit: record anew"]
    limits = {"clearing.cold": Limit(3.0, "lower"), "clearing.warm": Limit(1.0, "lower")}
    assert faults_of(ratios, limits) == ["clearing.warm has a limit and is no longer measured"]


def test_only_ratios_are_judged() -> None:
    absolute = Outcome("clearing", [Figure("clearing.time", 2.0, "s"), Figure("a", 2.0, "x", "neither")])
    assert ratios_of([absolute]) == {}


def test_the_gate_does_not_judge_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.9, 0.2])
    monkeypatch.setattr(machine, "busy_share", lambda seconds: next(shares))
    gate.wait_for_calm()
    monkeypatch.setattr(machine, "busy_share", lambda seconds: 0.9)
    with pytest.raises(gate.TooBusy, match="90% of the cores' time"):
        gate.wait_for_calm(patience_seconds=0)


def test_how_busy_the_machine_is_is_a_share() -> None:
    assert 0 <= machine.busy_share(0.01) <= 1
