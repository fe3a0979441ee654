"""Every violation planted among slices, quotes, awards and notices is found, and nothing else is."""

import pytest
from django.db import transaction

from laissez.events import Outbox
from tenants.services import ledger
from tests import soundness
from tests.invariants.lived import A10, L4, TRAINIUM, Market, lease_of
from tests.invariants.planted import (
    LONG_AGO,
    change_job,
    change_lease,
    change_of,
    change_slice,
    copy,
    job,
    kind,
    lease,
    see_planted,
    without,
)

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("planted in the market")]

FIRST = f"(SELECT min(id) FROM markets_billingslice WHERE lease_id = {lease('steady', L4)})"
LAST = f"(SELECT max(id) FROM markets_billingslice WHERE lease_id = {lease('steady', L4)})"
HALF = """'{"speedup": 0.5}'"""
AWARD = f"(SELECT max(id) FROM markets_award WHERE job_id = {job('rival')})"
OPEN_QUOTE = f"type_id = {kind(TRAINIUM)} AND upper_inf(during)"
REOPENED = "state = 'open', answer = '', closed_at = NULL"
WITHDRAWN = change_of("markets_notice", "winner", "state = 'withdrawn', closed_at = now()")
WAITS_LONG = change_of("markets_award", "rival", f"since = {LONG_AGO}")

PLANTED = [
    (
        "I4",
        "is billed for",
        [
            *without("markets_billingslice", "instant_of_a_lease_is_billed_once"),
            copy(
                "markets_billingslice",
                FIRST,
                amount_microdollars="0",
                waived_microdollars="0",
                transfer_id="NULL",
                pieces="'[]'::jsonb",
            ),
        ],
    ),
    (
        "I4",
        "but its slices cover",
        [change_slice("steady", L4, "during = tstzrange(lower(during), upper(during) - interval '1 second')")],
    ),
    (
        "I4",
        "but its slices cover",
        [change_lease("steady", L4, "metered_until = metered_until + interval '1 second'")],
    ),
    (
        "I4",
        "which is not within the time it is to pay for",
        [
            change_lease(
                "mover",
                A10,
                "billed_during = tstzrange(lower(billed_during), upper(billed_during) - interval '1 second')",
            )
        ],
    ),
    (
        "I4",
        "is closed and was billed until",
        [change_lease("mover", L4, f"ended_at = {LONG_AGO}, metered_until = metered_until - interval '1 microsecond'")],
    ),
    ("I4", "is active and was billed until", [change_lease("steady", L4, f"metered_until = {LONG_AGO}")]),
    (
        "I4",
        "paid 475500 micro-dollars per hour",
        [change_of("markets_bid", "steady", "max_price_per_hour = 475499")],
    ),
    (
        "I4",
        "paid 951000 micro-dollars per hour",
        [
            change_slice(
                "steady",
                L4,
                f"""pieces = jsonb_build_array(pieces -> 0 || {HALF} || '{{"price_per_hour": "0.951000"}}')""",
            )
        ],
    ),
    (
        "I4",
        "in which prices are named for",
        [change_slice("steady", L4, f"pieces = jsonb_build_array(pieces -> 0 || {HALF}, pieces -> 0 || {HALF})")],
    ),
    (
        "I5",
        "is quoted at 2000001",
        [
            *without("markets_quote", "prices_are_ordered"),
            f"UPDATE markets_quote SET price_per_hour = cap_price_per_hour + 1 WHERE {OPEN_QUOTE}",
        ],
    ),
    (
        "I5",
        "lease price 804001, with base price 804000",
        [
            *without("markets_quote", "prices_are_ordered"),
            f"UPDATE markets_quote SET lease_price_per_hour = price_per_hour + 1 WHERE {OPEN_QUOTE}",
        ],
    ),
    ("I5", "; receipt ", [f"UPDATE markets_quote SET price_per_hour = price_per_hour + 1 WHERE {OPEN_QUOTE}"]),
    ("I7", "its integral makes it", [change_slice("steady", L4, "amount_microdollars = amount_microdollars + 1")]),
    (
        "I7",
        "and its integral makes them",
        [change_lease("steady", L4, "billed_microdollars = billed_microdollars + 1")],
    ),
    ("I7", "its pieces make it", [change_slice("steady", L4, """pieces = jsonb_set(pieces, '{0,speedup}', '3')""")]),
    (
        "I7",
        "its pieces make it",
        [
            f"UPDATE markets_billingslice SET integral = integral + 1 WHERE id = {LAST}",
            change_lease("steady", L4, "integral = integral + 1"),
        ],
    ),
    (
        "I7",
        "were taken",
        [
            change_slice(
                "steady",
                L4,
                "amount_microdollars = amount_microdollars - 1, waived_microdollars = waived_microdollars + 1",
            ),
            change_lease(
                "steady",
                L4,
                "billed_microdollars = billed_microdollars - 1, waived_microdollars = waived_microdollars + 1",
            ),
        ],
    ),
    (
        "I12",
        "is waiting, but has ended before",
        [
            *without("markets_award", "an_award_is_closed_unless_it_waits"),
            change_of("markets_award", "rival", "closed_at = now()"),
        ],
    ),
    (
        "I12",
        "is handed_over, but names no lease",
        [
            *without("markets_award", "a_handed_over_award_names_its_lease"),
            change_of("markets_award", "quitter", "lease_id = NULL"),
        ],
    ),
    ("I12", "is lost, but names a lease", [change_of("markets_award", "quitter", "state = 'lost'")]),
    (
        "I12",
        "its lease is of another job or type",
        [change_of("markets_award", "quitter", f"type_id = {kind(A10)}")],
    ),
    (
        "I12",
        "is handed_over, but does not say since when",
        [
            *without("markets_award", "an_award_is_closed_unless_it_waits"),
            change_of("markets_award", "quitter", "closed_at = NULL"),
        ],
    ),
    (
        "I12",
        "is open, but has ended before",
        [
            *without("markets_notice", "a_notice_is_closed_unless_open"),
            change_of("markets_notice", "winner", "closed_at = now()"),
        ],
    ),
    (
        "I12",
        "but does not say since when",
        [
            *without("markets_notice", "a_notice_is_closed_unless_open"),
            change_of("markets_notice", "mover", "closed_at = NULL"),
        ],
    ),
    (
        "I12",
        "but its answer is",
        [
            *without("markets_notice", "an_answered_notice_says_how"),
            change_of("markets_notice", "mover", "state = 'answered', answer = ''"),
        ],
    ),
    (
        "I12",
        "but its lease is of another job",
        [change_of("markets_notice", "mover", f"lease_id = {lease('steady', L4)}")],
    ),
    (
        "I13",
        "is cancelled, but its award awd_",
        [change_job("rival", f"state = 'cancelled', finished_at = {LONG_AGO}, queued_at = {LONG_AGO}")],
    ),
    (
        "I13",
        "micro-dollars are held for it",
        [change_job("rival", f"state = 'cancelled', finished_at = {LONG_AGO}, queued_at = {LONG_AGO}")],
    ),
    (
        "I13",
        "but 25000 micro-dollars are held for it",
        [*without("workers_job", "an_open_job_is_not_settled"), change_job("rival", "settled_at = now()")],
    ),
    (
        "I13",
        " is active",
        [*without("workers_job", "an_open_job_is_not_settled"), change_job("steady", "settled_at = now()")],
    ),
    (
        "I13",
        "is open, but its lease lse_",
        [change_of("markets_notice", "mover", REOPENED), change_lease("mover", A10, f"ended_at = {LONG_AGO}")],
    ),
    ("I13", "and is still open", [change_of("markets_notice", "winner", f"deadline = {LONG_AGO}")]),
    (
        "I13",
        "and keeps its destination",
        [change_of("workers_migration", "climber", f"deadline = {LONG_AGO}")],
    ),
    (
        "I13",
        "was to be in force at",
        [
            """INSERT INTO markets_pricechange (public_id, type_id, base_price_per_hour, cap_price_per_hour,
                   reason_class, reason, actor, state, announced_at, effective_at)
               SELECT 'pch_planted', type.id, 1, 2, 'other', 'why', 'op', 'scheduled',
                   cluster.last_tick_at - interval '1 day', cluster.last_tick_at - interval '2 minutes'
               FROM workers_acceleratortype AS type JOIN workers_cluster AS cluster ON cluster.id = type.cluster_id
               LIMIT 1"""
        ],
    ),
    (
        "I16",
        "is not the one whose hash was recorded",
        ["UPDATE markets_clearing SET book_hash = repeat('0', 64) WHERE keeps_roles"],
    ),
    ("I19", "1 awards of nvidia-a10 wait for 0 units", [WITHDRAWN, WAITS_LONG]),
    (
        "I19",
        "has 2 waiting awards",
        [
            "DROP INDEX job_has_at_most_one_waiting_award",
            copy("markets_award", AWARD, public_id="'awd_planted'", type_id=kind(L4)),
        ],
    ),
    (
        "I19",
        "holds one with lease",
        [copy("markets_award", AWARD, public_id="'awd_planted'", job_id=job("steady"), type_id=kind(L4))],
    ),
]


