"""Every recorded clearing is made once more from history: the same book, the same prices (I16)."""

import json
from io import StringIO
from random import Random
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from laissez.events import transact
from markets.models import Bid, Clearing, Role
from markets.selectors import receipts
from markets.selectors.floor import watermark_of
from markets.services import submission
from tests import scenes, soundness
from tests.market.days import Day
from tests.races.interleaving import overlapping
from workers.models import Cluster, Job

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"


def faults() -> dict[int, list[str]]:
    """What does not hold, by receipt."""
    found = {clearing.number: receipts.faults(clearing) for clearing in Clearing.objects.order_by("number")}
    return {number: sentences for number, sentences in found.items() if sentences}


def newest() -> Clearing:
    return Clearing.objects.order_by("-number").select_related("cluster")[0]


def rebid(job: Job, *rows: tuple[str, str]) -> Any:
    table = [{"accelerator_type": kind, "max_price_per_hour": price} for kind, price in rows]
    return lambda outbox: submission.change_table(job, table, expected_version=None, outbox=outbox)


@pytest.mark.parametrize(
    ("seed", "rule", "steps"),
    [(2, "launch_table", 30), (3, "first_come", 12), pytest.param(4, "vcg", 20, marks=pytest.mark.slow)],
)
def test_every_clearing_of_a_day_recomputes(seed: int, rule: str, steps: int) -> None:
    day = Day(Random(seed), rule)
    for _ in range(steps):
        day.step()
    assert faults() == {}
    assert Clearing.objects.count() > steps / 2
    assert Role.objects.exclude(on_type=None).exists()
    assert Role.objects.exclude(award_type=None).exists()
    assert not Role.objects.filter(on_type=None, to_type=None, award_type=None, absent=False, job__bids=None).exists()
    changed = Role.objects.filter(from_number__gt=Clearing.objects.order_by("number")[0].number).count()
    assert changed < Clearing.objects.count() * 3  # roles are kept when they change, not with every clearing


@pytest.fixture
def cluster() -> Cluster:
    """One A10 that bob has and alice wants, cleared and recorded while it runs."""
    made = scenes.make_cluster()
    scenes.make_host(made, nvidia_a10=1, nvidia_l4=1)
    scenes.submit(scenes.make_tenant("bob"), (A10, "0.9"), (L4, "0.6"), name="holder")
    loser = scenes.submit(scenes.make_tenant("alice"), (A10, "0.7"), name="loser")
    scenes.tick(made)
    transact(rebid(loser, (A10, "0.8")))
    scenes.tick(made)
    return made


def test_a_bid_that_is_not_yet_committed_is_not_in_the_book(cluster: Cluster) -> None:
    loser = Job.objects.get(name="loser")
    scenes.submit(loser.tenant, (A10, "0.7"), name="another")
    before = Clearing.objects.count()
    overlapping(rebid(loser, (A10, "0.85")), lambda: scenes.tick(cluster))
    scenes.tick(cluster)
    assert Clearing.objects.count() > before
    assert newest().receipt[A10]["price_per_hour"] == "0.850000"
    assert faults() == {}


def test_a_bid_that_the_tick_itself_closes_was_still_in_the_book(cluster: Cluster) -> None:
    Job.objects.filter(name="loser").update(queue_deadline="2020-01-01T00:00Z")
    scenes.submit(scenes.make_tenant("carol"), (A10, "0.7"), (L4, "1.0"), name="another")
    scenes.tick(cluster)
    assert not Bid.objects.filter(job__name="loser", closed_at=None).exists()
    assert newest().receipt[A10]["price_per_hour"] == "0.800000"
    assert faults() == {}


def test_the_reading_transaction_counts_as_running() -> None:
    assert watermark_of("10:20:12,15", own=13) == "10:20:12,13,15"
    assert watermark_of("20:20:", own=20) == "20:20:"
    assert watermark_of("10:20:", own=10) == "10:20:10"


def test_ticks_that_recorded_nothing_lie_between_without_harm(cluster: Cluster) -> None:
    loser = Job.objects.get(name="loser")
    for price in ("0.61", "0.62", "0.85"):
        transact(rebid(loser, (A10, price)))
        scenes.tick(cluster)
        scenes.tick(cluster)
    assert cluster.tick_number < newest().number
    assert faults() == {}


