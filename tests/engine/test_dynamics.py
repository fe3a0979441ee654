from dataclasses import replace

import pytest

from markets.engine.book import Participant
from markets.engine.dynamics import (
    CloseAward,
    CoolDown,
    ExecuteNotice,
    GiveNotice,
    HandOver,
    LapseMove,
    OpenAward,
    ReturnDestination,
    WithdrawNotice,
    book_of,
    cool_down,
    gives_source_back,
    next_deadline,
    plan,
    prices_paid,
)
from markets.engine.floor import FloorJob, Tenure
from tests.engine.agreement import book_values
from tests.engine.floors import NOTICE, floor, job, row


def actions(a_floor, rule: str = "launch_table") -> list:
    return list(plan(a_floor, rule).actions)


def participants(a_floor) -> tuple[Participant, ...]:
    return book_values(book_of(a_floor)).participants


def rows_in_book(a_floor, job_id: int) -> list[tuple[int, int]]:
    return [(r.type, r.bid) for one in participants(a_floor) if one.job == job_id for r in one.rows]


def gives_back(one: FloorJob) -> bool:
    return gives_source_back(floor([0, 1], one)).item()


def paid_by_lease(a_floor) -> dict[int, int]:
    paid = prices_paid(a_floor, plan(a_floor).clearing)
    return dict(zip(a_floor.tenures["lease"].tolist(), paid.tolist(), strict=True))


# The book


def test_a_queued_job_bids_all_its_rows_at_max_and_holds_what_it_was_awarded():
    a_floor = floor([0], job(1, row(0, 50, 70), row(1, None), award=0))
    (one,) = participants(a_floor)
    assert [(r.type, r.bid) for r in one.rows] == [(0, 50), (1, 100)]
    assert one.holds == 0


def test_a_running_job_bids_keep_where_it_runs_and_max_below_and_nothing_above():
    a_floor = floor([1], job(1, row(0, 50), row(1, 40, 60), row(2, 30, 35), on=(0, 1)))
    assert rows_in_book(a_floor, 1) == [(1, 60), (2, 30)]


def test_a_keep_price_counts_as_at_least_the_max_price():
    assert rows_in_book(floor([1], job(1, row(1, 60, 40), on=(0, 1))), 1) == [(1, 60)]
    assert rows_in_book(floor([1], job(1, row(1, None, 40), on=(0, 1))), 1) == [(1, 100)]


def test_a_seeking_job_also_bids_the_rows_above_unless_they_cool_down():
    seeker = job(1, row(0, 50), row(1, 40, closed_until=9), row(2, 30), on=(0, 2), seeking=True)
    assert rows_in_book(floor([2], seeker, now=5), 1) == [(0, 50), (2, 30)]
    assert rows_in_book(floor([2], seeker, now=9), 1) == [(0, 50), (1, 40), (2, 30)]


def test_a_job_on_two_units_takes_part_once_for_each():
    mover = job(1, row(0, 50, 55), row(1, 40, 45), row(2, 30), on=(1, 1), to=(0, 0), seeking=True)
    main, source = sorted(participants(floor([0, 1], mover)), key=lambda one: one.holds)
    assert ([(r.type, r.bid) for r in main.rows], main.holds) == ([(0, 55)], 0)
    assert ([(r.type, r.bid) for r in source.rows], source.holds) == ([(1, 45)], 1)
    assert main.tenant == source.tenant


def test_supply_counts_usable_units_occupied_or_not():
    a_floor = floor([0, 0, 0], job(1, row(0, 50), on=(0, 0)), broken=(2,))
    assert book_of(a_floor).offers["supply"].tolist() == [2, 0, 0]


def test_a_job_on_an_unusable_unit_bids_like_a_queued_one_and_is_no_holder():
    (one,) = participants(floor([0], job(1, row(1, 40), row(0, 50, 70), on=(0, 0)), broken=(0,)))
    assert [(r.type, r.bid) for r in one.rows] == [(1, 40), (0, 50)]
    assert one.holds is None


# Awards and hand-overs


def test_a_free_unit_goes_to_the_winner_at_once():
    assert actions(floor([0, 1], job(1, row(0, 50)))) == [OpenAward(1, 0), HandOver(1, 0, 0, None)]


