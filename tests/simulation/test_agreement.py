import os

import pytest

from markets.engine.money import amount
from markets.simulation.report import Report
from markets.simulation.simulator import simulate
from tests.simulation.plain import PlainSimulator
from tests.simulation.random_scenarios import STEP, random_scenario

SCENARIOS = int(os.environ.get("LAISSEZ_SCENARIOS", "200"))
BATCH = 25


def told(report: Report) -> dict[str, object]:
    return {
        "prices": sorted((point.at, point.type, point.price) for point in report.prices),
        "moves": [(move.at, move.job, move.source, move.destination) for move in report.moves],
        "bills": report.bills,
        "finished": report.finished,
        "leases": sorted((lease.job, lease.type, lease.start, lease.end, lease.cost) for lease in report.leases),
    }


def told_plainly(plain: PlainSimulator) -> dict[str, object]:
    ends = {seat.number: plain.now if seat.gone is None else seat.gone for seat in plain.seats}
    starts = {seat.number: ends[seat.number] if seat.active is None else seat.active for seat in plain.seats}
    return {
        "prices": sorted(plain.prices),
        "moves": plain.moves,
        "bills": {
            player.spec.name: amount(sum(seat.cost for seat in plain.seats if seat.owner is player))
            for player in plain.players
        },
        "finished": {player.spec.name: player.end for player in plain.players if player.end is not None},
        "leases": sorted(
            (seat.owner.spec.name, seat.kind, starts[seat.number], ends[seat.number], amount(seat.cost))
            for seat in plain.seats
        ),
    }


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.slow] if first >= SCENARIOS // 8 else [])
        for first in range(0, SCENARIOS, BATCH)
    ],
)
def test_the_simulator_agrees_with_a_plain_one_to_the_micro_dollar(first):
    for seed in range(first, min(first + BATCH, SCENARIOS)):
        scenario = random_scenario(seed)
        assert told(simulate(scenario)) == told_plainly(PlainSimulator(scenario, STEP).run()), scenario.name


@pytest.mark.slow
def test_the_random_scenarios_hold_what_they_are_meant_to_test():
    """Moves up and down, failures, unfinished jobs and prices off the base: agreement on nothing proves nothing."""
    reports = [(random_scenario(seed), simulate(random_scenario(seed))) for seed in range(40)]
    bases = {(scenario.name, kind.name): kind.base for scenario, _ in reports for kind in scenario.types}
    assert sum(len(report.moves) for _, report in reports) > 10
    assert any(scenario.failures for scenario, _ in reports)
    assert any(len(report.finished) < len(scenario.jobs) for scenario, report in reports)
    assert any(
        point.price > bases[scenario.name, point.type] for scenario, report in reports for point in report.prices
    )
