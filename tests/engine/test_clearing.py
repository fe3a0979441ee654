from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from markets.engine.book import Book as ArrayBook
from markets.engine.book import Offer, Participant, Row
from markets.engine.clearing import RULES
from markets.engine.clearing_invariants import check_clearing
from tests.engine.books import books, cleared, outcome
from tests.engine.objects import clearing as objects
from tests.engine.objects.book import Book
from tests.engine.reference import bid_at, counted_bid, naive_clear, rows_above, stable_assignments

many = settings(max_examples=100, deadline=None)
NEW = 900


def newcomer(*rows: Row, tenant: int = NEW) -> Participant:
    return Participant(NEW, NEW, tenant, rows)


def plus(book: Book, one: Participant) -> Book:
    return replace(book, participants=(*book.participants, one))


@st.composite
def newcomers(draw, book: Book) -> Participant:
    order = draw(st.permutations([offer.type for offer in book.offers]))
    rows = tuple(Row(type_id, draw(st.integers(1, 20)), 9) for type_id in order[: draw(st.integers(1, 4))])
    return newcomer(*rows)


def public_prices(clearing) -> dict[int, int]:
    return {type_id: price.public for type_id, price in clearing.prices.items()}


@many
@given(books(), st.sampled_from(["launch_table", "first_come"]))
def test_arrays_are_cleared_as_objects_were(book, rule):
    assert outcome(cleared(book, rule)) == outcome(objects.RULES[rule](book))


@many
@given(books(), st.sampled_from(sorted(RULES)))
def test_a_cleared_book_cannot_be_written_to(book, rule):
    found = cleared(book, rule)
    for array in (found.book.offers, found.book.participants, found.book.starts, found.book.rows, found.assigned):
        assert not array.flags.writeable


def test_a_book_that_a_loop_would_read_beside_is_refused():
    offers = [Offer(0, 1, 1, 9)]
    sound = ArrayBook.of(offers, [Participant(1, 1, 1, (Row(0, 5, 0),)), Participant(2, 2, 2, ())])
    backwards, foreign, holding, short = sound.participants[::-1], sound.rows.copy(), sound.participants.copy(), [0, 1]
    foreign["offer"], holding["holds"] = 1, 1
    for wrong in (
        replace(sound, participants=backwards),
        replace(sound, rows=foreign),
        replace(sound, participants=holding),
        replace(sound, starts=np.array(short)),
        replace(sound, starts=np.array([0, 2, 1])),
    ):
        for rule in RULES.values():
            with pytest.raises(ValueError, match="order of their ids"):
                rule(wrong, None)


@many
@given(books())
def test_the_result_is_that_of_plain_round_by_round_deferred_acceptance(book):
    expected = naive_clear(book)
    found = cleared(book)
    assert found.assignment == expected.assignment
    assert found.prices == expected.prices


@many
@given(books(), st.randoms(use_true_random=False))
def test_the_order_of_processing_means_nothing(book, chance):
    participants, offers = list(book.participants), list(book.offers)
    chance.shuffle(participants)
    chance.shuffle(offers)
    assert outcome(cleared(Book(tuple(offers), tuple(participants)))) == outcome(cleared(book))


@settings(max_examples=80, deadline=None)
@given(books(most_participants=4, most_types=3))
def test_everybody_gets_the_best_of_all_stable_assignments_and_prices_are_the_lowest(book):
    found = cleared(book)
    for other in stable_assignments(book):
        for one in book.participants:
            better = rows_above(one, found.assignment[one.id])
            assert other[one.id] not in [row.type for row in better]
        for offer in book.offers:
            rejected = [
                counted_bid(book, row)
                for one in book.participants
                for row in rows_above(one, other[one.id])
                if row.type == offer.type and counted_bid(book, row) >= offer.base
            ]
            assert found.prices[offer.type].public <= max([offer.base, *rejected])


@many
@given(books())
def test_base_lease_public_and_every_winners_bid_stand_in_this_order_and_nobody_envies(book):
    found = cleared(book)
    assert check_clearing(found.book, found) == []
    for offer in book.offers:
        price = found.prices[offer.type]
        assert offer.base <= price.lease <= price.public
        for one in book.participants:
            if found.assignment[one.id] == offer.type:
                assert price.public <= bid_at(book, one, offer.type)
    for one in book.participants:
        for row in rows_above(one, found.assignment[one.id]):
            assert counted_bid(book, row) <= found.prices[row.type].public


@many
@given(books(), st.data())
def test_more_supply_never_raises_a_price(book, data):
    more = data.draw(st.sampled_from(book.offers))
    offers = tuple(replace(offer, supply=offer.supply + (offer == more)) for offer in book.offers)
    before, after = public_prices(cleared(book)), public_prices(cleared(replace(book, offers=offers)))
    assert all(after[type_id] <= before[type_id] for type_id in before)


