"""A whole run in small: hosts and workloads simulated; tick, database, metering, ledger and events the real ones."""

from typing import Any

import pytest

from laissez.management.commands.check_invariants import look
from markets.scale.driving import Inline, Settings, drive
from workers.models import Job, Lease

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = Settings(
    nodes=20,
    jobs=50,
    minutes=0.25,
    seed=5,
    types=4,
    rows_per_job=3,
    changes_percent_per_minute=200,
    turnover_percent_per_minute=300,
    price_changes_per_minute=20,
    failures_per_minute=10,
    drains_per_minute=20,
    check_seconds=5,
)


def lived(settings: Settings = SMALL) -> dict[str, Any]:
    return drive(settings, look=look, say=lambda sentence: None, ticks_of=Inline, turn_seconds=0.0)


@pytest.mark.slow
def test_a_small_run_moves_in_every_way_and_breaks_no_invariant() -> None:
    result = lived()
    assert result["violations"] == []
    assert len(result["checks"]) >= 3
    happened = {row["what"] for row in result["per_minute"]}
    assert {"bids opened", "hand-overs", "jobs finished"} <= happened
    assert result["acts"]["host messages"] > 0
    assert result["acts"]["refused host messages"] == 0
    assert Lease.objects.filter(state="active", first_step_at=None).count() < 20
    assert Job.objects.filter(state="succeeded").exists()
    assert result["ticks"]
    assert sum(row["billed"] for row in result["meters"])
    money = result["money"]
    assert money["slices"] == money["leases"]
    assert money["revenue"] == money["slices"] + money["probing"]


@pytest.mark.slow
def test_a_violation_ends_the_run() -> None:
    found = iter([[], ["I1: something"]])
    result = drive(SMALL, look=lambda: next(found), say=lambda sentence: None, ticks_of=Inline, turn_seconds=0.0)
    assert result["violations"] == ["I1: something"]
    assert len(result["checks"]) == 2
