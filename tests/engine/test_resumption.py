"""A former clearing saves time and changes nothing: random books that change a little, with many ties."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import RULES, Clearing
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