@many
@given(books(), st.data())
def test_a_new_job_never_lowers_a_price(book, data):
    after = public_prices(cleared(plus(book, data.draw(newcomers(book)))))
    before = public_prices(cleared(book))
    assert all(after[type_id] >= before[type_id] for type_id in before)


@many
@given(books(), st.data())
def test_a_losing_bid_below_the_price_changes_nothing(book, data):
    before = cleared(book)
    rows = []
    for offer in data.draw(st.permutations(book.offers)):
        bid = data.draw(st.integers(1, before.prices[offer.type].public))
        rows.append(Row(offer.type, min(bid, before.prices[offer.type].public - 1), 9))
    assume(all(row.bid > 0 for row in rows))
    after = cleared(plus(book, newcomer(*rows)))
    assert after.assignment == {**before.assignment, NEW: None}
    assert public_prices(after) == public_prices(before)


@many
@given(st.lists(st.integers(1, 30), max_size=8), st.integers(0, 5), st.integers(1, 10))
def test_one_type_with_k_units_is_the_vickrey_auction(bids, supply, base):
    book = Book(
        (Offer(0, supply, base, 1000),),
        tuple(Participant(n, n, n, (Row(0, bid, 0),)) for n, bid in enumerate(bids)),
    )
    found = cleared(book)
    counted = sorted((bid for bid in bids if bid >= base), reverse=True)
    assert sorted((bids[n] for n, won in found.assignment.items() if won is not None), reverse=True) == counted[:supply]
    assert found.prices[0].public == max([base, *counted[supply : supply + 1]])


@settings(max_examples=60, deadline=None)
@given(books(most_participants=5, most_types=3, distinct=True, tenants=99), st.data())
def test_a_job_cannot_do_better_in_its_own_order_by_misstating_bids_or_order(book, data):
    assume(book.participants)
    liar = data.draw(st.sampled_from(book.participants))
    truth = cleared(book)
    wanted = {row.type: counted_bid(book, row) for row in rows_above(liar, truth.assignment[liar.id])}
    bids = data.draw(st.lists(st.integers(1, 150), min_size=len(liar.rows), max_size=len(liar.rows)))
    for order in permutations(liar.rows):
        for kept in range(1, len(order) + 1):
            told = tuple(replace(row, bid=bid) for row, bid in zip(order[:kept], bids, strict=False))
            others = tuple(replace(one, rows=told) if one == liar else one for one in book.participants)
            lie = cleared(replace(book, participants=others))
            got = lie.assignment[liar.id]
            assert got not in wanted or lie.prices[got].lease >= wanted[got]


@many
@given(books(), st.integers(2, 1000))
def test_scaling_all_amounts_scales_the_prices(book, factor):
    scaled = Book(
        tuple(replace(offer, base=offer.base * factor, cap=offer.cap * factor) for offer in book.offers),
        tuple(
            replace(one, rows=tuple(replace(row, bid=row.bid * factor) for row in one.rows))
            for one in book.participants
        ),
    )
    before, after = cleared(book), cleared(scaled)
    assert after.assignment == before.assignment
    for type_id, price in before.prices.items():
        assert after.prices[type_id].public == factor * price.public
        assert after.prices[type_id].lease == factor * price.lease


@many
@given(books(distinct=True), st.randoms(use_true_random=False))
def test_renaming_jobs_and_types_changes_nothing_without_ties(book, chance):
    jobs = [one.id for one in book.participants]
    types = [offer.type for offer in book.offers]
    new_job = dict(zip(jobs, chance.sample(range(100, 200), len(jobs)), strict=True))
    new_type = dict(zip(types, chance.sample(range(100, 200), len(types)), strict=True)) | {None: None}
    renamed = Book(
        tuple(replace(offer, type=new_type[offer.type]) for offer in book.offers),
        tuple(
            Participant(
                new_job[one.id],
                new_job[one.id],
                one.tenant,
                tuple(replace(row, type=new_type[row.type]) for row in one.rows),
                new_type[one.holds],
            )
            for one in book.participants
        ),
    )
    before, after = cleared(book), cleared(renamed)
    assert after.assignment == {new_job[one]: new_type[won] for one, won in before.assignment.items()}
    for type_id, price in before.prices.items():
        assert after.prices[new_type[type_id]].public == price.public
        assert after.prices[new_type[type_id]].lease == price.lease


@many
@given(books(), st.data())
def test_a_holder_at_the_cap_is_not_outbid_by_a_new_bid(book, data):
    offer = data.draw(st.sampled_from(book.offers))
    assume(offer.supply > 0)
    book = replace(book, participants=tuple(replace(one, holds=None) for one in book.participants))
    holder = Participant(800, 800, 800, (Row(offer.type, offer.cap, 99),), offer.type)
    crowded = plus(plus(book, holder), newcomer(Row(offer.type, 10**6, 0)))
    assert cleared(crowded).assignment[800] == offer.type


