"""Every violation planted among leases, fences, checkpoints, jobs and migrations is found, and nothing else is."""

import pytest

from tests import soundness
from tests.invariants.lived import A10, L4, TRAINIUM, Market
from tests.invariants.planted import (
    LISTENING,
    LONG_AGO,
    change_job,
    change_lease,
    change_of,
    copy,
    job,
    lease,
    see_planted,
    unit,
    without,
)

pytestmark = [pytest.mark.django_db, pytest.mark.xdist_group("planted on the floor")]

CLOSED_EXACTLY = "a_lease_is_closed_exactly_when_its_occupation_ended"
OCCUPIED, PRIMARY, BILLED = (
    f"{column} = tstzrange(lower({column}), now())" for column in ("during", "primary_during", "billed_during")
)

OCCUPATION = [
    (
        "I1: accelerator acc_",
        [
            *without("workers_lease", "accelerator_has_one_lease_at_any_instant"),
            change_lease("winner", A10, "during = tstzrange(lower(during) - interval '1 minute', NULL)"),
        ],
    ),
    (
        "I1: lease lse_",
        [change_lease("quitter", L4, "host_id = (SELECT id FROM workers_host WHERE name = 'host-a10')")],
    ),
    (
        "had been handed out with fence",
        [
            *without("workers_lease", "fence_is_unique_per_accelerator"),
            change_lease("sleeper", L4, f"fence = (SELECT fence FROM workers_lease WHERE id = {lease('quitter', L4)})"),
        ],
    ),
    ("has fence 0, but its accelerator had been handed out", [change_lease("sleeper", L4, "fence = 0")]),
    (
        "I2: lease lse_",
        [
            f"UPDATE workers_accelerator SET fence = fence - 1 WHERE id = {unit('steady', L4)}",
        ],
    ),
    ("I2: checkpoint ckp_", [change_of("workers_checkpoint", "winner", "fence = fence + 1")]),
    (
        "I3: lease lse_",
        [change_lease("mover", A10, "reason = 'host_lost', expires_at = upper(during) + interval '1 hour'")],
    ),
    (
        "as its primary one at once",
        [
            *without("workers_lease", "job_has_one_primary_lease_at_any_instant"),
            change_lease("climber", TRAINIUM, "primary_during = during"),
        ],
    ),
    (
        "I8: lease lse_",
        [
            change_lease(
                "quitter",
                L4,
                "primary_during = tstzrange(lower(during) - interval '1 minute', upper(during))",
            )
        ],
    ),
    (
        "which is another job's",
        [
            change_job(
                "steady",
                f"newest_checkpoint_id = (SELECT max(id) FROM workers_checkpoint WHERE job_id = {job('winner')})",
            )
        ],
    ),
    (
        "I9: job job_",
        [
            change_job(
                "mover",
                f"newest_checkpoint_id = (SELECT min(id) FROM workers_checkpoint WHERE job_id = {job('mover')})",
            )
        ],
    ),
    ("would not resume from its newest checkpoint", [change_job("steady", "newest_checkpoint_id = NULL")]),
    (
        "I19: job job_",
        [
            "DROP INDEX job_has_at_most_two_open_leases",
            copy(
                "workers_accelerator",
                unit("climber", TRAINIUM),
                public_id="'acc_planted'",
                index="9",
            ),
            copy("workers_lease", lease("climber", TRAINIUM), public_id="'lse_planted'", accelerator_id="1000000"),
        ],
    ),
]