def test_a_free_unit_goes_to_the_earliest_award_of_its_type():
    leaver = Tenure(99, 1, 0, "closing", 0)
    late, early = job(1, row(0, 90), award=0, since=7), job(2, row(0, 20), award=0, since=3, closing=(leaver,))
    assert actions(floor([0, 0], late, early, now=8)) == [HandOver(2, 0, 0, 2000)]


def test_an_award_lasts_only_while_the_clearing_repeats_it():
    sitter = job(3, row(0, 95), on=(0, 0))
    better, outdone = job(1, row(0, 90)), job(2, row(0, 20), award=0)
    assert actions(floor([0, 0], sitter, better, outdone)) == [
        OpenAward(1, 0),
        CloseAward(2000, 2),
        HandOver(1, 0, 1, None),
    ]


def test_a_job_with_two_leases_waits_for_a_third():
    closing = (Tenure(98, 1, 1, "closing", 0), Tenure(99, 2, 2, "closing", 0))
    waiting = job(1, row(0, 50), award=0, closing=closing)
    assert actions(floor([0, 1, 2], waiting)) == []


# Notices


def test_an_outbid_holder_gets_a_notice_and_its_fall_back():
    holder, rival = job(1, row(0, 40), row(1, 30), on=(0, 0)), job(2, row(0, 60))
    assert actions(floor([0, 1], holder, rival, now=5)) == [
        OpenAward(1, 1),
        OpenAward(2, 0),
        HandOver(1, 1, 1, None),
        GiveNotice(10, 1, "outbid", 5 + NOTICE),
    ]


def test_a_base_price_above_the_keep_price_is_told_as_such():
    assert actions(floor([0], job(1, row(0, 9), on=(0, 0)))) == [GiveNotice(10, 1, "below_base", NOTICE)]


def test_a_job_on_a_draining_unit_is_told_and_given_another_one():
    drained = job(1, row(0, 40), on=(0, 0))
    assert actions(floor([0, 0], drained, broken=(0,))) == [
        OpenAward(1, 0),
        HandOver(1, 0, 1, None),
        GiveNotice(10, 1, "drained", NOTICE),
    ]


def test_a_raised_bid_withdraws_the_notice():
    holder = job(1, row(0, 80), on=(0, 0), notice=("outbid", 9))
    rival = job(2, row(0, 60), award=0)
    assert actions(floor([0], holder, rival)) == [CloseAward(2000, 2), WithdrawNotice(100, 10, 1)]


def test_a_notice_that_is_not_the_markets_own_is_not_withdrawn_but_executed():
    holder = job(1, row(0, 80), on=(0, 0), notice=("budget", 9))
    assert actions(floor([0], holder, now=8)) == []
    assert actions(floor([0], holder, now=9)) == [ExecuteNotice(100, 10, 1)]


def test_the_deadline_executes_the_notice():
    holder, rival = job(1, row(0, 40), on=(0, 0), notice=("outbid", 9)), job(2, row(0, 60), award=0)
    assert next_deadline(floor([0], holder, rival, now=8)) == 9
    assert actions(floor([0], holder, rival, now=8)) == []
    assert actions(floor([0], holder, rival, now=9)) == [ExecuteNotice(100, 10, 1)]


def test_a_winner_of_a_better_row_gets_a_notice_only_when_its_unit_is_claimed():
    # Job 1 sits on type 1 and has won type 0, whose only unit job 2 is leaving.
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), award=0, seeking=True)
    outbid = job(2, row(0, 40), on=(0, 0), notice=("outbid", 20))
    assert actions(floor([0, 1], mover, outbid)) == []
    claimant = job(3, row(1, 30))
    assert actions(floor([0, 1], mover, outbid, claimant)) == [OpenAward(3, 1), GiveNotice(10, 1, "claimed", NOTICE)]


