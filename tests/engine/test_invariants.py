from dataclasses import replace

import numpy as np

from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import clear
from markets.engine.clearing_invariants import check_clearing
from markets.engine.floor import Tenure, WaitingAward
from markets.engine.invariants import check_floor
from tests.engine.floors import floor, job, row

BOOK = Book.of(
    (Offer(0, 1, 10, 100), Offer(1, 1, 10, 100)),
    (
        Participant(1, 1, 1, (Row(0, 60, 0),)),
        Participant(2, 2, 2, (Row(0, 50, 0), Row(1, 40, 0))),
        Participant(3, 3, 3, (Row(1, 30, 0),)),
    ),
)


def test_a_sound_clearing_has_nothing_to_say():
    assert check_clearing(BOOK, clear(BOOK)) == []


def test_more_winners_than_units_are_seen():
    found = clear(BOOK)
    sentences = check_clearing(BOOK, replace(found, assigned=np.array([0, 0, 1])))
    assert any("winners for 1 units" in sentence for sentence in sentences)


def test_a_winner_without_a_counting_bid_is_seen():
    found = clear(BOOK)
    sentences = check_clearing(BOOK, replace(found, assigned=np.array([*found.assigned[:2], 0])))
    assert any("without a bid that counts" in sentence for sentence in sentences)


def test_envy_a_price_above_a_winners_bid_and_a_wrong_price_are_seen():
    found = clear(BOOK)
    cheap = {**found.prices, 0: replace(found.prices[0], public=20, lease=20)}
    assert any("envies" in sentence for sentence in check_clearing(BOOK, replace(found, prices=cheap)))
    dear = {**found.prices, 0: replace(found.prices[0], public=70, lease=70)}
    sentences = check_clearing(BOOK, replace(found, prices=dear))
    assert any("above its bid" in sentence for sentence in sentences)
    assert any("public price" in sentence for sentence in sentences)
    odd = {**found.prices, 0: replace(found.prices[0], lease=60)}
    sentences = check_clearing(BOOK, replace(found, prices=odd))
    assert any("lease price" in sentence for sentence in sentences)
    assert any("does not hold" in sentence for sentence in sentences)


def test_a_sound_floor_has_nothing_to_say():
    assert check_floor(floor([0, 1], job(1, row(0, 50), row(1, 40), on=(1, 1), to=(0, 0)))) == []


def test_a_unit_with_two_leases_is_seen():
    sentences = check_floor(floor([0], job(1, row(0, 50), on=(0, 0)), job(2, row(0, 50), on=(0, 0))))
    assert any("2 leases at once" in sentence for sentence in sentences)
    assert any("does not carry it" in sentence for sentence in sentences)


def test_a_third_lease_is_seen():
    closing = (Tenure(90, 2, 2, "closing", 0),)
    crowded = job(1, row(0, 50), row(1, 40), on=(1, 1), to=(0, 0), closing=closing)
    assert check_floor(floor([0, 1, 2], crowded)) == ["job 1: 3 leases at once"]


def test_an_award_beside_two_leases_and_a_destination_without_a_source_are_seen():
    mover = job(1, row(0, 50), row(1, 40), on=(1, 1), to=(0, 0))
    greedy = replace(mover, award=WaitingAward(5, 2, 0))
    assert "job 1: an award beside two leases" in check_floor(floor([0, 1, 2], greedy))
    astray = replace(mover, source=None)
    assert "job 1: a destination without a source" in check_floor(floor([0], astray))


def test_an_award_that_no_free_or_leaving_unit_backs_is_seen():
    sitter, waiting = job(1, row(0, 50), on=(0, 0)), job(2, row(0, 60), award=0)
    assert check_floor(floor([0], sitter, waiting)) == ["type 0: 1 awards wait for 0 free or leaving units"]
    warned = job(1, row(0, 50), on=(0, 0), notice=("outbid", 9))
    assert check_floor(floor([0], warned, waiting)) == []


def test_tables_out_of_order_are_seen():
    sound = floor([0, 1, 0], job(1, row(0, 50), on=(0, 0)), job(2, row(1, 40), on=(1, 1)))
    assert check_floor(sound) == []
    for name in ("types", "units", "jobs"):
        upside_down = replace(sound, **{name: getattr(sound, name)[::-1]})
        assert f"{name}: not by id, or one twice" in check_floor(upside_down)
    assert "tenures: not by job" in check_floor(replace(sound, tenures=sound.tenures[::-1]))


def test_launch_tables_that_are_not_those_of_the_jobs_are_seen():
    sound = floor([0], job(1, row(0, 50)), job(2, row(0, 50), row(1, 40)))
    for starts in ([0, 1], [0, 2, 1], [0, 1, 4]):
        wrong = replace(sound, starts=np.array(starts))
        assert check_floor(wrong) == ["starts: not the launch tables of these jobs"]


def test_a_seat_that_is_another_jobs_lease_is_seen():
    sound = floor([0, 1], job(1, row(0, 50), on=(0, 0)), job(2, row(1, 40), on=(1, 1)))
    crossed = replace(sound, jobs=sound.jobs.copy())
    crossed.jobs["source"] = crossed.jobs["source"][::-1]
    assert check_floor(crossed) == [
        "job 1: its source is another job's lease",
        "job 2: its source is another job's lease",
    ]
