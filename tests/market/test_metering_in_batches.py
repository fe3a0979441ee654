"""Leases metered together, and jobs watched together, come to what the same come to one by one, to the micro-dollar."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from psycopg.types.range import TimestamptzRange

from laissez import clock
from laissez.clock import microseconds
from laissez.events import Outbox, publish, transact
from laissez.models import Event
from markets.models import Bid, BillingSlice, Notice
from markets.services import budgets, funds, metering, submission
from tenants.models import Account, Entry, Hold, Tenant, Transfer
from tenants.selectors import available
from tenants.services import ledger
from tests import scenes
from tests.elapsing import pass_time
from tests.market import one_by_one
from tests.market.days import Day
from workers.models import Cluster, Job, Lease

pytestmark = pytest.mark.django_db

TENANTS = 5
ROUNDS = 4
STEPS = 7


@dataclass
class PoorDay(Day):
    """A day with more devices, and with tenants whose funds now and then run out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hosts.append(scenes.make_host(self.cluster, "more", nvidia_a10=4, nvidia_l4=4))
        self.tenants = [scenes.make_tenant(f"tenant {number}", dollars=0) for number in range(TENANTS)]
        for tenant in self.tenants:
            self.top_up(tenant)

    def top_up(self, tenant: Tenant) -> None:
        amount = self.chance.randint(60_000, 600_000) * funds.speedup()
        key = f"top up {self.chance.random()}"
        self.do(lambda outbox: ledger.top_up(tenant, amount_microdollars=amount, key=key, outbox=outbox))

    def pass_some_steps(self) -> None:
        """Much happens, after which much is due at once."""
        for _ in range(STEPS):
            self.step()
        if self.chance.random() < 0.5:
            self.top_up(self.chance.choice(self.tenants))
        for job in self._jobs():
            if job.state == "running" and self.chance.random() < 0.3:
                cost = one_by_one.cost_of(job, self.now)
                Job.objects.filter(pk=job.pk).update(budget_microdollars=max(1, cost + self.chance.choice((1, 0, -1))))


def rows() -> dict[str, list[Any]]:
    """Everything that a meter writes, without the ids that it draws."""
    return {
        "slices": list(
            BillingSlice.objects.order_by("lease_id", "during").values_list(
                "lease", "during", "integral", "amount_microdollars", "waived_microdollars", "pieces", "transfer__key"
            )
        ),
        "leases": list(
            Lease.objects.order_by("id").values_list(
                "id", "integral", "billed_microdollars", "waived_microdollars", "metered_until"
            )
        ),
        "transfers": list(Transfer.objects.order_by("id").values_list("kind", "at", "reference", "key")),
        "entries": list(
            Entry.objects.order_by("id").values_list(
                "transfer__key", "account__kind", "account__tenant", "amount_microdollars"
            )
        ),
        "holds": list(
            Hold.objects.order_by("id").values_list("reference", "amount_microdollars", "renewed_at", "released_at")
        ),
        "accounts": list(
            Account.objects.order_by("kind", "tenant").values_list(
                "tenant", "balance_microdollars", "held_microdollars"
            )
        ),
        "notices": list(Notice.objects.order_by("id").values_list("job", "lease", "reason", "state", "closed_at")),
        "events": [
            (each.stream_id, each.seq, each.type, each.at, None if "notice" in each.type else (each.subject, each.data))
            for each in Event.objects.order_by("stream_id", "seq")
        ],
    }


def undone(work: Callable[[], None]) -> dict[str, list[Any]]:
    """What the rows are after some work, which is undone again."""
    mark = transaction.savepoint()
    work()
    connection.check_constraints()
    result = rows()
    transaction.savepoint_rollback(mark)
    return result


def in_one_outbox(day: Day, work: Callable[[Outbox], object]) -> None:
    outbox = Outbox(now=day.now)
    work(outbox)
    publish(outbox.drafts, at=day.now)


def one_after_the_other(day: Day, work: Callable[[int, Outbox], object], ids: Sequence[int]) -> None:
    for each in ids:
        in_one_outbox(day, partial(work, each))


def assert_metered_alike(day: Day) -> int:
    due = one_by_one.due(day.cluster.pk, day.now)
    batches = list(metering._batches(metering._due(day.cluster.pk, day.now)))
    assert [lease for batch in batches for lease in batch] == due

    def together() -> None:
        for batch in batches:
            in_one_outbox(day, partial(metering.meter, day.now, batch))

    expected = undone(lambda: one_after_the_other(day, one_by_one.meter, due))
    together()
    assert rows() == expected
    return len(due)


def assert_released_alike(day: Day) -> None:
    settled = one_by_one.settled(day.cluster.pk)
    assert [row[0] for row in budgets._rows(budgets.TO_SETTLE, cluster=day.cluster.pk)] == settled
    expected = undone(lambda: one_after_the_other(day, one_by_one.release, settled))
    in_one_outbox(day, lambda outbox: budgets._release(settled, outbox))
    assert rows() == expected