def test_claims_hit_the_lowest_bid_first_but_a_notice_once_given_does_not_wander():
    movers = [job(n, row(0, 60), row(1, 40 + n), on=(n, 1), award=0, seeking=True) for n in (1, 2)]
    sitters = [job(n, row(0, 20), on=(n, 0), notice=("outbid", 20)) for n in (3, 4)]
    claimant = job(5, row(1, 30), award=1)
    units = [2, 1, 1, 0, 0]
    assert actions(floor(units, *movers, *sitters, claimant)) == [GiveNotice(10, 1, "claimed", NOTICE)]
    warned = job(2, row(0, 60), row(1, 42), on=(2, 1), award=0, seeking=True, notice=("claimed", 20))
    assert actions(floor(units, movers[0], warned, *sitters, claimant)) == []


def test_a_claim_is_withdrawn_when_nobody_claims_the_unit_any_more():
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), award=0, seeking=True, notice=("claimed", 20))
    outbid = job(2, row(0, 40), on=(0, 0), notice=("outbid", 20))
    assert actions(floor([0, 1], mover, outbid)) == [WithdrawNotice(100, 10, 1)]


def test_a_unit_that_is_being_left_already_satisfies_a_claim():
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), award=0, seeking=True)
    outbid = job(2, row(0, 40), on=(0, 0), notice=("outbid", 20), closing=(Tenure(99, 2, 1, "closing", 0),))
    assert actions(floor([0, 1, 1], mover, outbid, job(3, row(1, 30), award=1))) == []


# Moving


def test_a_seeker_is_handed_the_better_unit_beside_its_own():
    seeker = job(1, row(0, 60), row(1, 50), on=(1, 1), seeking=True)
    assert actions(floor([0, 1], seeker)) == [OpenAward(1, 0), HandOver(1, 0, 0, None)]


def test_a_lost_destination_aborts_the_migration_and_closes_its_row():
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), to=(0, 0), seeking=True, leaving=True)
    assert actions(floor([0, 1], mover, job(2, row(0, 70)))) == [
        ReturnDestination(11, 1, "lost"),
        CoolDown(1, 0),
        OpenAward(2, 0),
    ]


def test_an_unused_destination_is_given_back_at_its_seek_deadline():
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), to=(0, 0), seeking=True, seek_deadline=40)
    assert next_deadline(floor([0, 1], mover)) == 40
    assert actions(floor([0, 1], mover, now=39)) == []
    assert actions(floor([0, 1], mover, now=40)) == [ReturnDestination(11, 1, "seek_expired"), CoolDown(1, 0)]


def test_a_seek_deadline_waits_while_the_source_is_under_notice():
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), to=(0, 0), seeking=True, seek_deadline=40, notice=("outbid", 50))
    rival = job(2, row(1, 55), award=1)
    assert next_deadline(floor([0, 1], mover, rival, now=40)) == 50
    assert actions(floor([0, 1], mover, rival, now=40)) == []


def test_a_destination_on_a_failed_unit_is_given_back():
    mover = job(1, row(0, 60), row(1, 50), on=(1, 1), to=(0, 0), seeking=True)
    assert actions(floor([0, 1], mover, broken=(0,))) == [ReturnDestination(11, 1, "lost"), CoolDown(1, 0)]


def test_a_fall_back_is_given_back_when_the_source_is_won_again():
    winner = job(1, row(0, 60), row(1, 50), on=(0, 0), to=(1, 1), notice=("outbid", 20))
    assert actions(floor([0, 1], winner)) == [ReturnDestination(11, 1, "not_needed"), WithdrawNotice(100, 10, 1)]


def test_by_gain_no_destination_is_a_fall_back_and_the_job_moves_on():
    winner = job(1, row(0, 60), row(1, 50), on=(0, 0), to=(1, 1), notice=("outbid", 20))
    assert actions(floor([0, 1], winner), "vcg") == [WithdrawNotice(100, 10, 1)]


def test_an_upgrade_lost_before_it_was_handed_over_cools_down():
    seeker = job(1, row(0, 60), row(1, 50), on=(1, 1), award=0, seeking=True)
    rival = job(2, row(0, 70), on=(0, 0))
    assert actions(floor([0, 1], seeker, rival)) == [CloseAward(1000, 1), CoolDown(1, 0)]


