"""MECHANISM section 6: the numbers of LaissezCloud 2025, sections 2 and 5, and its two baselines."""

from dataclasses import replace
from decimal import Decimal

import pytest

from markets.simulation.scenarios import A10, BLIND, L4, PAPER, STATIC_A_FIRST, STATIC_B_FIRST, TRAINIUM
from markets.simulation.simulator import simulate

TENTH_OF_A_SECOND_IN_MINUTES = 0.1 / 60


@pytest.fixture(scope="module")
def paper() -> dict:
    return simulate(PAPER).to_json()


def near(value, wanted, tolerance) -> bool:
    return abs(Decimal(str(value)) - Decimal(str(wanted))) <= Decimal(str(tolerance))


def test_the_a10_passes_the_four_prices_at_the_papers_minutes(paper):
    found = [(point["minute"], point["price"]) for point in paper["a10_prices"]]
    wanted = [(0.0, "0.606"), (4.944, "0.687"), (6.9, "0.652"), (16.362, "0.606")]
    assert len(found) == len(wanted)
    for (minute, price), (wanted_minute, wanted_price) in zip(found, wanted, strict=True):
        assert near(minute, wanted_minute, TENTH_OF_A_SECOND_IN_MINUTES)
        assert near(price, wanted_price, "0.0005")


def test_the_bills_are_the_papers(paper):
    assert near(paper["bills"]["app-a"], "0.2423", "0.00005")
    assert near(paper["bills"]["app-b"], "0.1473", "0.00005")


def test_the_jobs_end_at_the_papers_minutes(paper):
    assert near(paper["finish_minute"]["app-b"], 16.362, TENTH_OF_A_SECOND_IN_MINUTES)
    assert near(paper["finish_minute"]["app-a"], 25.392, TENTH_OF_A_SECOND_IN_MINUTES)


@pytest.mark.parametrize(
    ("job", "accelerator_type", "minute", "value", "tolerance"),
    [
        ("app-b", A10, 0.0, "0.652", "0.0005"),
        ("app-a", A10, 4.944, "0.6872", "0.0001"),
        ("app-b", A10, 4.944, "0.762", "0.001"),
        ("app-b", A10, 6.9, "0.652", "0.0005"),
    ],
)
def test_the_bids_are_the_papers(paper, job, accelerator_type, minute, value, tolerance):
    bids = [bid for bid in paper["bids"] if (bid["job"], bid["type"], bid["minute"]) == (job, accelerator_type, minute)]
    assert len(bids) == 1
    assert near(bids[0]["value"], value, tolerance)


def test_each_lease_is_where_and_when_the_paper_has_it(paper):
    leases = {(lease["job"], lease["type"]): lease for lease in paper["leases"]}
    wanted = {
        ("app-b", A10): (0.0, 6.9, "0.0723"),
        ("app-b", L4): (6.9, 16.362, "0.0750"),
        ("app-a", TRAINIUM): (4.944, 8.544, "0.0482"),
        ("app-a", A10): (6.9, 25.392, "0.1940"),
    }
    assert leases.keys() == wanted.keys()
    for key, (start, end, cost) in wanted.items():
        assert near(leases[key]["start_minute"], start, TENTH_OF_A_SECOND_IN_MINUTES)
        assert near(leases[key]["end_minute"], end, TENTH_OF_A_SECOND_IN_MINUTES)
        assert near(leases[key]["cost"], cost, "0.0001")


def test_b_moves_down_and_a_moves_up_each_at_a_checkpoint(paper):
    assert [(move["job"], move["minute"], move["destination"]) for move in paper["migrations"]] == [
        ("app-b", 6.9, L4),
        ("app-a", 8.544, A10),
    ]


def test_counting_the_present_row_at_the_work_left_now_is_cheaper_for_both():
    jobs = tuple(replace(job, policy="break_even_now") for job in PAPER.jobs)
    bills = simulate(replace(PAPER, jobs=jobs)).to_json()["bills"]
    assert near(bills["app-a"], "0.230", "0.0005")
    assert near(bills["app-b"], "0.143", "0.0005")


def test_without_migration_whoever_came_first_keeps_the_a10():
    a_first, b_first = simulate(STATIC_A_FIRST).to_json(), simulate(STATIC_B_FIRST).to_json()
    assert [(lease["job"], lease["type"]) for lease in a_first["leases"]] == [("app-a", A10), ("app-b", L4)]
    assert [(lease["job"], lease["type"]) for lease in b_first["leases"]] == [("app-b", A10), ("app-a", TRAINIUM)]
    assert a_first["migrations"] == b_first["migrations"] == []
    assert near(a_first["bills"]["app-a"], "0.2127", "0.0001")
    assert near(a_first["bills"]["app-b"], "0.1500", "0.0001")
    assert near(b_first["bills"]["app-b"], "0.1394", "0.0001")
    assert near(b_first["bills"]["app-a"], "0.2412", "0.0001")


def test_a_blind_move_to_the_faster_device_at_the_wrong_time_ends_later_and_costs_more():
    blind, stayed = simulate(BLIND), simulate(STATIC_A_FIRST)
    assert [(move.job, move.destination) for move in blind.moves] == [("app-b", A10)]
    assert blind.finished["app-b"] > stayed.finished["app-b"]
    assert blind.bills["app-b"] > stayed.bills["app-b"]