CONTRADICTIONS = [
    (
        "is closed, but gives no reason",
        [*without("workers_lease", CLOSED_EXACTLY), change_lease("quitter", L4, "reason = ''")],
    ),
    ("is closed, but does not say since when", [change_lease("quitter", L4, "ended_at = NULL")]),
    (
        "is closed, but still occupies its accelerator",
        [
            *without("workers_lease", CLOSED_EXACTLY),
            change_lease("steady", L4, "state = 'closed', reason = 'cancelled', ended_at = now()"),
            change_job("steady", "state = 'cancelled', finished_at = now()"),
        ],
    ),
    (
        "is closed, but is still billed",
        [
            *without("workers_lease", "billing_lies_within_the_occupation"),
            change_lease(
                "steady", L4, f"{OCCUPIED}, {PRIMARY}, state = 'closed', reason = 'cancelled', ended_at = now()"
            ),
            change_job("steady", "state = 'cancelled', finished_at = now()"),
        ],
    ),
    (
        "is active, but its occupation has ended",
        [*without("workers_lease", CLOSED_EXACTLY), change_lease("steady", L4, f"{OCCUPIED}, {PRIMARY}, {BILLED}")],
    ),
    (
        "is active, but its billing has ended",
        [change_lease("steady", L4, BILLED)],
    ),
    ("is active, but has ended before", [change_lease("steady", L4, "ended_at = now()")]),
    (
        "is active, but was never confirmed",
        [*without("workers_lease", "an_active_lease_is_confirmed"), change_lease("steady", L4, "active_at = NULL")],
    ),
    ("is pending, but was confirmed", [change_lease("climber", TRAINIUM, "state = 'pending'")]),
    ("is active, but was told to leave", [change_lease("steady", L4, "closing_at = now()")]),
    (
        "is closing, but was not told why, how or by when",
        [
            *without("workers_lease", "a_closing_lease_has_a_deadline"),
            change_lease("climber", TRAINIUM, "state = 'closing'"),
        ],
    ),
    (
        "is succeeded, but does not say since when",
        [*without("workers_job", "a_finished_job_says_when"), change_job("mover", "finished_at = NULL")],
    ),
    ("is running, but has finished before", [change_job("steady", "finished_at = now()")]),
    ("is running, but has never started", [change_job("steady", "started_at = NULL")]),
    ("is stopped, but its lease lse_", [change_job("steady", "state = 'stopped'")]),
    ("is done, but has seen no first step", [change_of("workers_migration", "mover", "first_step_at = NULL")]),
    ("is done, but does not say since when", [change_of("workers_migration", "mover", "closed_at = NULL")]),
    ("is awarded, but has ended before", [change_of("workers_migration", "climber", "closed_at = now()")]),
    (
        "is aborted, but gives no reason",
        [
            *without("workers_migration", "an_aborted_migration_says_why"),
            change_of("workers_migration", "mover", "state = 'aborted'"),
        ],
    ),
    (
        "is awarded, but its leases are not both of its job",
        [change_of("workers_migration", "climber", f"source_id = {lease('steady', L4)}")],
    ),
]

ENDLESS = [
    ("is queued past its deadline", [change_job("rival", f"queue_deadline = {LONG_AGO}")]),
    (
        "is queued past its deadline, None",
        [*without("workers_job", "a_queued_job_has_a_deadline"), change_job("rival", "queue_deadline = NULL")],
    ),
    ("is running without a lease", [change_job("quitter", "state = 'running', settled_at = NULL, finished_at = NULL")]),
    (
        "is pending, and nobody has ended it",
        [
            LISTENING,
            change_lease(
                "climber",
                TRAINIUM,
                "state = 'pending', active_at = NULL, billed_during = NULL, metered_until = NULL,"
                f" pending_deadline = {LONG_AGO}",
            ),
        ],
    ),
    ("is active, and nobody has ended it", [LISTENING, change_lease("steady", L4, f"expires_at = {LONG_AGO}")]),
    (
        "its host speaks, but does not give it back",
        [
            change_lease(
                "climber",
                TRAINIUM,
                f"state = 'closing', reason = 'stopped', ending = 'stop', closing_deadline = {LONG_AGO}",
            )
        ],
    ),
    (
        "is active on host host-trainium, which is lost",
        ["UPDATE workers_host SET state = 'lost' WHERE name = 'host-trainium'"],
    ),
    (
        "is awarded, but its destination lse_",
        [
            change_lease(
                "climber",
                TRAINIUM,
                "state = 'closed', reason = 'stopped', ended_at = now(),"
                " during = tstzrange(lower(during), now()), billed_during = tstzrange(lower(billed_during), now())",
            )
        ],
    ),
]


def ids(found: list[str]) -> set[str]:
    return {sentence.partition(":")[0] for sentence in found}


def test_all_is_well_before_anything_is_planted(lived: Market) -> None:
    assert soundness.violations() == []


@pytest.mark.parametrize(("words", "statements"), OCCUPATION)
def test_a_planted_fault_of_occupation_is_found(lived: Market, words: str, statements: list[str]) -> None:
    found = see_planted(*statements)
    assert any(words in sentence for sentence in found), found
    assert len(found) == 1


@pytest.mark.parametrize(("words", "statements"), CONTRADICTIONS)
def test_a_row_that_contradicts_itself_is_found(lived: Market, words: str, statements: list[str]) -> None:
    found = see_planted(*statements)
    assert any(words in sentence for sentence in found), found
    assert ids(found) == {"I12"}


@pytest.mark.parametrize(("words", "statements"), ENDLESS)
def test_a_row_that_nobody_will_end_is_found(lived: Market, words: str, statements: list[str]) -> None:
    found = see_planted(*statements)
    assert any(words in sentence for sentence in found), found
    assert ids(found) == {"I13"}


@pytest.mark.parametrize(
    "statement",
    [
        change_lease("steady", L4, f"expires_at = {LONG_AGO}"),
        "UPDATE workers_ear SET hears = false, listening_since = now() - interval '1 day'",
        change_job("rival", "queue_deadline = now()"),
    ],
)
def test_what_the_next_round_will_end_is_no_violation(lived: Market, statement: str) -> None:
    """The server has only just begun to hear, or cannot hear at all; no tick has come since the deadline."""
    assert see_planted(statement) == []