PLANTED = {
    "a bid": (
        "UPDATE markets_bid SET max_price_per_hour = 810000 WHERE id = (SELECT max(id) FROM markets_bid)",
        "book",
    ),
    "an acceptance": ("UPDATE markets_bid SET accepted_at = accepted_at - interval '1 second'", "book"),
    "a closing": ("UPDATE markets_bid SET closed_at = now(), closed_in = 3", "book"),
    "the hash": ("UPDATE markets_clearing SET book_hash = repeat('0', 64)", "book"),
    "the watermark": ("UPDATE markets_clearing SET watermark = '3:3:'", "book"),
    "a role": (
        "UPDATE markets_role SET on_type = (SELECT max(id) FROM workers_acceleratortype)",
        "book",
    ),
    "a missing role": ("DELETE FROM markets_role WHERE id = (SELECT max(id) FROM markets_role)", "book"),
    "the supply": ("UPDATE markets_clearing SET receipt = jsonb_set(receipt, '{nvidia-a10,supply}', '2')", "book"),
    "a price": (
        "UPDATE markets_clearing SET receipt = jsonb_set(receipt, '{nvidia-a10,price_per_hour}', '\"0.700000\"')",
        "nvidia-a10: price_per_hour is recorded as 0.700000, cleared again it is 0.800000.",
    ),
    "a count": (
        "UPDATE markets_clearing SET receipt = jsonb_set(receipt, '{nvidia-a10,rejected}', '7')",
        "nvidia-a10: rejected is recorded as 7, cleared again it is 1.",
    ),
}


def plant(sql: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(sql)


def test_whatever_was_falsified_is_found(cluster: Cluster) -> None:
    assert faults() == {}
    for what, (sql, sentence) in PLANTED.items():
        with transaction.atomic():
            plant(sql)
            assert any(sentence in found for found in faults()[newest().number]), what
            transaction.set_rollback(True)


def test_history_refuses_to_be_changed(cluster: Cluster) -> None:
    for sql in ("UPDATE markets_role SET seeks = true", "DELETE FROM markets_role", "TRUNCATE markets_role"):
        with (
            pytest.raises(Exception, match=r"role \d+: a change ends|refused|cannot|not"),
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)


def run(*words: str) -> str:
    out = StringIO()
    call_command("receipt", *words, stdout=out)
    return out.getvalue()


def test_the_command_recomputes_and_shows(cluster: Cluster) -> None:
    number = str(newest().number)
    assert "recomputed, book and result are the same" in run("recompute", "gemm", number)
    assert "recomputed" in run("recompute", str(newest().pk))
    assert "recomputed" in run("recompute", "gemm", "--last", "5")
    shown = json.loads(run("show", "gemm", number))
    assert (shown["number"], shown["keeps_roles"]) == (int(number), True)
    plant(PLANTED["a price"][0])
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("receipt", "recompute", "gemm", number, stdout=out)
    assert ended.value.code == 1
    assert "cleared again it is 0.800000" in out.getvalue()


@pytest.mark.parametrize("words", [("gemm", "99999"), ("gemm",), ("nowhere", "1"), ("1", "2", "3")])
def test_the_command_says_what_it_does_not_find(cluster: Cluster, words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"receipt|clearing"):
        run("recompute", *words)


def test_a_receipt_from_before_roles_were_kept_says_so(cluster: Cluster) -> None:
    plant("UPDATE markets_clearing SET keeps_roles = false")
    assert faults()[newest().number] == ["It was recorded before roles were kept: its book cannot be rebuilt."]
    assert not [found for found in soundness.violations() if found.startswith("I16")]


def test_a_receipt_of_an_earlier_version_says_so_and_alarms_nobody(cluster: Cluster) -> None:
    plant("UPDATE markets_clearing SET rule_version = 1")
    (sentence,) = faults()[newest().number]
    assert sentence.startswith("It was recorded by launch_table in version 1; known here: ")
    assert not [found for found in soundness.violations() if found.startswith("I16")]


def test_only_jobs_that_are_more_than_queued_are_kept_besides_their_bids(cluster: Cluster) -> None:
    assert set(Role.objects.values_list("job__name", flat=True)) == {"holder"}


def test_a_job_that_is_over_is_absent_as_long_as_its_bids_are_open(cluster: Cluster) -> None:
    over = "UPDATE workers_job SET state = 'cancelled', finished_at = now(), queue_deadline = NULL"
    with connection.cursor() as cursor:
        cursor.execute(f"{over} WHERE name = 'loser'")
    transact(rebid(Job.objects.get(name="holder"), (A10, "1.1"), (L4, "0.6")))
    scenes.tick(cluster)
    assert newest().receipt[A10]["price_per_hour"] == "0.606000"
    assert Role.objects.get(job__name="loser", until_number=None).absent
    assert faults() == {}


def test_a_public_receipt_names_its_neighbours_and_no_bidder(cluster: Cluster) -> None:
    transact(rebid(Job.objects.get(name="loser"), (A10, "0.85")))
    scenes.tick(cluster)
    receipt = receipts.of(cluster, newest().number)
    assert receipt is not None
    shown = receipts.public(receipt)
    assert (shown["next"], shown["previous"]) == (
        None,
        Clearing.objects.order_by("number").values_list("number", flat=True)[Clearing.objects.count() - 2],
    )
    a10 = next(each for each in shown["types"] if each["accelerator_type"] == A10)
    assert (a10["price_per_hour"], a10["set_by"], a10["accepted"], a10["rejected"]) == ("0.850000", "losing bid", 1, 1)
    assert "0.9" not in json.dumps(shown)
    assert receipts.of(cluster, 10**9) is None
