from dataclasses import replace
from fractions import Fraction

import pytest

from markets.simulation.scenarios import (
    MINUTE,
    SCENARIOS,
    Failure,
    JobSpec,
    RowSpec,
    Scenario,
    Timing,
    TypeSpec,
    minutes,
)
from markets.simulation.simulator import simulate

FAST, SLOW = "fast", "slow"
DOLLAR = 1_000_000
TWO_TYPES = (TypeSpec(FAST, 1, DOLLAR, 5 * DOLLAR), TypeSpec(SLOW, 1, DOLLAR, 5 * DOLLAR))
QUARTER = Fraction(1, 4)


def job(name: str, *, bid: int = 2, submit: str = "0", **fields) -> JobSpec:
    """A job of 60 minutes on the fast type and 120 on the slow one; its bid in dollars."""
    rows = (RowSpec(FAST, bid * DOLLAR, Fraction(1)), RowSpec(SLOW, bid * DOLLAR, Fraction(2)))
    return JobSpec(name, rows, submit_at=minutes(submit), **{"checkpoint_every": QUARTER, **fields})


def run(*jobs: JobSpec, failures: tuple[Failure, ...] = (), **timing):
    timing = {"heartbeat_us": MINUTE, **timing}
    return simulate(Scenario("test", TWO_TYPES, jobs, timing=Timing(**timing), failures=failures))


def leases(report, name: str) -> list[tuple[str, float, float]]:
    return [(one.type, one.start / MINUTE, one.end / MINUTE) for one in report.leases if one.job == name]


def test_a_job_alone_pays_the_base_price_for_its_time():
    report = run(job("a"))
    assert leases(report, "a") == [(FAST, 0, 60)]
    assert report.bills == {"a": DOLLAR}


def test_billing_starts_when_the_device_is_ready_and_ends_when_it_is_released():
    report = run(job("a"), activation_us=2 * MINUTE, release_us=MINUTE)
    assert leases(report, "a") == [(FAST, 2, 63)]
    assert report.finished["a"] == 62 * MINUTE


def test_an_outbid_job_without_a_checkpoint_starts_again_elsewhere():
    report = run(job("a", checkpoint_every=None), job("b", bid=3, submit="30"))
    assert leases(report, "a") == [(FAST, 0, 30), (SLOW, 30, 150)]
    assert leases(report, "b") == [(FAST, 30, 90)]


def test_an_outbid_job_under_notice_runs_on_and_moves_at_its_checkpoint():
    report = run(job("a"), job("b", bid=3, submit="40"), notice_us=10 * MINUTE)
    assert leases(report, "a")[:2] == [(FAST, 0, 45), (SLOW, 40, 75)]
    assert [(move.at, move.job) for move in report.moves if move.job == "a"][:1] == [(45 * MINUTE, "a")]


def test_the_deadline_of_a_notice_ends_it_and_loses_what_was_not_saved():
    report = run(job("a"), job("b", bid=3, submit="40"), notice_us=2 * MINUTE)
    assert leases(report, "a") == [(FAST, 0, 42), (SLOW, 40, 102)]
    assert report.finished["a"] == 102 * MINUTE


def test_a_job_that_saves_at_any_time_loses_nothing_at_the_deadline():
    report = run(job("a", saves_any_time=True, upgrade="never"), job("b", bid=3, submit="40"), notice_us=2 * MINUTE)
    assert report.finished["a"] == (42 + 36) * MINUTE


def test_restoring_takes_its_time_on_the_destination():
    plain = run(job("a", upgrade="never"), job("b", bid=3, submit="45"))
    slow = run(job("a", upgrade="never"), job("b", bid=3, submit="45"), restore_us=3 * MINUTE)
    assert slow.finished["a"] - plain.finished["a"] == 3 * MINUTE


def test_overlap_pays_for_the_source_until_the_first_step_on_the_destination():
    blocker = job("b", bid=3)
    copy = run(blocker, job("a", upgrade="now"), restore_us=3 * MINUTE)
    both = run(blocker, job("a", upgrade="now", mode="overlap"), restore_us=3 * MINUTE)
    assert leases(copy, "a")[:2] == [(SLOW, 0, 60), (FAST, 60, 93)]
    assert leases(both, "a")[:2] == [(SLOW, 0, 63), (FAST, 60, 93)]


def test_a_job_on_a_failed_unit_goes_on_from_its_last_checkpoint():
    report = run(job("a"), failures=(Failure(minutes("40"), FAST, 0),))
    assert leases(report, "a") == [(FAST, 0, 40), (SLOW, 40, 100)]


def test_a_repaired_unit_is_used_again():
    failures = (Failure(minutes("40"), FAST, 0), Failure(minutes("50"), FAST, 0, usable=True))
    report = run(job("a"), failures=failures)
    assert leases(report, "a")[1][0] == SLOW
    assert leases(report, "a")[2][:2] == (FAST, 50)


def test_two_jobs_that_want_each_others_unit_swap():
    first = JobSpec(
        "a", (RowSpec(FAST, 4 * DOLLAR, Fraction(1)), RowSpec(SLOW, 2 * DOLLAR, Fraction(1))), upgrade="now"
    )
    second = JobSpec(
        "b", (RowSpec(SLOW, 4 * DOLLAR, Fraction(1)), RowSpec(FAST, 3 * DOLLAR, Fraction(1))), upgrade="now"
    )
    # Both units fail in turn, which seats each job on its second choice.
    blockers = (
        JobSpec("x", (RowSpec(SLOW, 5 * DOLLAR, Fraction(1, 6)),)),
        JobSpec("y", (RowSpec(FAST, 5 * DOLLAR, Fraction(1, 6)),), submit_at=minutes("1")),
    )
    report = run(*blockers, first, replace(second, submit_at=minutes("2")))
    assert leases(report, "a")[-1][0] == FAST
    assert leases(report, "b")[-1][0] == SLOW
    assert set(report.finished) == {"a", "b", "x", "y"}


def test_a_simulation_ends_at_its_horizon_though_a_job_can_never_run():
    hopeless = JobSpec("a", (RowSpec(FAST, DOLLAR // 2, Fraction(1)),))
    report = simulate(Scenario("test", TWO_TYPES, (hopeless,), horizon=5 * MINUTE))
    assert report.finished == {}
    assert report.bills == {"a": 0}


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_same_scenario_always_gives_the_same_report(name):
    assert simulate(SCENARIOS[name]).to_json() == simulate(SCENARIOS[name]).to_json()