def assert_watched_alike(day: Day) -> None:
    short, spent = one_by_one.short(day.cluster.pk), one_by_one.spent(day.cluster.pk, day.now)
    assert budgets._short(day.cluster.pk) == short
    assert budgets._spent(day.cluster.pk, day.now) == spent
    concerned = sorted(short | spent)
    expected = undone(lambda: one_after_the_other(day, one_by_one.renew_or_warn, concerned))
    in_one_outbox(day, lambda outbox: budgets._renew_or_warn(concerned, outbox))
    assert rows() == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 5])
def test_leases_metered_together_come_to_what_they_come_to_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(metering, "SLICES_PER_TRANSACTION", chance.choice((200, 20)))
    with override_settings(METER_SPEEDUP=chance.choice((1, 1, 60))):
        day = PoorDay(chance, now=clock.now() - timedelta(days=1))
        metered = 0
        for _ in range(ROUNDS):
            day.pass_some_steps()
            metered += assert_metered_alike(day)
            assert_released_alike(day)
            assert_watched_alike(day)
    assert metered >= ROUNDS


A10 = "nvidia-a10"
END_LEASES = """
    UPDATE workers_lease SET state = 'closed', reason = 'cancelled', ended_at = now(),
        during = tstzrange(lower(during), now()), primary_during = tstzrange(lower(primary_during), now()),
        billed_during = tstzrange(lower(billed_during), metered_until)
"""


def running(*, jobs: int, seconds: float, dollars: int = 100) -> tuple[Cluster, Tenant]:
    """Some jobs of one tenant, confirmed by their host that long ago, which has just been heard."""
    cluster, tenant = scenes.make_cluster(), scenes.make_tenant(dollars=dollars)
    host = scenes.make_host(cluster, nvidia_a10=jobs)
    for _ in range(jobs):
        scenes.submit(tenant, (A10, "1.0"))
    scenes.tick(cluster)
    host.settle()
    pass_time(seconds)
    host.sync()
    scenes.tick(cluster)
    return cluster, tenant


def test_where_funds_run_out_the_older_lease_takes_what_is_left_and_the_rest_is_waived() -> None:
    cluster, tenant = running(jobs=2, seconds=630, dollars=1)
    spare = 50_000
    too_much = available(tenant) - spare
    transact(
        lambda outbox: ledger.charge(tenant, amount_microdollars=too_much, reference="other", key="k", outbox=outbox)
    )
    hold = Hold.objects.first()
    assert hold is not None
    metering.meter_cluster(cluster.pk)
    due = 10 * 606_000 // 60
    billed = Lease.objects.order_by("id").values_list("billed_microdollars", "waived_microdollars")
    taken = hold.amount_microdollars + spare, hold.amount_microdollars
    assert list(billed) == [(each, due - each) for each in taken]
    told = Event.objects.filter(stream__name="ops", type="org.laissez.ops.charge.uncovered.v1")
    assert {event.data["lease"] for event in told} == set(Lease.objects.values_list("public_id", flat=True))


def test_a_lease_that_cannot_be_billed_stops_no_other_of_its_batch(caplog: pytest.LogCaptureFixture) -> None:
    cluster, tenant = running(jobs=5, seconds=90)
    bad = Lease.objects.order_by("id")[2]
    assert bad.metered_until is not None
    key = f"slice:{bad.public_id}:{microseconds(bad.metered_until)}"
    transact(lambda outbox: ledger.charge(tenant, amount_microdollars=1, reference="other", key=key, outbox=outbox))
    assert metering.meter_cluster(cluster.pk) == 4
    assert set(BillingSlice.objects.values_list("lease", flat=True)) == set(
        Lease.objects.exclude(pk=bad.pk).values_list("pk", flat=True)
    )
    assert f"lease {bad.pk} could not be billed" in caplog.text


def test_one_run_bills_a_bounded_number_of_slices_and_first_what_has_waited_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, _ = running(jobs=4, seconds=90)
    monkeypatch.setattr(metering, "SLICES_PER_RUN", 2)
    newest = Lease.objects.order_by("-id")[1:3]
    Lease.objects.filter(pk__in=[lease.pk for lease in newest]).update(
        metered_until=F("metered_until") - timedelta(seconds=1),
        billed_during=TimestamptzRange(newest[0].billed_during.lower - timedelta(seconds=1), None),
        during=TimestamptzRange(newest[0].during.lower - timedelta(seconds=2), None),
    )
    assert metering.meter_cluster(cluster.pk) == 2
    assert set(BillingSlice.objects.values_list("lease", flat=True)) == {lease.pk for lease in newest}
    assert metering.meter_cluster(cluster.pk) == 2
    assert BillingSlice.objects.count() == 4


