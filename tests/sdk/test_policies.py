from dataclasses import replace
from decimal import Decimal

import pytest

from laissez.sdk.agents import Context, Notice, Quote, Row
from laissez.sdk.economics import Alternative, break_even_bid
from laissez.sdk.policies import POLICIES, break_even, break_even_now, checkpoint_boundary, hold

A10, L4, TRAINIUM = "nvidia-a10", "nvidia-l4", "aws-trainium"
D = Decimal


def quote(price: str, *, free: int, total: int = 4, cap: str = "2") -> Quote:
    return Quote(D(price), D("0.1"), D(cap), free, total)


EXCHANGE = {
    A10: quote("0.687", free=0, total=1),
    L4: quote("0.4755", free=4),
    TRAINIUM: quote("0.804", free=4),
}
B = Context(
    job="job_b",
    state="running",
    now="2025-01-01T00:04:56.640000+00:00",
    elapsed_seconds=D("296.64"),
    progress=D("4.944") / D("13.8"),
    last_checkpoint=D("0.25"),
    cause="heartbeat",
    rows=(Row(A10, D("0.652"), None, D("0.230")), Row(L4, D("2"), None, D("0.3154"))),
    stated={A10: D("2"), L4: D("2")},
    exchange=EXCHANGE,
    holds=A10,
)
A = replace(
    B,
    job="job_a",
    state="queued",
    cause="submitted",
    progress=D(0),
    last_checkpoint=D(0),
    rows=(
        Row(A10, D("2"), None, D("0.351")),
        Row(TRAINIUM, D("2"), None, D("0.300")),
        Row(L4, D("2"), None, D("0.5145")),
    ),
    stated={A10: D("2"), TRAINIUM: D("2"), L4: D("2")},
    holds=None,
)
AT_CHECKPOINT = replace(B, cause="checkpoint", progress=D("0.5"), last_checkpoint=D("0.5"))


def bids(decision) -> dict[str, float]:
    return {name: float(bid) for name, bid in decision.bids.items()}


# The break-even bid


def test_the_papers_bids_come_out():
    assert bids(break_even(B, {})) == {A10: pytest.approx(0.762, abs=0.001)}
    assert bids(break_even(A, {}))[A10] == pytest.approx(0.6872, abs=0.0001)


def test_a_bid_is_what_makes_staying_as_dear_as_the_cheapest_alternative():
    others = [Alternative(D(1), D(4), D("0.5")), Alternative(D(3), D(1), D("0.5"))]
    assert break_even_bid(D(2), left=D("0.25"), alternatives=others, at_most=D(9)) == D(3)


def test_a_bid_is_rounded_to_micro_dollars_and_stays_between_one_and_the_cap():
    third = [Alternative(D(1), D(1), D(1))]
    assert break_even_bid(D(3), left=D(1), alternatives=third, at_most=D(9)) == D("0.333333")
    assert break_even_bid(D(3), left=D("0.0001"), alternatives=third, at_most=D(9)) == D(9)
    assert break_even_bid(D(3), left=D(0), alternatives=third, at_most=D(9)) == D(9)
    assert break_even_bid(D(10**9), left=D(1), alternatives=third, at_most=D(9)) == D("0.000001")


def test_without_an_alternative_there_is_no_break_even():
    with pytest.raises(ValueError, match="at least one alternative"):
        break_even_bid(D(3), left=D(1), alternatives=[], at_most=D(9))


def test_a_full_type_is_no_alternative_unless_the_job_is_on_it():
    full = EXCHANGE | {TRAINIUM: quote("0.1", free=0)}
    assert bids(break_even(replace(A, exchange=full), {}))[A10] == pytest.approx(0.4755 * 0.5145 / 0.351, abs=1e-6)
    holding = replace(A, exchange=full, state="running", holds=TRAINIUM)
    assert bids(break_even(holding, {}))[A10] == pytest.approx(0.1 * 0.3 / 0.351, abs=1e-6)


def test_the_last_row_counts_at_its_stated_maximum_where_it_is_full_and_its_bid_stays():
    full = EXCHANGE | {L4: quote("0.4755", free=0)}
    decision = break_even(replace(B, exchange=full, cause="submitted", state="queued", holds=None), {})
    assert L4 not in decision.bids
    assert bids(decision)[A10] == pytest.approx(2.0)  # 2 x 0.3154 / 0.230 is above the cap of 2


