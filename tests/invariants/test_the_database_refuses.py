"""What the database itself refuses, whoever asks: attempted in plain SQL, and refused by name."""

import pytest
from django.db import IntegrityError, connection, transaction

from tests.invariants.lived import L4, Market
from tests.invariants.planted import change_job, change_lease, change_of, copy, job, kind, lease, unit

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("the database refuses")]

FREE = f"""(
    SELECT min(id) FROM workers_accelerator AS unit
    WHERE type_id = {kind(L4)} AND NOT EXISTS (SELECT FROM workers_lease WHERE accelerator_id = unit.id)
)"""
SLICE = f"(SELECT min(id) FROM markets_billingslice WHERE lease_id = {lease('steady', L4)})"
CHECKPOINT = f"(SELECT min(id) FROM workers_checkpoint WHERE job_id = {job('steady')})"
AWARD = f"(SELECT min(id) FROM markets_award WHERE job_id = {job('steady')})"
QUOTE = f"(SELECT max(id) FROM markets_quote WHERE type_id = {kind(L4)})"
A_TRANSFER = "INSERT INTO tenants_transfer (kind, at, reference, key) VALUES ('charge', now(), 'by hand', 'by hand')"
ONE_SIDE = """
    INSERT INTO tenants_entry (transfer_id, account_id, amount_microdollars)
    SELECT transfer.id, account.id, 1 FROM tenants_transfer AS transfer, tenants_account AS account
    WHERE transfer.key = 'by hand' AND account.kind = 'revenue'
"""
LONG_PAST = "tstzrange('2020-01-01+00', '2020-01-02+00')"
HAND_OUT_AGAIN = f"UPDATE workers_accelerator SET fence = fence + 1 WHERE id = {unit('steady', L4)}"
HAND_OUT_A_FREE_ONE = f"UPDATE workers_accelerator SET fence = fence + 1 WHERE id = {FREE}"


def another_lease(**changes: str) -> str:
    """A statement that adds a lease like `steady`'s, in its job's other slot and not primary."""
    default = {"public_id": "'lse_more'", "slot": "1", "primary_during": "NULL", "billed_during": "NULL"}
    return copy("workers_lease", lease("steady", L4), **{**default, **changes})


NEXT_FENCE = f"(SELECT fence FROM workers_accelerator WHERE id = {unit('steady', L4)})"