def test_a_better_award_replaces_a_good_one_without_a_cool_down():
    seeker = job(1, row(0, 60), row(1, 50), row(2, 40), on=(2, 2), award=1, seeking=True)
    assert actions(floor([0, 1, 2], seeker)) == [CloseAward(1000, 1), OpenAward(1, 0), HandOver(1, 0, 0, None)]


def test_a_wish_to_leave_lapses_where_there_is_nothing_to_leave_for():
    assert actions(floor([0], job(1, row(0, 60), on=(0, 0), leaving=True))) == [LapseMove(1)]


def test_who_gives_its_source_back_at_its_moment():
    rows = (row(0, 60), row(1, 50))
    assert not gives_back(job(1, *rows))
    assert not gives_back(job(1, *rows, on=(1, 1), leaving=True))
    assert gives_back(job(1, *rows, on=(1, 1), to=(0, 0)))
    assert not gives_back(job(1, *rows, on=(1, 1), notice=("outbid", 9)))
    assert gives_back(job(1, *rows, on=(1, 1), notice=("outbid", 9), leaving=True))
    assert gives_back(job(1, *rows, on=(1, 1), notice=("claimed", 9)))


def test_a_swap_of_two_jobs_dissolves():
    one = job(1, row(0, 60), row(1, 20), on=(1, 1), seeking=True)
    two = job(2, row(1, 60), row(0, 20), on=(0, 0), seeking=True)
    both_claimed = actions(floor([0, 1], one, two))
    assert both_claimed == [
        OpenAward(1, 0),
        OpenAward(2, 1),
        GiveNotice(10, 1, "claimed", NOTICE),
        GiveNotice(20, 2, "claimed", NOTICE),
    ]
    # Job 1 reaches its moment: it saves and leaves for the queue with its award, so job 2 can move, then job 1.
    gone = replace(job(1, row(0, 60), row(1, 20), award=0), closing=())
    two = replace(job(2, row(1, 60), row(0, 20), on=(0, 0), award=1, seeking=True, notice=("claimed", 30)))
    assert actions(floor([0, 1], gone, two)) == [HandOver(2, 1, 1, 2000)]


def test_cool_downs_double():
    first = cool_down(0)
    assert [cool_down(0, first_us=5), cool_down(5), cool_down(10)] == [5, 10, 20]
    assert cool_down(first) == 2 * first


def test_a_cooling_row_is_a_deadline_only_for_a_seeker():
    seeker = job(1, row(0, 50, closed_until=9), row(1, 40), on=(0, 1), seeking=True)
    assert next_deadline(floor([1], seeker)) == 9
    assert next_deadline(floor([1], replace(seeker, seeking=False))) is None
    assert next_deadline(floor([1], seeker, now=9)) is None


# What is paid


def test_everybody_pays_the_lease_price_but_never_above_its_own_bid():
    holder, rival = job(1, row(0, 40), row(1, 30), on=(0, 0), to=(1, 1)), job(2, row(0, 60))
    a_floor = floor([0, 1], holder, rival)
    assert paid_by_lease(a_floor) == {10: 40, 11: 10}
    # Under notice the price in force is what the winner will pay, here set by another rejected bid below the holder's.
    cheap = floor([0], job(1, row(0, 70), on=(0, 0)), job(3, row(0, 50)))
    assert paid_by_lease(cheap) == {10: 50}


def test_first_come_moves_nobody_out_and_seekers_up():
    holder = job(1, row(0, 20), on=(0, 0))
    richer = job(2, row(0, 90), row(1, 50), on=(1, 1), seeking=True)
    assert actions(floor([0, 1], holder, richer), "first_come") == []
    assert actions(floor([0, 1], richer), "first_come") == [OpenAward(2, 0), HandOver(2, 0, 0, None)]


def test_an_unknown_rule_is_an_error():
    with pytest.raises(KeyError):
        plan(floor([0]), "nonsense")


def test_a_job_without_a_row_where_it_sits_loses_its_place_and_stops_nobody():
    lost = job(1, row(1, 40), on=(0, 0))
    assert actions(floor([0, 1], lost)) == [
        OpenAward(1, 1),
        HandOver(1, 1, 1, None),
        GiveNotice(10, 1, "outbid", NOTICE),
    ]