def test_all_is_well_before_anything_is_planted(lived: Market) -> None:
    assert soundness.violations() == []


@pytest.mark.parametrize(("invariant", "words", "statements"), PLANTED)
def test_a_planted_violation_is_found(lived: Market, invariant: str, words: str, statements: list[str]) -> None:
    found = see_planted(*statements)
    assert any(words in sentence for sentence in found), found
    receipts_too = {"I16"} if any("UPDATE markets_bid" in sql for sql in statements) else set()
    assert {sentence.partition(":")[0] for sentence in found} - receipts_too == {invariant}


def test_money_taken_for_a_lease_without_a_slice_is_found(lived: Market) -> None:
    row = lease_of("steady")
    with transaction.atomic():
        ledger.charge(
            row.job.tenant,
            amount_microdollars=1,
            reference=row.public_id,
            key="planted",
            from_hold=None,
            outbox=Outbox(),
        )
        found = soundness.violations()
        transaction.set_rollback(True)
    assert found == [f"I4: charge planted was taken for lease {row.public_id}, but 0 slices name it"]


@pytest.mark.parametrize(
    "statements",
    [
        [WAITS_LONG, "UPDATE workers_accelerator SET healthy = false"],
        [WAITS_LONG, "UPDATE workers_host SET state = 'draining'"],
        [WITHDRAWN, change_of("markets_award", "rival", "since = now()")],
        [change_of("markets_notice", "winner", "deadline = now()")],
        [change_of("markets_notice", "mover", REOPENED), change_lease("mover", A10, "ended_at = now()")],
        [change_job("rival", "state = 'cancelled', finished_at = now()")],
        [change_lease("steady", L4, "billed_microdollars = billed_microdollars")],
    ],
)
def test_what_the_next_tick_puts_right_is_no_violation(lived: Market, statements: list[str]) -> None:
    """A unit fails between ticks, an award was opened a moment ago, a lease or a job has just ended."""
    assert see_planted(*statements) == []