def test_a_budget_notice_of_former_days_beside_an_open_notice_hides_no_job() -> None:
    cluster, _ = running(jobs=1, seconds=30)
    job, lease, now = Job.objects.get(), Lease.objects.get(), clock.now()
    figures = {"job": job, "lease": lease, "opened_at": now, "deadline": now}
    Notice.objects.create(reason="budget", state="withdrawn", closed_at=now, **figures)
    Notice.objects.create(reason="outbid", state="open", **figures)
    Job.objects.update(budget_microdollars=1)
    assert budgets._spent(cluster.pk, clock.now()) == {job.pk}


def end_leases() -> None:
    """All leases are closed, and billed to their ends."""
    with connection.cursor() as cursor:
        cursor.execute(END_LEASES)


def statements(jobs: int) -> dict[str, int]:
    """How many statements metering and watching take while so many jobs have something due."""
    mark = transaction.savepoint()
    cluster, _ = running(jobs=jobs, seconds=150)
    now, counts = clock.now(), {}
    lease_ids = list(Lease.objects.order_by("id").values_list("pk", flat=True))
    job_ids = list(Job.objects.order_by("id").values_list("pk", flat=True))
    Job.objects.update(budget_microdollars=1_000_000)
    acts: dict[str, Callable[[], object]] = {
        "due": lambda: metering._due(cluster.pk, now),
        "meter": lambda: metering.meter(now, lease_ids, Outbox()),
        "short": lambda: budgets._short(cluster.pk),
        "spent": lambda: budgets._spent(cluster.pk, now),
        "renew": lambda: budgets._renew_or_warn(job_ids, Outbox()),
        "settle": lambda: budgets.settle(cluster.pk),
        "release": lambda: budgets._release(job_ids, Outbox()),
    }
    for name, act in acts.items():
        if name == "release":
            Job.objects.update(state=Job.State.CANCELLED, finished_at=now)
            Bid.objects.filter(closed_at=None).update(closed_at=clock.now())
            end_leases()
        with CaptureQueriesContext(connection) as captured:
            act()
        counts[name] = len(captured)
    transaction.savepoint_rollback(mark)
    return counts


def test_no_lease_and_no_job_adds_a_statement() -> None:
    assert statements(2) == statements(6)


def a_stopped_job() -> tuple[Cluster, Job]:
    """A job that has run, was stopped, has left its device and is billed for it."""
    cluster, _ = running(jobs=1, seconds=90)
    job = Job.objects.get()
    transact(lambda outbox: submission.stop(job, outbox=outbox))
    end_leases()
    return cluster, job


def held_for(job: Job) -> bool:
    return Hold.objects.filter(reference=job.public_id, released_at=None).exists()


def test_a_job_is_settled_once_and_nobody_looks_at_it_again() -> None:
    cluster, job = a_stopped_job()
    budgets.settle(cluster.pk)
    job.refresh_from_db()
    assert job.settled_at is not None
    assert not held_for(job)
    assert budgets._rows(budgets.TO_SETTLE, cluster=cluster.pk) == []
    transact(lambda outbox: submission.cancel(job, outbox=outbox))
    assert budgets._rows(budgets.TO_SETTLE, cluster=cluster.pk) == []


def test_a_settled_job_that_is_resumed_is_settled_again_after_its_next_end() -> None:
    cluster, job = a_stopped_job()
    budgets.settle(cluster.pk)
    transact(lambda outbox: submission.resume(job, outbox=outbox))
    assert Job.objects.get().settled_at is None
    assert held_for(job)
    budgets.settle(cluster.pk)
    assert held_for(job)
    transact(lambda outbox: submission.cancel(job, outbox=outbox))
    budgets.settle(cluster.pk)
    assert Job.objects.get().settled_at is not None
    assert not held_for(job)


def test_a_job_that_has_got_a_lease_again_since_it_was_found_is_not_settled() -> None:
    _, _ = running(jobs=1, seconds=90)
    job = Job.objects.get()
    transact(lambda outbox: submission.stop(job, outbox=outbox))
    assert transact(lambda outbox: budgets._release([job.pk], outbox)) == 0
    assert Job.objects.get().settled_at is None
    assert held_for(job)


def test_settling_reads_the_index_of_what_is_not_settled() -> None:
    """Among many jobs that are over, which is what statistics are for: of a few rows no index is the better one."""
    cluster, job = a_stopped_job()
    now = clock.now()
    known = {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields}
    over = {"state": Job.State.CANCELLED, "finished_at": now, "settled_at": now, "newest_checkpoint_id": None}
    own = ("id", "public_id")
    Job.objects.bulk_create(Job(**{name: known[name] for name in known if name not in own} | over) for _ in range(500))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workers_job")
        cursor.execute("EXPLAIN " + budgets.TO_SETTLE, {"cluster": cluster.pk})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "jobs_to_settle" in plan
