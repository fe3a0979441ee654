"""A market that lives through the real services violates nothing, at no moment of its life."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from laissez.management.commands.check_invariants import look
from markets.models import Award, BillingSlice, Notice
from tests.invariants.lived import Market, lease_of
from tests.planting import plant
from workers.models import Job, Migration

pytestmark = pytest.mark.django_db(transaction=True)


def check() -> None:
    assert look() == []


def test_no_detector_speaks_at_any_moment_of_a_markets_life() -> None:
    Market(look=check).live()
    states = dict(Job.objects.values_list("name", "state"))
    assert states == {
        "mover": "succeeded",
        "steady": "running",
        "winner": "running",
        "quitter": "cancelled",
        "sleeper": "stopped",
        "climber": "running",
        "rival": "queued",
    }
    assert Migration.objects.get(job__name="mover").state == "done"
    assert Migration.objects.get(job__name="climber").state == "awarded"
    assert Notice.objects.get(state="open").job.name == "winner"
    assert Award.objects.get(state="waiting").job.name == "rival"
    assert BillingSlice.objects.filter(lease=lease_of("steady")).count() >= 2
    assert BillingSlice.objects.filter(lease__job__name="mover").count() >= 4
    check()


def run(*arguments: str) -> tuple[int, str]:
    """The command's exit code and what it printed."""
    output = StringIO()
    try:
        call_command("check_invariants", *arguments, stdout=output)
    except SystemExit as ended:
        return int(str(ended.code)), output.getvalue()
    return 0, output.getvalue()


def test_the_command_prints_nothing_when_nothing_is_wrong() -> None:
    Market().begin()
    assert run() == (0, "")
    assert run("--json") == (0, "[]\n")


def test_the_command_prints_a_line_per_violation_and_fails() -> None:
    Market().begin()
    plant("UPDATE workers_job SET newest_checkpoint_id = NULL")
    code, text = run()
    assert code == 1
    assert [line.partition(":")[0] for line in text.splitlines()] == ["I9", "I9"]
    code, text = run("--json")
    assert code == 1
    assert [sorted(each) for each in json.loads(text)] == [["id", "sentence"]] * 2
