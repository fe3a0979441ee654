from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markets.engine.dynamics import plan
from tests.engine.agreement import assert_same
from tests.engine.objects.floor import Floor
from tests.engine.random_floors import floors, random_floor, shuffled


@settings(max_examples=500, deadline=None)
@given(floors(), st.sampled_from(["launch_table", "first_come"]))
def test_arrays_and_objects_say_the_same_of_any_floor(a_floor, rule):
    assert_same(a_floor, rule)


def test_arrays_and_objects_say_the_same_of_many_more_floors():
    for seed in range(1500):
        try:
            assert_same(random_floor(Random(seed)))
        except AssertionError as error:
            raise AssertionError(f"floor {seed}: {error}") from error


@settings(deadline=None)
@given(floors(), st.randoms(use_true_random=False))
def test_the_order_in_which_a_floor_is_written_down_means_nothing(a_floor, chance):
    planned, again = plan(a_floor.arrays()), plan(shuffled(a_floor, chance).arrays())
    assert planned.actions == again.actions
    assert planned.clearing.assignment == again.clearing.assignment
    assert planned.clearing.prices == again.clearing.prices


@pytest.mark.parametrize("rule", ["launch_table", "first_come"])
def test_an_empty_floor_asks_for_nothing(rule):
    assert assert_same(Floor(0, 30, (), (), ()), rule).actions == ()
