"""The drawing of a job's life, without a database."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markets.views.timeline import AMOUNT_NEEDS, WAITING, Mark, Move, Node, Stay, Timeline, draw, steps

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stay(hardware: str, start: float, end: float | None, first_step: float | None = None) -> Stay:
    step = None if first_step is None else at(first_step)
    return Stay(hardware, at(start), None if end is None else at(end), step, 1000, "closed" if end else "active")


def life(
    *stays: Stay,
    end: float = 100,
    moves: tuple[Move, ...] = (),
    marks: tuple[Mark, ...] = (),
    nodes: tuple[Node, ...] = (),
) -> Timeline:
    hardware = ["a10", "l4"]
    return draw(start=START, end=at(end), hardware=hardware, stays=stays, marks=marks, moves=moves, nodes=nodes)


def test_bars_lie_where_their_leases_lay() -> None:
    drawn = life(stay("a10", 0, 25, 5), stay("l4", 25, None, 35))
    assert [row.label for row in drawn.rows] == ["a10", "l4"]
    (first,), (second,) = (row.bars for row in drawn.rows)
    assert (first.left, first.width, first.dead) == ("0.000", "25.000", "20.000")
    assert (second.left, second.width, second.dead) == ("25.000", "75.000", "13.333")


def test_a_lease_that_never_trained_is_dead_time_altogether() -> None:
    (bar,) = life(stay("a10", 0, 50)).rows[1].bars
    assert bar.dead == "100.000"


def test_waiting_without_a_device_has_a_row_of_its_own() -> None:
    drawn = life(stay("a10", 10, 40), stay("l4", 60, None))
    assert drawn.rows[0].label == WAITING
    assert [(bar.left, bar.width) for bar in drawn.rows[0].bars] == [("0.000", "10.000"), ("40.000", "20.000")]


def test_leases_that_overlap_leave_no_wait() -> None:
    assert life(stay("a10", 0, 60), stay("l4", 40, None)).rows[0].label == "a10"


def test_an_arrow_joins_the_rows_of_a_move_and_points_the_way() -> None:
    moves = (Move("a10", "l4", at(25), "done"), Move("l4", "a10", at(50), "aborted"))
    down, up = life(stay("a10", 0, 30), stay("l4", 25, None), moves=moves).arrows
    assert (down.top, down.span, down.goes_up, down.left) == (0, 1, False, "25.000")
    assert (up.top, up.span, up.goes_up) == (0, 1, True)


def test_checkpoints_are_ticks_on_the_row_they_were_taken_on() -> None:
    drawn = life(stay("a10", 0, None), marks=(Mark("a10", at(50), 0.5),))
    assert [tick.left for tick in drawn.rows[0].ticks] == ["50.000"]
    assert drawn.rows[1].ticks == ()


def test_hardware_outside_the_launch_table_gets_a_row_too() -> None:
    assert life(stay("h100", 0, None)).rows[-1].label == "h100"


def test_a_job_of_this_instant_can_be_drawn() -> None:
    drawn = draw(start=START, end=START, hardware=["a10"], stays=[], marks=[], moves=[])
    assert [row.label for row in drawn.rows] == [WAITING, "a10"]


@pytest.mark.parametrize("seconds", [1, 7, 90, 3000, 90_000, 30 * 86_400, 400 * 86_400])
def test_the_axis_has_a_handful_of_marks(seconds: int) -> None:
    axis = life(end=seconds).axis
    assert 1 <= len(axis) <= 24
    assert axis[0][0] == "0.000"


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.001, 1e5)), max_size=6), st.floats(1, 1e6))
def test_nothing_is_drawn_outside_the_frame(spans: list[tuple[float, float]], end: float) -> None:
    drawn = life(*(stay("a10", start, start + length) for start, length in spans), end=end)
    for row in drawn.rows:
        for bar in row.bars:
            assert 0 <= float(bar.left) <= 100
            assert float(bar.left) + float(bar.width) <= 100.21
            assert 0 <= float(bar.dead) <= 100


def test_time_from_the_end_of_training_to_the_end_of_the_lease_is_dead_too() -> None:
    closing = Stay("a10", at(0), at(50), at(10), 1000, "closed", stopped=at(40), price=606_000)
    (bar,) = life(closing).rows[1].bars
    assert (bar.dead, bar.tail, bar.room) == ("20.000", "20.000", "all")


@pytest.mark.parametrize(("seconds", "room"), [(50, "all"), (15, "wide"), (5, "")])
def test_a_price_is_written_where_its_bar_has_room(seconds: int, room: str) -> None:
    (bar,) = life(stay("a10", 0, seconds, 0)).rows[1].bars
    assert bar.room == room


def test_a_price_is_written_where_no_checkpoint_crosses_it() -> None:
    marks = tuple(Mark("a10", at(seconds), 0.5) for seconds in (10, 60, 90))
    (bar,) = life(stay("a10", 0, None, 0), marks=marks).rows[0].bars
    assert (bar.room, bar.inset) == ("all", "40.000")


def test_at_each_node_stands_the_cost_by_then_and_no_amount_covers_another() -> None:
    nodes = (Node("l4", at(30), "handed_over", 5), Node("l4", at(40), "moved", 7), Node("l4", at(100), "now", 9))
    (_, row) = life(stay("a10", 0, 40), stay("l4", 30, None), nodes=nodes).rows
    assert [(spot.left, spot.side, spot.room) for spot in row.spots] == [
        ("30.000", "before", "all"),
        ("40.000", "after", "all"),
        ("100.000", "before", "all"),
    ]


def test_where_there_is_no_room_the_present_is_written_first() -> None:
    nodes = (Node("a10", at(99), "handed_over", 1), Node("a10", at(99.5), "moved", 2), Node("a10", at(100), "now", 3))
    row = life(stay("a10", 0, None), nodes=nodes).rows[0]
    assert [spot.room for spot in row.spots] == ["", "", "all"]


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["handed_over", "moved", "ended", "now"])), max_size=12))
def test_amounts_stay_inside_and_apart_on_every_screen(told: list[tuple[float, str]]) -> None:
    nodes = tuple(Node("a10", at(seconds), kind, 1) for seconds, kind in told)
    row = life(stay("a10", 0, None), nodes=nodes).rows[0]
    assert len(row.spots) == len(nodes)
    for screen, shown in (("all", {"all"}), ("wide", {"all", "wide"})):
        width = AMOUNT_NEEDS[screen]
        lefts = sorted(
            float(spot.left) - (width if spot.side == "before" else 0) for spot in row.spots if spot.room in shown
        )
        assert all(-0.01 <= left <= 100.01 - width for left in lefts)
        assert all(right - left >= width - 0.01 for left, right in pairwise(lefts))


def test_a_job_without_a_device_has_its_present_in_the_row_of_waiting() -> None:
    drawn = life(stay("a10", 0, 99.9), nodes=(Node(WAITING, at(100), "now", 4),))
    assert drawn.rows[0].label == WAITING
    assert [spot.node.total for spot in drawn.rows[0].spots] == [4]


def test_the_table_tells_the_same_story_in_the_order_of_time() -> None:
    nodes = (Node("l4", at(90), "now", 9), Node("a10", at(0), "handed_over", 0))
    told = steps(nodes, [Mark("a10", at(50), 0.25), Mark("l4", at(90), 0.5)])
    assert [(step.kind, step.detail, step.total) for step in told] == [
        ("handed_over", "", 0),
        ("checkpoint", "25 %", None),
        ("checkpoint", "50 %", None),
        ("now", "", 9),
    ]
