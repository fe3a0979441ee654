"""The meter beside itself, beside the end of a lease and beside a change of bids: every instant is billed once."""

from datetime import timedelta
from decimal import Decimal

import pytest

from laissez import clock
from laissez.events import Outbox, transact
from laissez.sdk.contexts import Decision
from markets.engine.money import amount, integral
from markets.models import BillingSlice, Quote
from markets.services import advising, metering, scheduling
from tenants.models import Transfer
from tests import scenes
from tests.elapsing import pass_time
from tests.races.interleaving import overlapping
from tests.racing import race
from workers.models import Cluster, Job, Lease
from workers.services import jobs, migrations

pytestmark = pytest.mark.django_db(transaction=True)

A10 = "nvidia-a10"
BASE = 606_000
MINUTE_US = 60_000_000


def running(*, minutes: float) -> tuple[Cluster, scenes.FakeHost, Job]:
    """A job whose host has confirmed its device that long ago and has just been heard."""
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    host.settle()
    pass_time(minutes * 60)
    host.sync()
    scenes.tick(cluster)
    return cluster, host, job


def running_together(jobs: int, *, minutes: float) -> tuple[Cluster, scenes.FakeHost, list[Job]]:
    """Some jobs of two tenants on one host, which has just been heard."""
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=jobs)
    tenants = [scenes.make_tenant("alice"), scenes.make_tenant("bob")]
    submitted = [scenes.submit(tenants[number % 2], (A10, "1.0")) for number in range(jobs)]
    scenes.tick(cluster)
    host.settle()
    pass_time(minutes * 60)
    host.sync()
    scenes.tick(cluster)
    return cluster, host, submitted


def charges() -> list[Transfer]:
    return list(Transfer.objects.filter(key__startswith="slice:"))


def test_meters_at_once_bill_a_lease_once() -> None:
    cluster, _, job = running(minutes=3.5)
    outcomes = race(6, lambda _: metering.meter_cluster(cluster.pk))
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert BillingSlice.objects.count() == len(charges()) == 3
    assert scenes.lease_of(job).billed_microdollars == amount(integral(BASE, 0, 3 * MINUTE_US))


def test_a_second_meter_that_waits_for_the_first_finds_nothing_left() -> None:
    cluster, _, job = running(minutes=2.5)
    lease = scenes.lease_of(job)
    _, second = overlapping(
        lambda outbox: metering.meter(clock.now(), [lease.pk], outbox), lambda: metering.meter_cluster(cluster.pk)
    )
    assert second == 0
    assert BillingSlice.objects.count() == len(charges()) == 2


def test_a_meter_and_the_end_of_the_lease_in_any_order_bill_all_of_it_and_no_more() -> None:
    cluster, host, job = running(minutes=2.5)
    acts = (lambda: metering.meter_cluster(cluster.pk), lambda: host.end(job))
    outcomes = race(2, lambda number: acts[number]())
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert_billed_to_the_end(cluster, job)


def test_a_lease_that_ends_while_it_is_metered_is_billed_to_its_end() -> None:
    cluster, host, job = running(minutes=2.5)
    lease = scenes.lease_of(job)
    overlapping(lambda outbox: metering.meter(clock.now(), [lease.pk], outbox), lambda: host.end(job))
    assert_billed_to_the_end(cluster, job)


def test_a_meter_that_waits_for_the_end_of_a_lease_bills_to_that_end() -> None:
    cluster, _, job = running(minutes=2.5)

    def end(outbox: Outbox) -> None:
        locked = jobs.lock_one(job)
        lease = scenes.lease_of(job)
        migrations.end_lease(locked, lease, reason=Lease.Reason.FAILED, at=outbox.now(), outbox=outbox)

    overlapping(end, lambda: metering.meter_cluster(cluster.pk))
    assert_billed_to_the_end(cluster, job)


def assert_billed_to_the_end(cluster: Cluster, job: Job) -> None:
    scenes.tick(cluster)
    metering.meter_cluster(cluster.pk)
    lease = scenes.lease_of(job, billed_during__isnull=False)
    assert (lease.state, lease.metered_until) == (Lease.State.CLOSED, lease.billed_during.upper)
    span_us = (lease.billed_during.upper - lease.billed_during.lower) // timedelta(microseconds=1)
    assert {quote.price_per_hour for quote in Quote.objects.filter(type__slug=A10)} == {BASE}
    assert lease.billed_microdollars == amount(integral(BASE, 0, span_us))
    assert sum(slice_.amount_microdollars for slice_ in lease.slices.all()) == lease.billed_microdollars


def test_a_bid_lowered_while_the_meter_waits_binds_from_its_own_instant() -> None:
    cluster, host, job = running(minutes=0.5)
    scenes.submit(scenes.make_tenant("rival"), (A10, "0.90"))
    scenes.tick(cluster)
    pass_time(40)
    host.sync()
    decision = Decision(kind="rebid", bids={A10: Decimal("0.70")})
    _, billed = overlapping(
        lambda outbox: advising.decide(job, decision, ask=0, outbox=outbox), lambda: metering.meter_cluster(cluster.pk)
    )
    assert billed == 1
    host.end(job)
    metering.meter_cluster(cluster.pk)
    prices = {piece["price_per_hour"]: piece["own_bid"] for piece in BillingSlice.objects.order_by("-id")[0].pieces}
    assert prices == {"0.900000": False, "0.700000": True}


