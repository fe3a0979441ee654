from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markets.engine.bidding import offers_of
from markets.engine.book import Records, record
from markets.engine.dynamics import book_of, plan, roles_of
from markets.engine.floor import FloorJob, TableRow, TypeOffer
from markets.engine.roles import book_from
from tests.engine.agreement import assert_same, book_values
from tests.engine.objects.floor import Floor
from tests.engine.random_floors import floors, shuffled


@settings(max_examples=250, deadline=None)
@given(floors(), st.sampled_from(["launch_table", "first_come"]))
def test_arrays_and_objects_say_the_same_of_any_floor(a_floor, rule):
    assert_same(a_floor, rule)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(floors(), st.sampled_from(["launch_table", "first_come"]))
def test_arrays_and_objects_say_the_same_of_many_floors(a_floor, rule):
    assert_same(a_floor, rule)


@settings(deadline=None)
@given(floors(), st.randoms(use_true_random=False))
def test_the_order_in_which_a_floor_is_written_down_means_nothing(a_floor, chance):
    planned, again = plan(a_floor.arrays()), plan(shuffled(a_floor, chance).arrays())
    assert planned.actions == again.actions
    assert planned.clearing.assignment == again.clearing.assignment
    assert planned.clearing.prices == again.clearing.prices


@settings(deadline=None)
@given(floors(), floors(), st.sampled_from(["launch_table", "first_come"]))
def test_a_former_clearing_changes_no_plan(a_floor, another, rule):
    planned = plan(a_floor.arrays(), rule)
    for former in (planned, plan(another.arrays(), rule)):
        again = plan(a_floor.arrays(), rule, former.clearing)
        assert again.actions == planned.actions
        assert again.clearing.prices == planned.clearing.prices


@settings(deadline=None)
@given(floors())
def test_bids_and_kept_roles_are_the_book_again(a_floor):
    """As a receipt has them: jobs without their seats, rows without what only the live floor knows."""
    floor, planned = a_floor.arrays(), plan(a_floor.arrays())
    jobs = _only(floor.jobs, "id", "tenant")
    rows = _only(floor.rows, "type", "max_price", "keep_price", "accepted_at")
    again = book_from(planned.book.offers, jobs, floor.starts, rows, planned.roles)
    assert book_values(again) == book_values(planned.book)


def queued(*rows: TableRow) -> Floor:
    return Floor(0, 30, (TypeOffer(1, 1, 9),), (), (FloorJob(1, 1, rows), FloorJob(2, 1, ())))


@pytest.mark.parametrize("kind", [-1, 1])
def test_a_row_of_a_type_that_is_not_offered_makes_no_book(kind):
    floor = queued(TableRow(1, 5, None, 0)).arrays()
    floor.rows["type"] = kind
    with pytest.raises(ValueError, match="names no offer"):
        book_of(floor)


@pytest.mark.parametrize("starts", [[0, 1], [0, 2, 1], [-1, 0, 1], [0, 1, 2]])
def test_launch_tables_that_are_not_runs_of_the_rows_make_no_book(starts):
    floor = queued(TableRow(1, 5, None, 0)).arrays()
    with pytest.raises(ValueError, match="no run of rows"):
        book_from(offers_of(floor), floor.jobs, np.array(starts), floor.rows, roles_of(floor))


def test_roles_of_other_jobs_make_no_book():
    floor = queued(TableRow(1, 5, None, 0)).arrays()
    roles = roles_of(floor)
    with pytest.raises(ValueError, match="has no role"):
        book_from(offers_of(floor), floor.jobs, floor.starts, floor.rows, replace(roles, jobs=roles.jobs[:1]))


def _only(table: Records, *names: str) -> Records:
    found = np.empty(len(table), dtype=record(*names))
    for name in names:
        found[name] = table[name]
    return found


@pytest.mark.parametrize("rule", ["launch_table", "first_come"])
def test_an_empty_floor_asks_for_nothing(rule):
    assert assert_same(Floor(0, 30, (), (), ()), rule).actions == ()
