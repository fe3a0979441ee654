"""The floor as arrays is the floor, and a tick that says `unchanged` would have planned nothing."""

from datetime import datetime, timedelta
from functools import partial
from random import Random

import numpy as np
import pytest
from django.db import connection, transaction

from laissez import clock
from laissez.clock import microseconds
from laissez.events import Outbox, transact
from markets.engine.dynamics import plan
from markets.models import Bid, FloorChange, Quote
from markets.selectors import floor as floors
from markets.selectors.floor import Changes
from markets.services import changes, scheduling, submission
from markets.services.scheduling import Outcome
from tests import scenes
from tests.invariants.lived import Market
from tests.market import plainly
from tests.market.days import Day
from tests.racing import race
from workers.models import Cluster, Job

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4, TRAINIUM = "nvidia-a10", "nvidia-l4", "aws-trainium"


def logged() -> Changes:
    """What waits for the next tick."""
    jobs = set(FloorChange.objects.values_list("job_id", flat=True))
    return Changes(np.array(sorted(jobs - {None}), dtype=np.int64), others=None in jobs)


def rebid(job: Job, price: str, outbox: Outbox) -> None:
    rows = [{"accelerator_type": A10, "max_price_per_hour": price}]
    submission.change_table(job, rows, expected_version=None, outbox=outbox)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4])
def test_a_snapshot_is_the_floor_whether_read_afresh_or_from_what_has_changed(seed: int) -> None:
    day = Day(Random(seed))
    day.cluster.max_moves_per_hour = 1
    day.cluster.save()
    compared = 0
    for _ in range(30):
        day.live()
        cluster = Cluster.objects.get()
        with transaction.atomic():
            expected = plainly.read(cluster, now=day.now)
            afresh = floors.read(cluster, now=day.now)
            memory = scheduling._memories.get(cluster.pk)
            assert plainly.differences(afresh.floor, expected) == {}
            if memory is not None and memory.snapshot.read_in == cluster.floor_read_in:
                again = floors.read(cluster, now=day.now, former=memory.snapshot, changed=logged())
                assert plainly.differences(again.floor, expected) == {}
                assert again.absent.tolist() == afresh.absent.tolist()
                compared += 1
        day.clear()
    assert compared > 20


def test_what_changes_between_the_log_and_the_floor_is_read_of_the_same_instant_as_the_rest() -> None:
    cluster, tenant = scenes.make_cluster(), scenes.make_tenant()
    scenes.make_host(cluster, nvidia_a10=1)
    steady, hasty = (scenes.submit(tenant, (A10, price)) for price in ("1.0", "1.1"))
    now = clock.now()
    former = floors.read(cluster, now=now)
    FloorChange.objects.all().delete()

    with transaction.atomic():
        taken = changes.take(cluster)
        race(1, lambda _: transact(partial(rebid, hasty, "1.5")))
        snapshot = floors.read(cluster, now=now, former=former)
        afresh = floors.read(cluster, now=now)

    assert taken is None
    assert snapshot.floor.rows["max_price"].tolist() == afresh.floor.rows["max_price"].tolist()
    assert snapshot.floor.rows["max_price"].tolist() == [1_000_000, 1_500_000]
    assert logged().jobs.tolist() == [hasty.pk], "the next tick is to look again"
    assert steady.pk < hasty.pk


def test_fresh_rows_take_the_place_of_the_former_rows_of_what_has_changed() -> None:
    chance = Random(5)
    for _ in range(300):
        former = {job: [1] * chance.randint(1, 3) for job in chance.sample(range(20), chance.randint(0, 12))}
        changed = sorted(chance.sample(range(20), chance.randint(0, 6)))
        same_shape = chance.random() < 0.5
        fresh = {job: [2] * (len(former.get(job, ())) if same_shape else chance.randint(0, 3)) for job in changed}
        merged = floors._merged(records(former), records(fresh), "job", np.array(changed, dtype=np.int64))
        assert merged.tolist() == records(former | fresh).tolist()


def records(rows: dict[int, list[int]]) -> np.ndarray:
    """Rows by job: their numbers in places of their own."""
    listed = [(job, place, number) for job, numbers in sorted(rows.items()) for place, number in enumerate(numbers)]
    return np.array(listed, dtype=[("job", np.int64), ("position", np.int64), ("number", np.int64)])


def test_everything_that_a_floor_can_hold_is_read() -> None:
    market = Market()
    market.live()
    transact(lambda outbox: submission.move(market.jobs["winner"], moment="checkpoint", outbox=outbox))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO markets_cooldown (job_id, type_id, until, length_seconds)"
            " SELECT job_id, min(type_id), clock_timestamp() + interval '1 hour', 60 FROM markets_bid GROUP BY job_id"
        )
    with transaction.atomic():
        now = Outbox().now()
        floor = floors.read(market.cluster, now=now).floor
        assert plainly.differences(floor, plainly.read(market.cluster, now=now)) == {}
    for name in ("source", "destination", "award", "seek_deadline", "leaving"):
        assert (floor.jobs[name] > 0).any(), name
    assert (floor.tenures["notice"] > 0).any()
    assert (floor.rows["closed_until"] > 0).any()


def test_instants_are_exact_to_the_microsecond() -> None:
    cluster = scenes.make_cluster()
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    moments = ["1969-12-31T23:59:59.999999Z", "1999-12-31T23:59:59.999999Z", "2026-02-28T12:00:00.000001Z"]
    for moment in moments:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("UPDATE markets_bid SET accepted_at = %s", [moment])
            floor = floors.read(cluster, now=datetime.fromisoformat("2026-01-01T00:00:00Z")).floor
        expected = microseconds(Bid.objects.get(job=job).accepted_at)
        assert floor.rows["accepted_at"].tolist() == [expected]


# What a quiet tick would have missed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11])
def test_a_tick_that_says_unchanged_would_have_planned_nothing(seed: int) -> None:
    day = Day(Random(seed))
    day.cluster.max_moves_per_hour = 2
    day.cluster.save()
    unchanged = 0
    for _ in range(20):
        day.step()
        for _ in range(2):
            day.now += timedelta(seconds=day.chance.choice((1, 2, 30, 400)))
            if day.clear() == Outcome.UNCHANGED:
                unchanged += 1
                check_nothing_was_missed(day)
    assert unchanged > 12


def check_nothing_was_missed(day: Day) -> None:
    cluster = Cluster.objects.get()
    with transaction.atomic():
        floor = floors.read(cluster, now=day.now).floor
        decided = plan(floor, cluster.rule)
        assert decided.actions == ()
        assert scheduling._Dues.of(cluster, floor, day.now).jobs == set()
    quotes = Quote.objects.filter(during__upper_inf=True)
    assert {row.type_id: (row.price_per_hour, row.lease_price_per_hour) for row in quotes} == {
        type_id: (price.public, price.lease) for type_id, price in decided.clearing.prices.items()
    }