def test_a_row_without_expected_hours_keeps_its_bid():
    rows = (replace(B.rows[0], expected_hours=None), B.rows[1])
    assert break_even(replace(B, rows=rows), {}).kind == "stay"


def test_counting_the_present_row_at_the_work_left_now_lowers_bids_on_other_rows_only():
    running = replace(A, state="running", holds=TRAINIUM, progress=D("0.1"))
    assert break_even_now(running, {}).bids[A10] < break_even(running, {}).bids[A10]
    assert break_even_now(B, {}).bids == break_even(B, {}).bids


# What follows from it


def test_a_heartbeat_raises_the_held_bid_between_checkpoints():
    assert break_even(B, {}).kind == "rebid"
    assert break_even(B, {}).bids[A10] > B.rows[0].max_price_per_hour


def test_a_bid_that_still_breaks_even_is_left_alone():
    settled = replace(B, rows=(replace(B.rows[0], max_price_per_hour=break_even(B, {}).bids[A10]), B.rows[1]))
    assert break_even(settled, {}).kind == "stay"


def test_outbid_at_a_checkpoint_it_moves_now_with_the_lower_bid():
    high = replace(AT_CHECKPOINT, rows=(replace(B.rows[0], max_price_per_hour=D("0.9")), B.rows[1]))
    decision = break_even(high, {})
    assert (decision.kind, decision.moment) == ("migrate", "now")
    assert bids(decision) == {A10: pytest.approx(0.652, abs=0.0005)}
    assert "0.652" in decision.reason
    assert "0.687" in decision.reason


def test_at_a_checkpoint_below_the_price_it_stays_or_moves_as_the_figures_say():
    cheap = EXCHANGE | {A10: quote("0.606", free=0, total=1)}
    assert break_even(replace(AT_CHECKPOINT, exchange=cheap), {}).kind != "migrate"
    nowhere = EXCHANGE | {L4: quote("0.4755", free=0)}
    assert break_even(replace(AT_CHECKPOINT, exchange=nowhere), {}).kind != "migrate"


def test_while_a_move_is_pending_the_held_bid_is_never_raised():
    assert break_even(replace(B, moving=True), {}).kind == "stay"


@pytest.mark.parametrize("reason", ["outbid", "below_base"])
def test_under_notice_it_rebids_only_above_the_price_and_else_moves(reason):
    warned = replace(B, cause="notice", notice=Notice(reason, D(30)))
    assert break_even(warned, {}).kind == "rebid"
    dear = replace(warned, exchange=EXCHANGE | {A10: quote("0.9", free=0, total=1)})
    assert (break_even(dear, {}).kind, break_even(dear, {}).moment) == ("migrate", "checkpoint")
    assert A10 not in break_even(dear, {}).bids


@pytest.mark.parametrize("reason", ["claimed", "drained", "budget"])
def test_a_notice_that_a_bid_cannot_answer_is_answered_by_moving(reason):
    assert break_even(replace(B, notice=Notice(reason, D(30))), {}).kind == "migrate"


def test_with_a_better_unit_in_hand_it_moves_at_its_next_checkpoint():
    upgrade = replace(A, state="running", holds=TRAINIUM, destination=A10, cause="hand_over", progress=D("0.1"))
    assert (break_even(upgrade, {}).kind, break_even(upgrade, {}).moment) == ("migrate", "checkpoint")


def test_stale_prices_are_not_acted_on():
    assert break_even(replace(B, stale=True), {}).kind == "stay"


def test_hold_never_acts():
    assert hold(replace(B, notice=Notice("outbid", D(30))), {}).kind == "stay"


def test_checkpoint_boundary_saves_first_and_moves_where_nothing_is_lost():
    assert checkpoint_boundary(B, {}).kind == "stay"
    warned = replace(B, cause="notice", notice=Notice("outbid", D(30)))
    assert checkpoint_boundary(warned, {}).kind == "checkpoint"
    saved = replace(AT_CHECKPOINT, notice=Notice("outbid", D(20)))
    assert (checkpoint_boundary(saved, {}).kind, checkpoint_boundary(saved, {}).moment) == ("migrate", "now")
    assert checkpoint_boundary(replace(saved, moving=True), {}).kind == "stay"


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("context", [A, B, AT_CHECKPOINT, replace(B, rows=(), holds=None), replace(B, exchange={})])
def test_every_policy_answers_every_context_with_a_reason_and_changes_nothing_twice(name, context):
    decision = POLICIES[name](context, {})
    assert decision == POLICIES[name](context, {})
    assert decision.reason.endswith(".")
