"""The highest value at the lowest prices, against every assignment of small books and a flow solver on large ones."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from markets.engine.book import NONE, Offer, Participant, Row
from markets.engine.clearing import RULES, TypePrice
from markets.engine.clearing_invariants import check_vcg
from tests.bench.flow import solved_flow
from tests.bench.shapes import changed, market
from tests.engine.books import cleared, outcome
from tests.engine.objects.book import Book
from tests.engine.reference import counted_bid

Choice = tuple[int | None, ...]


def small_book(seed: int) -> Book:
    chance = random.Random(seed)
    bases = [chance.randint(1, 6) for _ in range(chance.randint(1, 4))]
    offers = tuple(
        Offer(number, chance.randint(0, 3), base, base + chance.randint(0, 12)) for number, base in enumerate(bases)
    )
    participants = []
    for number in range(chance.randint(0, 6)):
        kinds = chance.sample(range(len(offers)), chance.randint(0, len(offers)))
        rows = tuple(Row(kind, chance.randint(1, 12), chance.randint(0, 2)) for kind in kinds)
        holds = chance.choice([None, *range(len(offers))])
        participants.append(Participant(number, chance.randint(0, 3), chance.randint(0, 2), rows, holds))
    return Book(offers, tuple(participants))


def worth(book: Book, choice: Choice) -> int | None:
    """The value of an assignment, with unsold units at their base price; None where it gives more than there is."""
    total = 0
    for offer in book.offers:
        left = offer.supply - choice.count(offer.type)
        if left < 0:
            return None
        total += left * offer.base
    for one, got in zip(book.participants, choice, strict=True):
        total += sum(counted_bid(book, row) for row in one.rows if row.type == got)
    return total


def options(book: Book, one: Participant) -> list[int | None]:
    bases = {offer.type: offer.base for offer in book.offers}
    return [None, *(row.type for row in one.rows if counted_bid(book, row) >= bases[row.type])]


def best_choices(book: Book) -> tuple[int, list[Choice]]:
    """The highest value, and every assignment that has it."""
    found = {choice: worth(book, choice) for choice in product(*(options(book, one) for one in book.participants))}
    highest = max(value for value in found.values() if value is not None)
    return highest, [choice for choice, value in found.items() if value == highest]


def in_turn(book: Book, prices: dict[int, TypePrice]) -> Choice:
    """What the rule about ties says, read aloud: who is indifferent chooses in turn among the best assignments."""
    _, left = best_choices(book)
    wishes = {}
    for one in book.participants:
        gains = {kind: gain(book, one, kind, prices) for kind in options(book, one)}
        equal = [kind for kind in gains if gains[kind] == max(gains.values())]
        held = [kind for kind in equal if kind is not None and kind == one.holds]
        others = [kind for kind in equal if kind is not None and kind != one.holds]
        since = min((row.accepted_at for row in one.rows if row.type in equal), default=0)
        wishes[one] = (not held, since, one.job, one.id), held + others + [None]
    for one in sorted(book.participants, key=lambda one: wishes[one][0]):
        place = book.participants.index(one)
        for kind in wishes[one][1]:
            kept = [choice for choice in left if choice[place] == kind]
            if kept:
                left = kept
                break
    (only,) = left
    return only


def gain(book: Book, one: Participant, kind: int | None, prices: dict[int, TypePrice]) -> int:
    return sum(counted_bid(book, row) - prices[row.type].public for row in one.rows if row.type == kind)


@pytest.mark.parametrize("seed", range(0, 500, 25))
def test_value_prices_payments_and_ties_are_those_of_the_definition(seed: int) -> None:
    for book in map(small_book, range(seed, seed + 25)):
        found = cleared(book, "vcg")
        choice = tuple(found.assignment[one.id] for one in book.participants)
        highest, _ = best_choices(book)
        assert worth(book, choice) == highest
        assert choice == in_turn(book, found.prices)
        for number, one in enumerate(book.participants):
            if choice[number] is not None:
                rest = replace(book, participants=tuple(other for other in book.participants if other != one))
                without, _ = best_choices(rest)
                value = next(counted_bid(book, row) for row in one.rows if row.type == choice[number])
                assert found.prices[choice[number]].public == without - (highest - value)
        for offer in book.offers:
            more = tuple(replace(other, supply=other.supply + (other == offer)) for other in book.offers)
            assert found.prices[offer.type].public == best_choices(replace(book, offers=more))[0] - highest


@pytest.mark.parametrize("seed", range(0, 500, 100))
def test_prices_support_the_assignment_and_any_guess_leads_to_the_same(seed: int) -> None:
    chance = random.Random(seed)
    for book in map(small_book, range(seed, seed + 100)):
        found = cleared(book, "vcg")
        assert check_vcg(found.book, found) == []
        guess = {kind: TypePrice(chance.randint(1, 20), 0, None, 0, 0) for kind in found.prices}
        assert outcome(cleared(book, "vcg", replace(found, prices=guess))) == outcome(found)


def test_a_setter_is_a_loser_who_bid_the_price_and_the_best_ranked_of_those() -> None:
    for book in map(small_book, range(500)):
        found = cleared(book, "vcg")
        for offer in book.offers:
            price = found.prices[offer.type]
            losing = [
                (one.holds == offer.type, -row.accepted_at, -one.job, -one.id)
                for one in book.participants
                for row in one.rows
                if found.assignment[one.id] is None and row.type == offer.type
                if offer.base < price.public == counted_bid(book, row)
            ]
            assert price.setter == (-max(losing)[3] if losing else None)
            assert price.lease == price.public


def test_one_type_is_the_vickrey_auction() -> None:
    bids = [90, 70, 50, 30]
    participants = tuple(Participant(number, number, 1, (Row(0, bid, 0),)) for number, bid in enumerate(bids))
    found = cleared(Book((Offer(0, 2, 10, 100),), participants), "vcg")
    assert found.assignment == {0: 0, 1: 0, 2: None, 3: None}
    assert found.prices[0] == TypePrice(50, 50, 2, 2, 2)


def test_a_participant_takes_what_it_gains_most_by_whatever_the_order_of_its_table() -> None:
    table = (Row(0, 100, 0), Row(1, 90, 0))
    found = cleared(Book((Offer(0, 1, 50, 200), Offer(1, 1, 10, 200)), (Participant(1, 1, 1, table),)), "vcg")
    assert found.assignment == {1: 1}


def test_the_value_is_that_of_a_flow_solver_for_ten_thousand_jobs_on_ten_types() -> None:
    book = market(10_000, seed=4, types=10, rows=10)
    found = RULES["vcg"](book, None)
    assert check_vcg(book, found) == []
    won = np.repeat(found.assigned, np.diff(book.starts)) == book.rows["offer"]
    gains = np.minimum(book.rows["bid"], book.offers["cap"][book.rows["offer"]]) - book.offers["base"][0]
    assert gains[won].sum() == -solved_flow(book).optimal_cost()
    later = changed(book, 0.01, seed=5)
    assert outcome(RULES["vcg"](later, found)) == outcome(RULES["vcg"](later, None))


def test_when_everybody_ties_holders_stay_and_the_earliest_get_the_rest() -> None:
    offers = tuple(Offer(number, 20, 10, 100) for number in range(3))
    table = tuple(Row(number, 100, 0) for number in range(3))
    participants = tuple(
        Participant(
            number,
            number,
            0,
            tuple(replace(row, accepted_at=number) for row in table),
            None if number % 4 else number % 3,
        )
        for number in range(200)
    )
    found = cleared(Book(offers, participants), "vcg")
    for number in range(0, 200, 4):
        assert found.assignment[number] == number % 3
    served = [number for number in range(200) if number % 4 and found.assignment[number] is not None]
    assert served == [number for number in range(200) if number % 4][:10]


def test_each_thing_that_can_be_wrong_has_its_sentence() -> None:
    offers = (Offer(0, 1, 10, 100), Offer(1, 2, 10, 100))
    participants = (
        Participant(1, 1, 1, (Row(0, 60, 0),)),
        Participant(2, 2, 2, (Row(0, 50, 0), Row(1, 40, 0))),
        Participant(3, 3, 3, (Row(1, 9, 0),)),
    )
    found = cleared(Book(offers, participants), "vcg")
    assert found.assignment == {1: 0, 2: 1, 3: None}
    for wrong, words in (
        (replace(found, assigned=np.array([0, 0, NONE])), "2 winners for 1 units"),
        (replace(found, assigned=np.array([0, NONE, NONE])), "0 winners, 1 accepted"),
        (replace(found, assigned=np.array([0, 1, 1])), "without a bid that counts"),
        (priced(found, 0, 70), "above its bid"),
        (priced(found, 0, 15), "gains more"),
        (priced(found, 1, 20), "units are left at 20"),
        (priced(found, 0, 20, lease=10), "not the public price"),
        (priced(found, 1, 9), "does not hold"),
    ):
        assert any(words in sentence for sentence in check_vcg(found.book, wrong)), words


def priced(found, kind: int, public: int, lease: int | None = None):
    price = replace(found.prices[kind], public=public, lease=public if lease is None else lease)
    return replace(found, prices={**found.prices, kind: price})


def test_a_holder_at_the_cap_is_not_outbid_by_a_new_bid() -> None:
    for seed in range(200):
        book = small_book(seed)
        offer = book.offers[seed % len(book.offers)]
        if offer.supply == 0:
            continue
        nobody = tuple(replace(one, holds=None) for one in book.participants)
        holder = Participant(800, 800, 800, (Row(offer.type, offer.cap, 99),), offer.type)
        newcomer = Participant(900, 900, 900, (Row(offer.type, 10**6, 0),))
        assert cleared(Book(book.offers, (*nobody, holder, newcomer)), "vcg").assignment[800] == offer.type
