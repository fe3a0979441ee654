"""A re-bid against the tick at which the notice's deadline has passed: one of them decides, never half of each."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest

from laissez.events import Outbox, transact
from laissez.sdk.contexts import Decision
from markets.models import Bid, Notice
from markets.services import advising, scheduling
from tests import scenes
from tests.asking import as_host
from tests.races.interleaving import overlapping
from tests.racing import race
from workers.models import Cluster, Job, Lease
from workers.services import jobs, leases

pytestmark = pytest.mark.django_db(transaction=True)

A10 = "nvidia-a10"
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Outbid:
    """A job under notice on the only unit, which somebody else has been awarded."""

    cluster: Cluster
    host: scenes.FakeHost
    job: Job

    def rebid(self, price: str) -> str:
        return transact(lambda outbox: self.decide(outbox, price))

    def decide(self, outbox: Outbox, price: str) -> str:
        return advising.decide(self.job, Decision(kind="rebid", bids={A10: Decimal(price)}), ask=0, outbox=outbox)

    def pass_deadline(self) -> None:
        notice = Notice.objects.get(state=Notice.State.OPEN)
        Notice.objects.filter(pk=notice.pk).update(deadline=notice.opened_at - timedelta(seconds=1))

    def outcome(self) -> tuple[str, str, str]:
        notice = Notice.objects.get(job=self.job)
        return scenes.lease_of(self.job).state, notice.state, notice.answer


@pytest.fixture
def outbid() -> Outbid:
    return make_outbid("gemm")


def make_outbid(slug: str) -> Outbid:
    cluster = scenes.make_cluster(slug)
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(f"{slug}-bob"), (A10, "0.65"), cluster=slug)
    scenes.tick(cluster)
    host.settle()
    scenes.submit(scenes.make_tenant(f"{slug}-alice"), (A10, "0.70"), cluster=slug)
    scenes.tick(cluster)
    assert Notice.objects.get(job=job).reason == Notice.Reason.OUTBID
    return Outbid(cluster, host, job)


KEPT = (Lease.State.ACTIVE, Notice.State.ANSWERED, Notice.Answer.REBID)
LOST = (Lease.State.CLOSING, Notice.State.EXECUTED, "")


def test_a_raised_bid_keeps_the_unit_when_the_next_clearing_says_so(outbid: Outbid) -> None:
    outbid.rebid("0.75")
    scenes.tick(outbid.cluster)
    assert outbid.outcome() == KEPT


def test_at_the_deadline_the_lease_is_told_to_leave(outbid: Outbid) -> None:
    outbid.pass_deadline()
    scenes.tick(outbid.cluster)
    assert outbid.outcome() == LOST


def test_a_bid_raised_while_the_tick_is_deciding_is_not_overruled_by_what_the_tick_saw(outbid: Outbid) -> None:
    outbid.pass_deadline()
    overlapping(lambda outbox: outbid.decide(outbox, "0.75"), lambda: scenes.tick(outbid.cluster))
    scenes.tick(outbid.cluster)
    assert outbid.outcome() == KEPT


def test_a_bid_raised_too_little_while_the_tick_is_deciding_wins_one_tick(outbid: Outbid) -> None:
    outbid.pass_deadline()
    overlapping(lambda outbox: outbid.decide(outbox, "0.66"), lambda: scenes.tick(outbid.cluster))
    scenes.tick(outbid.cluster)
    assert outbid.outcome() == LOST


def test_a_bid_raised_after_the_notice_was_executed_stands_in_the_queue(outbid: Outbid) -> None:
    outbid.pass_deadline()
    overlapping(lambda outbox: scheduling._tick(outbid.cluster.pk, outbox), lambda: outbid.rebid("0.75"))
    assert outbid.outcome() == LOST
    assert Bid.objects.get(job=outbid.job, closed_at=None).max_price_per_hour == 750_000
    outbid.host.sync()
    outbid.host.end(outbid.job)
    scenes.tick(outbid.cluster)
    outbid.job.refresh_from_db()
    assert (outbid.job.state, Lease.objects.exclude(state="closed").get().job) == ("running", outbid.job)


def test_whichever_comes_first_the_notice_and_the_lease_agree() -> None:
    scenes_of_rounds = [make_outbid(f"round-{number}") for number in range(ROUNDS)]
    for outbid in scenes_of_rounds:
        Notice.objects.filter(job=outbid.job).update(deadline=Notice.objects.get(job=outbid.job).opened_at)
        acts = (lambda outbid=outbid: outbid.rebid("0.75"), lambda outbid=outbid: scenes.tick(outbid.cluster))
        outcomes = race(2, lambda number, acts=acts: acts[number]())
        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        scenes.tick(outbid.cluster)
        assert outbid.outcome() in (KEPT, LOST)


def test_two_rebids_at_once_leave_one_row_for_the_type(outbid: Outbid) -> None:
    outcomes = race(2, lambda number: outbid.rebid(("0.75", "0.80")[number]))
    assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert Bid.objects.get(job=outbid.job, closed_at=None).max_price_per_hour in (750_000, 800_000)


def test_a_decision_of_a_lease_that_has_just_stopped_speaking_for_its_job_is_refused() -> None:
    cluster = scenes.make_cluster()
    old, new = scenes.make_host(cluster, "old", nvidia_a10=1), scenes.make_host(cluster, "new", nvidia_l4=1)
    job = scenes.submit(scenes.make_tenant("bob"), (A10, "0.65"), ("nvidia-l4", "2.0"))
    scenes.tick(cluster)
    old.settle()
    scenes.submit(scenes.make_tenant("alice"), (A10, "0.70"))
    scenes.tick(cluster)
    new.settle()
    old.sync()

    def move_on(outbox: Outbox) -> None:
        locked = jobs.lock_one(job)
        leases.make_primary(scenes.lease_of(locked), now=outbox.now(), outbox=outbox)

    def decide() -> dict[str, object]:
        entry = old.entry(job)
        body = {"fence": entry["fence"], "ask": 1, "decision": {"kind": "migrate", "moment": "now"}}
        answer: dict[str, object] = as_host(old).post(f"/api/v1/host/leases/{entry['lease']}/decision", body).json()
        return answer

    _, answer = overlapping(move_on, decide)
    assert (answer["applied"], answer["code"]) == (False, "not_primary")
    job.refresh_from_db()
    assert job.leaving_since is None
