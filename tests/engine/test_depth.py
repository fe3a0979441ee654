"""How deep the losing side is, in counts that no winner's bid moves."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from markets.engine.book import NONE, IntArray, Offer, Participant, Row
from markets.engine.clearing import Clearing
from markets.engine.clearing_invariants import above_assigned
from markets.engine.depth import depth
from tests.engine.books import books, cleared, outcome
from tests.engine.objects import clearing as objects
from tests.engine.objects import depth as objects_depth
from tests.engine.objects.book import Book

many = settings(max_examples=100, deadline=None)


def book(*bids: int, supply: int = 1, cap: int = 1000) -> Book:
    rows = [Participant(2 * job, job, job, (Row(1, bid, job),)) for job, bid in enumerate(bids, 1)]
    return Book((Offer(1, supply, 100, cap),), tuple(rows))


def losing_bids(clearing: Clearing) -> tuple[IntArray, IntArray]:
    """The place in book.offers and the counted bid of every row that lost, in the order of the book's rows."""
    rows, offers = clearing.book.rows, clearing.book.offers
    counted = np.minimum(rows["bid"], offers["cap"][rows["offer"]])
    lost = above_assigned(clearing.book, clearing.assigned) & (counted >= offers["base"][rows["offer"]])
    if clearing.rule == "vcg":
        lost &= np.repeat(clearing.assigned == NONE, np.diff(clearing.book.starts))
    return rows["offer"][lost], counted[lost]


def test_losing_bids_are_counted_by_their_distance_below_the_price() -> None:
    found = cleared(book(900, 800, 792, 791, 760, 720, 719, 600, 599, 150, 99))
    assert found.prices[1].public == 800
    assert depth(found) == {1: (2, 2, 1, 2, 2)}


def test_a_posted_price_counts_whoever_came_too_late_as_near() -> None:
    assert depth(cleared(book(900, 800, 100, 99), "first_come")) == {1: (2, 0, 0, 0, 0)}


def test_an_empty_type_has_no_depth() -> None:
    assert depth(cleared(book())) == {1: (0, 0, 0, 0, 0)}


def test_by_vcg_what_a_winner_did_not_get_is_no_losing_bid() -> None:
    offers = (Offer(1, 1, 100, 1000), Offer(2, 1, 100, 1000))
    both = Participant(2, 1, 1, (Row(1, 600, 0), Row(2, 900, 0)))
    found = Book(offers, (both, Participant(4, 2, 2, (Row(1, 700, 0),)), Participant(6, 3, 3, (Row(1, 650, 0),))))
    assert depth(cleared(found, "launch_table"))[1] == (1, 0, 1, 0, 0)
    assert depth(cleared(found, "vcg")) == {1: (1, 0, 0, 0, 0), 2: (0, 0, 0, 0, 0)}


@many
@given(books(), st.sampled_from(["launch_table", "first_come"]))
def test_arrays_are_counted_as_objects_were(found: Book, rule: str) -> None:
    assert depth(cleared(found, rule)) == objects_depth.depth(found, objects.RULES[rule](found))


@many
@given(books(), st.sampled_from(["launch_table", "vcg"]))
def test_every_rejected_proposal_is_counted_once(found: Book, rule: str) -> None:
    result = cleared(found, rule)
    places, bids = losing_bids(result)
    for place, (kind, price) in enumerate(result.prices.items()):
        assert (places == place).sum() == price.rejected == sum(depth(result)[kind])
        assert all(bids[places == place] <= price.public)


@many
@given(books(), st.sampled_from(["launch_table", "first_come"]), st.data())
def test_what_a_winner_bids_more_moves_neither_depth_nor_prices(found: Book, rule: str, data: st.DataObject) -> None:
    result = cleared(found, rule)
    winners = [one for one in found.participants if result.assignment[one.id] is not None]
    if not winners:
        return
    winner = data.draw(st.sampled_from(winners))
    more = data.draw(st.integers(1, 50))
    won = result.assignment[winner.id]
    rows = tuple(replace(row, bid=row.bid + more) if row.type == won else row for row in winner.rows)
    raised = replace(
        found, participants=tuple(replace(one, rows=rows) if one is winner else one for one in found.participants)
    )
    assert outcome(cleared(raised, rule)) == outcome(result)
    assert depth(cleared(raised, rule)) == depth(result)


@many
@given(books())
def test_by_vcg_depth_shows_no_row_of_a_winner(found: Book) -> None:
    result = cleared(found, "vcg")
    losers = tuple(one for one in found.participants if result.assignment[one.id] is None)
    lost = dict.fromkeys(result.prices, 0)
    for one in losers:
        for row in one.rows:
            offer = next(offer for offer in found.offers if offer.type == row.type)
            lost[row.type] += min(offer.cap, row.bid) >= offer.base
    assert {kind: sum(counts) for kind, counts in depth(result).items()} == lost
    assert (result.assigned == NONE).sum() == len(losers)
