"""A former clearing saves time and changes nothing: random books that change a little, with many ties."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markets.engine.book import NONE, Book, Offer, Participant, Row
from markets.engine.clearing import RULES, Clearing
from markets.engine.clearing_invariants import check_clearing
from tests.bench.shapes import chain, changed, market
from tests.engine.books import books, cleared, outcome
from tests.engine.objects import book as values
from tests.engine.objects import clearing as objects


class Walk:
    """A book that changes at random: bids up and down, arrivals, departures, holders, supply, now and then prices."""

    def __init__(self, seed: int, *, participants: int, types: int) -> None:
        self.chance = random.Random(seed)
        self.offers = [Offer(number, self.chance.randint(0, 4), 3, 9) for number in range(types)]
        self.participants = {}
        self.newest = 0
        for _ in range(participants):
            self.arrive()

    def arrive(self) -> None:
        kinds = self.chance.sample(range(len(self.offers)), self.chance.randint(0, min(5, len(self.offers))))
        rows = tuple(Row(kind, self.chance.randint(1, 12), self.chance.randint(0, 2)) for kind in kinds)
        self.newest += self.chance.randint(1, 2)
        tenant, holds = self.chance.randint(0, 2), self.chance.choice([None, *kinds])
        self.participants[self.newest] = Participant(self.newest, self.newest // 2, tenant, rows, holds)

    def depart(self) -> None:
        if self.participants:
            del self.participants[self.chance.choice(list(self.participants))]

    def bid(self) -> None:
        one = self.anybody()
        if one is not None and one.rows:
            place = self.chance.randrange(len(one.rows))
            row = one.rows[place]
            bid = max(1, row.bid + self.chance.randint(-5, 5))
            rows = (*one.rows[:place], Row(row.type, bid, self.chance.randint(0, 2)), *one.rows[place + 1 :])
            self.participants[one.id] = replace(one, rows=rows)

    def hold(self) -> None:
        one = self.anybody()
        if one is not None:
            kinds = [None, *(offer.type for offer in self.offers)]
            self.participants[one.id] = replace(one, holds=self.chance.choice(kinds), tenant=self.chance.randint(0, 2))

    def supply(self) -> None:
        place = self.chance.randrange(len(self.offers))
        offer = self.offers[place]
        self.offers[place] = replace(offer, supply=max(0, offer.supply + self.chance.choice([-2, -1, 1, 2])))

    def price(self) -> None:
        place = self.chance.randrange(len(self.offers))
        self.offers[place] = replace(self.offers[place], base=self.chance.randint(2, 4))

    def anybody(self) -> Participant | None:
        return self.participants[self.chance.choice(list(self.participants))] if self.participants else None

    def step(self) -> None:
        acts = [self.bid] * 10 + [self.arrive, self.depart, self.hold] * 2 + [self.supply] * 3
        for _ in range(self.chance.choice([0, 1, 1, 2, 3, 8])):
            self.chance.choice(acts)()
        if self.chance.random() < 0.03:
            self.price()

    def book(self) -> values.Book:
        return values.Book(tuple(self.offers), tuple(self.participants.values()))


@pytest.mark.parametrize("rule", ["launch_table", "vcg"])
@pytest.mark.parametrize("seed", range(40))
def test_on_a_walk_each_clearing_from_the_one_before_is_that_from_nothing(seed: int, rule: str) -> None:
    walk = Walk(seed, participants=1 + seed, types=1 + seed % 8)
    former = None
    for _ in range(60):
        book = walk.book()
        found = cleared(book, rule, former)
        assert outcome(found) == outcome(cleared(book, rule))
        if rule == "launch_table":
            assert outcome(found) == outcome(objects.clear(book))
        former = found if walk.chance.random() < 0.9 else former
        walk.step()


@settings(max_examples=300, deadline=None)
@given(books(), books(), st.sampled_from(sorted(RULES)), st.sampled_from(sorted(RULES)))
def test_any_former_clearing_by_whatever_rule_changes_nothing(before, book, rule, former_rule) -> None:
    alike = replace(before, offers=book.offers) if len(before.offers) <= len(book.offers) else before
    assert outcome(cleared(book, rule, cleared(alike, former_rule))) == outcome(cleared(book, rule))


def marks_for(types: int) -> st.SearchStrategy[np.ndarray]:
    """Any marks: below all, above all, or at or between the few ranks that small books have."""
    mark = st.tuples(st.integers(NONE, 42), st.integers(0, 3), st.integers(0, 9), st.integers(0, 9))
    return st.lists(mark, min_size=types, max_size=types).map(lambda marks: np.array(marks, dtype=np.int64))


@settings(max_examples=1000, deadline=None)
@given(books(), st.data())
def test_whatever_marks_it_starts_from_a_clearing_is_that_from_nothing(book, data) -> None:
    cold = cleared(book)
    guess = replace(cold, marks=data.draw(marks_for(len(book.offers))))
    assert outcome(cleared(book, former=guess)) == outcome(cold)


@pytest.mark.parametrize("seed", range(12))
def test_from_marks_far_off_a_larger_book_with_ties_is_cleared_as_from_nothing(seed: int) -> None:
    chance = np.random.default_rng(seed)
    book = market(600, seed=seed, types=6)
    ranked = chance.integers(0, len(book.rows), len(book.offers))
    cold = RULES["launch_table"](book, None)
    for standing in (NONE, *chance.integers(500_000, 4_200_000, 3).tolist()):
        marks = np.column_stack((np.full(len(book.offers), standing), ranked, ranked, ranked))
        assert_same(RULES["launch_table"](book, replace(cold, marks=marks)), cold)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.01, 0.2, 1.0])
@pytest.mark.parametrize("supply", [0, 1, 2])
def test_a_larger_book_is_cleared_alike_however_much_has_changed(seed: int, share: float, supply: int) -> None:
    before = market(2_000, seed=seed, types=10)
    book = changed(before, share, seed=seed + 1)
    offers = book.offers.copy()
    offers["supply"][::2] *= supply
    book = replace(book, offers=offers)
    found = RULES["launch_table"](book, RULES["launch_table"](before, None))
    assert_same(found, RULES["launch_table"](book, None))
    assert check_clearing(book, found) == []


def test_a_chain_of_displacements_that_has_begun_anew_ends_where_it_would_from_nothing() -> None:
    book = chain(301)
    cold = RULES["launch_table"](book, None)
    assert_same(RULES["launch_table"](book, cold), cold)
    below_all = np.full((len(book.offers), 4), NONE)
    assert_same(RULES["launch_table"](book, replace(cold, marks=below_all)), cold)


def test_base_and_cap_prices_may_change_between_two_clearings() -> None:
    before = market(500, seed=1, types=5)
    former = RULES["launch_table"](before, None)
    for base, cap in ((300_000, 900_000), (1_400_000, 2_000_000), (1, 9_000_000)):
        offers = before.offers.copy()
        offers["base"], offers["cap"] = base, cap
        book = replace(before, offers=offers)
        assert_same(RULES["launch_table"](book, former), RULES["launch_table"](book, None))


def test_of_equal_bids_at_the_price_each_keeps_its_rank() -> None:
    offers = [Offer(1, 2, 5, 9)]
    people = [Participant(number, number, number, (Row(1, 9, number % 3),)) for number in range(9)]
    former = RULES["launch_table"](Book.of(offers, people), None)
    for gone in range(9):
        book = Book.of(offers, [*people[:gone], *people[gone + 1 :]])
        assert_same(RULES["launch_table"](book, former), RULES["launch_table"](book, None))


def assert_same(found: Clearing, cold: Clearing) -> None:
    """Two clearings of one book agree in all that they say, and in where a later one would start."""
    assert np.array_equal(found.assigned, cold.assigned)
    assert found.prices == cold.prices
    assert np.array_equal(found.marks, cold.marks)


def rotating() -> tuple[values.Book, values.Book]:
    """Two who would rather swap, and the third whose bid kept them from it; in the second book that bid is gone."""
    offers = (Offer(0, 1, 1, 100), Offer(1, 1, 1, 100))
    one = Participant(1, 1, 1, (Row(0, 10, 0), Row(1, 20, 0)))
    two = Participant(2, 2, 2, (Row(1, 10, 0), Row(0, 20, 0)))
    third = Participant(3, 3, 3, (Row(0, 15, 0),))
    return values.Book(offers, (one, two, third)), values.Book(offers, (one, two))


def test_whoever_would_swap_does_so_once_the_third_who_kept_them_from_it_is_gone() -> None:
    before, after = rotating()
    former = cleared(before)
    assert former.assignment == {1: 1, 2: 0, 3: None}
    assert cleared(after, former=former).assignment == {1: 0, 2: 1}


def test_a_clearing_whose_rule_is_not_known_starts_nobody() -> None:
    before, after = rotating()
    wrong = cleared(before)
    foreign = Clearing(wrong.book, wrong.assigned[::-1].copy(), wrong.prices)
    assert outcome(cleared(after, former=foreign)) == outcome(cleared(after))


def test_what_was_cleared_before_is_found_by_id_and_not_by_place() -> None:
    offers = [Offer(0, 2, 1, 9)]
    many = [Participant(number, number, number, (Row(0, 1 + number, 0),)) for number in range(6)]
    former = RULES["launch_table"](Book.of(offers, many), None)
    later = Book.of(offers, [*many[2:5], Participant(7, 7, 7, (Row(0, 4, 0),))])
    assert RULES["launch_table"](later, former).assignment == {2: None, 3: 0, 4: 0, 7: None}