REFUSED = [
    # I1
    ("accelerator_has_one_lease_at_any_instant", [HAND_OUT_AGAIN, another_lease(fence=NEXT_FENCE)]),
    (
        "occupation_is_bounded_below_and_not_empty",
        [change_lease("steady", L4, "during = 'empty', billed_during = NULL, state = 'closed', reason = 'failed'")],
    ),
    (
        "occupation_is_bounded_below_and_not_empty",
        [change_lease("steady", L4, "during = tstzrange(NULL, NULL)")],
    ),
    (
        "occupation_is_bounded_below_and_not_empty",
        [change_lease("steady", L4, "during = tstzrange(lower(during) - interval '1 hour', NULL, '(]')")],
    ),
    ('null value in column "during"', [change_lease("steady", L4, "during = NULL")]),
    (
        "a_lease_is_closed_exactly_when_its_occupation_ended",
        [change_lease("steady", L4, "during = tstzrange(lower(during), now()), billed_during = NULL")],
    ),
    # I2
    ("fence cannot go from", [f"UPDATE workers_accelerator SET fence = fence - 1 WHERE id = {unit('steady', L4)}"]),
    ("is not its present fence", [HAND_OUT_AGAIN, another_lease()]),
    (
        "fence_is_unique_per_accelerator",
        [another_lease(during=LONG_PAST, state="'closed'", reason="'failed'")],
    ),
    ("are fixed at hand-over", [change_lease("steady", L4, "fence = fence + 1")]),
    (
        "is not that of an open lease of its job",
        [copy("workers_checkpoint", CHECKPOINT, public_id="'ckp_more'", sequence="2", fence="0")],
    ),
    (
        "is not that of an open lease of its job",
        [copy("workers_checkpoint", CHECKPOINT, public_id="'ckp_more'", sequence="2", job_id=job("mover"))],
    ),
    ("workers_checkpoint", [change_of("workers_checkpoint", "steady", "progress = 1")]),
    # I4 and I5
    ("does not follow", [copy("markets_billingslice", SLICE)]),
    (
        "does not follow",
        [
            copy(
                "markets_billingslice",
                SLICE,
                during=f"(SELECT tstzrange(metered_until + interval '1 second', metered_until + interval '2 seconds')"
                f" FROM workers_lease WHERE id = {lease('steady', L4)})",
            )
        ],
    ),
    (
        "instant_of_a_lease_is_billed_once",
        [
            change_lease("steady", L4, "metered_until = lower(billed_during)"),
            copy("markets_billingslice", SLICE),
        ],
    ),
    ("markets_billingslice", [f"UPDATE markets_billingslice SET amount_microdollars = 0 WHERE id = {SLICE}"]),
    ("markets_billingslice", [f"DELETE FROM markets_billingslice WHERE id = {SLICE}"]),
    (
        "billing_lies_within_the_occupation",
        [change_lease("steady", L4, "billed_during = tstzrange(lower(during) - interval '1 second', NULL)")],
    ),
    ("type_has_one_quote_at_a_time", [copy("markets_quote", QUOTE)]),
    (
        "prices_are_ordered",
        [copy("markets_quote", QUOTE, during=LONG_PAST, price_per_hour="original.cap_price_per_hour + 1")],
    ),
    (
        "prices_are_ordered",
        [copy("markets_quote", QUOTE, during=LONG_PAST, lease_price_per_hour="original.price_per_hour + 1")],
    ),
    ("a change ends a row and opens another", [f"UPDATE markets_quote SET price_per_hour = 0 WHERE id = {QUOTE}"]),
    ("a change closes a row and opens another", [change_of("markets_bid", "steady", "max_price_per_hour = 1")]),
    # I6
    (
        "entries that sum to 1, not to zero",
        [
            A_TRANSFER,
            ONE_SIDE,
            "SET CONSTRAINTS ALL IMMEDIATE",
        ],
    ),
    ("tenants_entry", ["UPDATE tenants_entry SET amount_microdollars = amount_microdollars * 2"]),
    # I8
    (
        "job_has_one_primary_lease_at_any_instant",
        [
            HAND_OUT_A_FREE_ONE,
            another_lease(accelerator_id=FREE, fence="1", primary_during="original.primary_during"),
        ],
    ),
    # I9
    ("its newest checkpoint cannot go back", [change_job("steady", "newest_checkpoint_id = NULL")]),
    # I12
    ("state cannot go from running to expired", [change_job("steady", "state = 'expired', finished_at = now()")]),
    (
        "state cannot go from cancelled to queued",
        [
            change_job("steady", "state = 'cancelled', finished_at = now()"),
            change_job("steady", "state = 'queued', queue_deadline = now()"),
        ],
    ),
    ("state cannot go from active to pending", [change_lease("steady", L4, "state = 'pending'")]),
    ("state cannot go from ready to pending", ["UPDATE workers_host SET state = 'pending' WHERE name = 'host-l4'"]),
    (
        "state cannot go from handed_over to waiting",
        [change_of("markets_award", "steady", "state = 'waiting', closed_at = NULL")],
    ),
    ("a_finished_job_says_when", [change_job("steady", "state = 'cancelled'")]),
    ("a_closing_lease_has_a_deadline", [change_lease("steady", L4, "state = 'closing', reason = 'stopped'")]),
    # I13
    ("a_queued_job_has_a_deadline", [change_job("steady", "state = 'queued', queue_deadline = NULL")]),
    ("an_open_job_is_not_settled", [change_job("steady", "settled_at = now()")]),
    ("cluster_clears_by_a_known_rule", ["UPDATE workers_cluster SET rule = 'a foreign one'"]),
    # I19
    (
        "job_has_at_most_two_open_leases",
        [HAND_OUT_A_FREE_ONE, another_lease(accelerator_id=FREE, fence="1", slot="0")],
    ),
    ("slot_is_0_or_1", [change_lease("steady", L4, "slot = 2")]),
    (
        "job_has_at_most_one_waiting_award",
        [
            copy(
                "markets_award",
                AWARD,
                id=number,
                public_id=f"'awd_{number}'",
                lease_id="NULL",
                state="'waiting'",
                closed_at="NULL",
            )
            for number in ("1000000", "1000001")
        ],
    ),
]


@pytest.mark.parametrize(("name", "statements"), REFUSED)
def test_the_database_refuses(young: Market, name: str, statements: list[str]) -> None:
    *before, last = statements
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in before:
            cursor.execute(statement)
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            cursor.execute(last)
        transaction.set_rollback(True)
