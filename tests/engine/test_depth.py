"""How deep the losing side is, in counts that no winner's bid moves."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import RULES, clear, clear_first_come
from markets.engine.depth import depth, losing_bids
from tests.engine.books import books

many = settings(max_examples=100, deadline=None)


def book(*bids: int, supply: int = 1, cap: int = 1000) -> Book:
    rows = [Participant(2 * job, job, job, (Row(1, bid, job),)) for job, bid in enumerate(bids, 1)]
    return Book((Offer(1, supply, 100, cap),), tuple(rows))


def test_losing_bids_are_counted_by_their_distance_below_the_price() -> None:
    found = book(900, 800, 792, 791, 760, 720, 719, 600, 599, 150, 99)
    assert clear(found).prices[1].public == 800
    assert depth(found, clear(found)) == {1: (2, 2, 1, 2, 2)}


def test_a_posted_price_counts_whoever_came_too_late_as_near() -> None:
    found = book(900, 800, 100, 99)
    assert depth(found, clear_first_come(found)) == {1: (2, 0, 0, 0, 0)}


def test_an_empty_type_has_no_depth() -> None:
    assert depth(book(), clear(book())) == {1: (0, 0, 0, 0, 0)}


@many
@given(books())
def test_every_rejected_proposal_is_counted_once(found: Book) -> None:
    cleared = clear(found)
    lost = losing_bids(found, cleared)
    assert {kind: len(bids) for kind, bids in lost.items()} == {
        kind: price.rejected for kind, price in cleared.prices.items()
    }
    assert {kind: sum(counts) for kind, counts in depth(found, cleared).items()} == {
        kind: len(bids) for kind, bids in lost.items()
    }
    for kind, bids in lost.items():
        assert all(bid <= cleared.prices[kind].public for bid in bids)


@many
@given(books(), st.sampled_from(sorted(RULES)), st.data())
def test_what_a_winner_bids_more_moves_neither_depth_nor_prices(found: Book, rule: str, data: st.DataObject) -> None:
    cleared = RULES[rule](found)
    winners = [one for one in found.participants if cleared.assignment[one.id] is not None]
    if not winners:
        return
    winner = data.draw(st.sampled_from(winners))
    more = data.draw(st.integers(1, 50))
    won = cleared.assignment[winner.id]
    rows = tuple(replace(row, bid=row.bid + more) if row.type == won else row for row in winner.rows)
    raised = replace(
        found, participants=tuple(replace(one, rows=rows) if one is winner else one for one in found.participants)
    )
    assert RULES[rule](raised) == cleared
    assert depth(raised, cleared) == depth(found, cleared)
