"""What the demo says of its story, read from a small market in the database."""

from datetime import UTC, datetime, timedelta

import pytest

from laissez.demo import outcome, seed
from laissez.demo.story import A, B
from laissez.management.commands.demo import faults_of, summary
from markets.services import metering
from tenants import selectors
from tenants.models import Tenant
from tests import scenes
from workers.models import AcceleratorType, Cluster, Job, Migration

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A10, L4 = "nvidia-a10", "nvidia-l4"


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def a_story_in_small() -> dict[str, str]:
    """B runs on the A10, A outbids it, B moves to an L4 and ends, A runs on the A10 and ends."""
    cluster = scenes.make_cluster()
    a10, l4 = scenes.make_host(cluster, "a10", nvidia_a10=1), scenes.make_host(cluster, "l4", nvidia_l4=1)
    b = scenes.submit(scenes.make_tenant("ben"), (A10, "0.652"), (L4, "2.0"))
    scenes.tick(cluster)
    a10.settle()
    a10.report(b, "progress", progress=0.5, step=50, loss=0.75, at_step_seconds=1.0)
    a = scenes.submit(scenes.make_tenant("anna"), (A10, "0.6872"))
    scenes.tick(cluster)
    l4.settle()
    a10.checkpoint(b, 0.5)
    a10.sync()
    a10.end(b)
    l4.sync()
    l4.report(b, "progress", progress=0.51, step=51, loss=0.74, at_step_seconds=1.0)
    l4.report(b, "first_step")
    scenes.tick(cluster)
    a10.settle()
    for host, job in ((l4, b), (a10, a)):
        host.report(job, "exit", reason="completed", exit_code=0)
        host.end(job)
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    return {B: b.public_id, A: a.public_id}


@pytest.mark.django_db(transaction=True)
def test_the_outcome_has_prices_bids_leases_moves_bills_and_ends() -> None:
    jobs = a_story_in_small()
    assert outcome.is_settled(jobs)
    ended = outcome.collect(jobs, speedup=15)
    assert [point["price"] for point in ended["a10_prices"]] == ["0.606000", "0.652000", "0.606000"]
    assert {(bid["job"], bid["type"], bid["value"]) for bid in ended["bids"]} == {
        (B, A10, "0.652000"),
        (B, L4, "2.000000"),
        (A, A10, "0.687200"),
    }
    assert [(lease["job"], lease["type"], lease["reason"]) for lease in ended["leases"]] == [
        (B, A10, "migrated"),
        (B, L4, "completed"),
        (A, A10, "completed"),
    ]
    (move,) = ended["migrations"]
    assert (move["source"], move["destination"], move["state"]) == (A10, L4, "done")
    assert (move["loss_before"], move["loss_after"]) == (0.75, 0.74)
    assert move["resume_seconds"] >= 0
    assert ended["states"] == {B: "succeeded", A: "succeeded"}
    assert list(ended["finish_minute"]) == list(ended["bills"]) == [B, A]


@pytest.mark.django_db(transaction=True)
def test_a_story_is_settled_when_the_last_second_is_billed() -> None:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    host.settle()
    assert not outcome.is_settled({B: job.public_id})
    host.report(job, "exit", reason="completed", exit_code=0)
    host.end(job)
    assert not outcome.is_settled({B: job.public_id})
    metering.meter_cluster(cluster.pk)
    assert outcome.is_settled({B: job.public_id})


@pytest.mark.parametrize(
    ("active", "saved", "stopped", "seconds"),
    [(2, 5, 6, 4.0), (8, 5, 6, 2.0), (2, 5, 11, 5.0), (2, 5, None, 5.0)],
    ids=["source stopped last", "destination active last", "source overlapped", "source still runs"],
)
def test_standing_still_begins_when_both_sides_are_through(
    active: int, saved: int, stopped: int | None, seconds: float
) -> None:
    move = Migration(
        destination_active_at=after(active),
        transferring_at=after(saved),
        source_stopped_at=None if stopped is None else after(stopped),
        first_step_at=after(10),
    )
    assert outcome.resume_seconds(move) == seconds


def test_a_move_without_a_first_step_has_no_duration() -> None:
    assert outcome.resume_seconds(Migration(destination_active_at=NOON)) is None


@pytest.mark.django_db(transaction=True)
def test_the_stage_is_set_once_however_often_the_demo_runs() -> None:
    first, second = seed.seed(), seed.seed()
    assert Cluster.objects.count() == 1
    assert dict(AcceleratorType.objects.values_list("slug", "base_price_per_hour")) == {
        "nvidia-a10": 606_000,
        "nvidia-l4": 475_500,
        "aws-trainium": 804_000,
    }
    assert Tenant.objects.count() == 3
    assert {selectors.balance(tenant) for tenant in Tenant.objects.all()} == {seed.FUNDS_MICRODOLLARS}
    assert first.tokens.keys() == second.tokens.keys() == {A, B}
    assert first.tokens != second.tokens


@pytest.mark.django_db(transaction=True)
def test_jobs_that_an_earlier_demo_left_open_are_cancelled() -> None:
    seed.seed()
    (name, _), cluster = seed.TENANTS[B], Cluster.objects.get()
    tenant = Tenant.objects.get(name=name)
    left, ended = (scenes.submit(tenant, (A10, "1.0"), cluster=cluster.slug) for _ in range(2))
    Job.objects.filter(pk=ended.pk).update(state=Job.State.CANCELLED, finished_at=NOON)
    assert seed.cancel_leftovers() == [left.public_id]
    left.refresh_from_db()
    assert left.state == Job.State.CANCELLED
    assert seed.cancel_leftovers() == []


GOOD = {
    "states": {B: "succeeded", A: "succeeded"},
    "bit_exact": True,
    "invariants": [],
    "a10_prices": [{"minute": 0.0, "price": "0.606000"}],
    "migrations": [],
    "bills": {B: "0.147300"},
}


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({}, []),
        ({"states": {B: "failed"}}, ["app-b failed"]),
        ({"bit_exact": False}, ["the final parameters differ from an uninterrupted run's"]),
        ({"invariants": ["I1: twice"]}, ["I1: twice"]),
    ],
)
def test_a_story_that_went_wrong_says_so(change: dict[str, object], faults: list[str]) -> None:
    ended = {**GOOD, **change}
    assert faults_of(ended) == faults
    assert ("DIFFER" in summary(ended)) == (not ended["bit_exact"])
    assert ("VIOLATED" in summary(ended)) == bool(ended["invariants"])