def test_a_batch_that_waits_for_the_end_of_one_lease_bills_that_one_to_its_end_and_the_others_their_minutes() -> None:
    cluster, _, submitted = running_together(4, minutes=2.5)
    ending = submitted[2]

    def end(outbox: Outbox) -> None:
        locked = jobs.lock_one(ending)
        lease = scenes.lease_of(ending)
        migrations.end_lease(locked, lease, reason=Lease.Reason.FAILED, at=outbox.now(), outbox=outbox)

    _, billed = overlapping(end, lambda: metering.meter_cluster(cluster.pk))
    assert billed == 4
    assert_billed_to_the_end(cluster, ending)
    for job in submitted:
        if job != ending:
            assert scenes.lease_of(job).billed_microdollars == amount(integral(BASE, 0, 2 * MINUTE_US))


def test_a_report_that_waits_for_a_batch_ends_its_lease_after_what_the_batch_has_billed() -> None:
    cluster, host, submitted = running_together(4, minutes=2.5)
    lease_ids = [scenes.lease_of(job).pk for job in submitted]
    billed, _ = overlapping(
        lambda outbox: metering.meter(clock.now(), lease_ids, outbox), lambda: host.end(submitted[1])
    )
    assert billed == 4
    assert_billed_to_the_end(cluster, submitted[1])


def test_a_batch_that_waits_for_a_change_of_one_bid_bills_that_job_by_it_and_no_other() -> None:
    cluster, host, submitted = running_together(3, minutes=0.5)
    for price in ("0.90", "0.90", "0.90"):
        scenes.submit(scenes.make_tenant(f"rival {len(charges())} {Job.objects.count()}"), (A10, price))
    scenes.tick(cluster)
    pass_time(40)
    host.sync()
    decision = Decision(kind="rebid", bids={A10: Decimal("0.70")})
    changing = submitted[1]
    _, billed = overlapping(
        lambda outbox: advising.decide(changing, decision, ask=0, outbox=outbox),
        lambda: metering.meter_cluster(cluster.pk),
    )
    assert billed == 3
    for job in submitted:
        host.end(job)
    metering.meter_cluster(cluster.pk)
    own = {
        job.pk: any(piece["own_bid"] for slice_ in scenes.lease_of(job).slices.all() for piece in slice_.pieces)
        for job in submitted
    }
    assert own == {job.pk: job == changing for job in submitted}


def test_batches_of_several_meters_at_once_bill_every_lease_once() -> None:
    cluster, _, submitted = running_together(6, minutes=3.5)
    outcomes = race(4, lambda _: metering.meter_cluster(cluster.pk))
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert BillingSlice.objects.count() == len(charges()) == 3 * len(submitted)


def test_a_slow_meter_delays_no_tick() -> None:
    cluster, _, submitted = running_together(3, minutes=2.5)
    lease_ids = [scenes.lease_of(job).pk for job in submitted]
    scenes.make_host(cluster, "host-2", nvidia_l4=1)
    waiting = scenes.submit(scenes.make_tenant("carol"), ("nvidia-l4", "1.0"))

    def meter(outbox: Outbox) -> tuple[int, list[object]]:
        billed = metering.meter(clock.now(), lease_ids, outbox)
        return billed, race(1, lambda _: scenes.tick(cluster))  # while nothing of this is committed

    assert transact(meter) == (3, [scheduling.Outcome.CLEARED])
    waiting.refresh_from_db()
    assert waiting.state == Job.State.RUNNING


def test_a_meter_beside_a_tick_bills_up_to_the_tick_before_it() -> None:
    cluster, _, _ = running(minutes=2.5)
    before = metering.quoted_until(cluster.pk)
    cluster.refresh_from_db()
    assert before is not None
    assert cluster.last_tick_at is not None
    assert before > cluster.last_tick_at

    def tick(outbox: Outbox) -> None:
        assert scheduling._tick(cluster.pk, outbox) == scheduling.Outcome.UNCHANGED
        seen, billed = race(1, lambda _: (metering.quoted_until(cluster.pk), metering.meter_cluster(cluster.pk)))[0]
        assert seen == cluster.last_tick_at
        assert billed == 1

    transact(tick)
    assert BillingSlice.objects.count() == 2
    after = metering.quoted_until(cluster.pk)
    assert after is not None
    assert after > before


def test_what_has_ended_after_the_tick_before_is_billed_to_its_end_by_a_later_meter() -> None:
    cluster, host, job = running(minutes=2.5)

    def tick(outbox: Outbox) -> None:
        assert scheduling._tick(cluster.pk, outbox) == scheduling.Outcome.UNCHANGED
        race(1, lambda _: host.end(job))
        race(1, lambda _: metering.meter_cluster(cluster.pk))
        lease = scenes.lease_of(job)
        assert lease.metered_until == lease.billed_during.lower + timedelta(minutes=2)
        assert lease.metered_until < lease.billed_during.upper

    transact(tick)
    assert_billed_to_the_end(cluster, job)


def test_a_meter_beside_another_leaves_the_work_to_it() -> None:
    cluster, _, _ = running(minutes=2.5)
    with metering._alone(cluster.pk) as is_alone:
        assert is_alone
        assert race(1, lambda _: metering.meter_cluster(cluster.pk)) == [0]
    assert metering.meter_cluster(cluster.pk) == 1