@many
@given(books(tenants=1))
def test_a_tenant_alone_pays_the_base_price_whatever_its_own_losing_bids(book):
    found = cleared(book)
    assert all(found.prices[offer.type].lease == offer.base for offer in book.offers)


def test_one_tenants_winners_pay_the_best_rejected_bid_of_another_tenant():
    rows = {1: (10, 100), 2: (10, 90), 3: (20, 70), 4: (20, 60)}
    book = Book(
        (Offer(0, 1, 50, 200),),
        tuple(Participant(n, n, tenant, (Row(0, bid, 0),)) for n, (tenant, bid) in rows.items()),
    )
    price = cleared(book).prices[0]
    assert (price.public, price.lease, price.setter) == (90, 70, 2)


def test_a_tenant_beside_rivals_gets_no_exemption():
    rows = {1: (10, 100), 2: (20, 95), 3: (10, 90)}
    book = Book(
        (Offer(0, 2, 50, 200),),
        tuple(Participant(n, n, tenant, (Row(0, bid, 0),)) for n, (tenant, bid) in rows.items()),
    )
    price = cleared(book).prices[0]
    assert (price.public, price.lease) == (90, 90)


def tie(*, holds=(None, None), accepted=(0, 0), jobs=(1, 2)) -> int:
    """Return the index of the winner of one unit between two equal bids."""
    book = Book(
        (Offer(0, 1, 1, 100),),
        tuple(Participant(n, jobs[n], n, (Row(0, 50, accepted[n]),), holds[n]) for n in range(2)),
    )
    return 0 if cleared(book).assignment[0] == 0 else 1


def test_ties_go_to_the_holder_then_to_the_earlier_bid_then_to_the_lower_job_id():
    assert tie(holds=(None, 0), accepted=(0, 5)) == 1
    assert tie(accepted=(5, 3)) == 1
    assert tie(jobs=(9, 4)) == 1


def test_bids_count_at_most_the_cap_so_a_holder_at_the_cap_ties_with_any_higher_bid():
    book = Book(
        (Offer(0, 1, 1, 100),),
        (Participant(1, 1, 1, (Row(0, 100, 9),), 0), Participant(2, 2, 2, (Row(0, 5000, 0),))),
    )
    found = cleared(book)
    assert found.assignment == {1: 0, 2: None}
    assert found.prices[0].public == 100


def test_a_row_below_the_base_price_or_of_a_foreign_type_is_out():
    book = Book((Offer(0, 1, 10, 100),), (Participant(1, 1, 1, (Row(7, 50, 0), Row(0, 9, 0))),))
    found = cleared(book)
    assert found.assignment == {1: None}
    assert found.prices[0].public == 10
    assert found.prices[0].rejected == 0


def test_a_displacement_chain_of_thousands_is_no_recursion():
    length = 5000
    chain = tuple(Participant(n, n, n, (Row(n, 10, 0), Row(n + 1, 20, 0))) for n in range(length))
    pusher = Participant(length, length, length, (Row(0, 15, 0),))
    found = cleared(Book(tuple(Offer(n, 1, 1, 100) for n in range(length + 1)), (*chain, pusher)))
    assert found.assignment[length] == 0
    assert all(found.assignment[n] == n + 1 for n in range(length))


@many
@given(books())
def test_first_come_never_evicts_and_posts_the_base_prices(book):
    seats = {offer.type: offer.supply for offer in book.offers}
    participants = []
    for one in book.participants:
        holds = one.holds if one.holds is not None and seats[one.holds] > 0 else None
        if holds is not None:
            seats[holds] -= 1
        participants.append(replace(one, holds=holds))
    book = replace(book, participants=tuple(participants))
    found = cleared(book, "first_come")
    for one in participants:
        if one.holds is not None:
            names = [row.type for row in one.rows]
            assert names.index(found.assignment[one.id]) <= names.index(one.holds)
    for offer in book.offers:
        assert found.prices[offer.type].public == found.prices[offer.type].lease == offer.base
        assert list(found.assignment.values()).count(offer.type) <= offer.supply


def test_first_come_serves_the_earlier_bid_though_the_later_is_higher():
    book = Book(
        (Offer(0, 1, 10, 100),),
        (Participant(1, 1, 1, (Row(0, 90, 5),)), Participant(2, 2, 2, (Row(0, 20, 3),))),
    )
    assert cleared(book, "first_come").assignment == {1: None, 2: 0}


def test_clusters_choose_a_rule_by_name():
    assert set(RULES) == {"launch_table", "first_come", "vcg"}
