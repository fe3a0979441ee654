"""Carrying out a plan: stale actions are dropped, a bad hand-over costs only itself, many take two's queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from laissez.events import Outbox, transact
from markets.engine import actions as acts
from markets.engine.dynamics import Plan, plan
from markets.models import Award, CoolDown, Notice
from markets.selectors import exchange
from markets.selectors import floor as floors
from markets.services import submission
from markets.services.actions import Applier
from tests import scenes, soundness
from tests.elapsing import pass_time
from workers.models import Accelerator, AcceleratorType, Cluster, Job, Lease, Migration
from workers.services import hosts, jobs, leases, migrations

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"


def plan_now(cluster: Cluster) -> Plan:
    return transact(lambda outbox: plan(floors.read(cluster, now=outbox.now()).floor, cluster.rule))


def carry_out(cluster: Cluster, decided: Plan, actions: Sequence[acts.Action] | None = None) -> list[acts.Action]:
    """Apply a plan, or other actions under its clearing; returns what was applied."""
    wanted = decided.actions if actions is None else actions

    def work(outbox: Outbox) -> list[acts.Action]:
        Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
        locked = jobs.lock(action.job for action in wanted)
        types, now = exchange.types_of(cluster), outbox.now()
        applier = Applier(cluster=cluster, types=types, clearing=decided.clearing, jobs=locked, now=now, outbox=outbox)
        applier.apply_all(wanted)
        return applier.applied

    return transact(work)


def of_kind(decided: Plan, kind: type) -> list[acts.Action]:
    return [action for action in decided.actions if isinstance(action, kind)]


@pytest.fixture
def cluster() -> Cluster:
    """Six A10s and six L4s."""
    made = scenes.make_cluster(notice_seconds=1)
    made.host = scenes.make_host(made, nvidia_a10=6, nvidia_l4=6)
    return made


def queue(count: int, *, price: str = "0.7", name: str = "alice", **fields: object) -> list[Job]:
    tenant = scenes.make_tenant(name)
    return [scenes.submit(tenant, (A10, price), (L4, "0.6"), **fields) for _ in range(count)]


def run(cluster: Cluster, count: int, **fields: object) -> list[Job]:
    """Jobs that run on A10s."""
    waiting = queue(count, **fields)
    scenes.tick(cluster)
    cluster.host.settle()
    return waiting


def outbid(cluster: Cluster, count: int) -> list[Job]:
    """All A10s are held, and as many jobs are about to lose theirs."""
    losers = run(cluster, 6, name="bob")
    queue(count, price="0.9", name="carol")
    return losers


def cancel(job: Job) -> None:
    transact(lambda outbox: submission.cancel(job, outbox=outbox))


# Stale actions, a kind at a time.


def test_an_award_is_not_opened_where_one_waits(cluster: Cluster) -> None:
    queue(1)
    decided = plan_now(cluster)
    opening = of_kind(decided, acts.OpenAward)
    assert len(carry_out(cluster, decided, opening)) == 1
    assert carry_out(cluster, decided, opening) == []
    assert Award.objects.count() == 1


def test_nothing_is_done_for_a_job_that_is_over(cluster: Cluster) -> None:
    over, goes_on = queue(2)
    decided = plan_now(cluster)
    cancel(over)
    assert {action.job for action in carry_out(cluster, decided)} == {goes_on.pk}
    assert Lease.objects.get().job == goes_on


def test_an_award_that_waits_no_more_is_not_closed(cluster: Cluster) -> None:
    (job,) = queue(1)
    decided = plan_now(cluster)
    carry_out(cluster, decided)
    award = Award.objects.get(job=job)
    assert carry_out(cluster, decided, [acts.CloseAward(award.pk, job.pk)]) == []
    award.refresh_from_db()
    assert award.state == Award.State.HANDED_OVER


def test_a_unit_is_not_handed_over_for_an_award_of_another_type(cluster: Cluster) -> None:
    (job,) = queue(1)
    decided = plan_now(cluster)
    carry_out(cluster, decided, of_kind(decided, acts.OpenAward))
    other = AcceleratorType.objects.get(slug=L4)
    unit = Accelerator.objects.filter(type=other)[0]
    assert carry_out(cluster, decided, [acts.HandOver(job.pk, other.pk, unit.pk, None)]) == []
    assert not Lease.objects.exists()


def drain(cluster: Cluster) -> None:
    transact(lambda outbox: hosts.drain(cluster.host.host, actor="op", reason="why", outbox=outbox))


def break_devices(cluster: Cluster) -> None:
    Accelerator.objects.update(healthy=False)


def remove_devices(cluster: Cluster) -> None:
    Accelerator.objects.all().delete()


@pytest.mark.parametrize("change", [drain, break_devices, remove_devices])
def test_a_unit_that_cannot_be_let_any_more_is_not_handed_over(
    cluster: Cluster, change: Callable[[Cluster], None]
) -> None:
    (job,) = queue(1)
    decided = plan_now(cluster)
    change(cluster)
    assert [type(action) for action in carry_out(cluster, decided)] == [acts.OpenAward]
    assert Award.objects.get().state == Award.State.WAITING
    job.refresh_from_db()
    assert (job.state, Lease.objects.count()) == (Job.State.QUEUED, 0)
    assert not Accelerator.objects.exclude(fence=0).exists()


def test_a_job_with_two_leases_gets_no_third(cluster: Cluster) -> None:
    (job,) = queue(1)
    units = list(Accelerator.objects.filter(type__slug=A10).values_list("pk", flat=True))

    def take(outbox: Outbox) -> list[int]:
        locked = jobs.lock_one(job)
        given = [leases.hand_over([(locked, unit)], now=outbox.now(), outbox=outbox) for unit in units[:3]]
        jobs.start([locked], now=outbox.now(), outbox=outbox)
        return [len(each) for each in given]

    assert transact(take) == [1, 1, 0]


def test_a_notice_is_given_once_and_only_about_a_live_lease(cluster: Cluster) -> None:
    outbid(cluster, 2)
    decided = plan_now(cluster)
    giving = of_kind(decided, acts.GiveNotice)
    assert len(giving) == 2
    leaving = Lease.objects.get(pk=giving[0].lease)
    transact(
        lambda outbox: leases.begin_closing(
            leaving, reason=Lease.Reason.MIGRATED, ending=Lease.Ending.STOP, now=outbox.now(), outbox=outbox
        )
    )
    assert carry_out(cluster, decided, giving) == giving[1:]
    assert carry_out(cluster, decided, giving) == []
    assert Notice.objects.count() == 1


def test_a_notice_that_is_closed_is_neither_withdrawn_nor_executed(cluster: Cluster) -> None:
    outbid(cluster, 1)
    scenes.tick(cluster)
    notice = Notice.objects.get()
    withdrawing = [acts.WithdrawNotice(notice.pk, notice.lease_id, notice.job_id)]
    executing = [acts.ExecuteNotice(notice.pk, notice.lease_id, notice.job_id)]
    decided = plan_now(cluster)
    assert carry_out(cluster, decided, withdrawing) == withdrawing
    assert carry_out(cluster, decided, withdrawing) == carry_out(cluster, decided, executing) == []
    notice.refresh_from_db()
    assert notice.state == Notice.State.WITHDRAWN
    assert Lease.objects.get(pk=notice.lease_id).state == Lease.State.ACTIVE


def test_a_notice_that_a_higher_bid_has_answered_meanwhile_is_not_executed(cluster: Cluster) -> None:
    outbid(cluster, 1)
    scenes.tick(cluster)
    pass_time(2)
    decided = plan_now(cluster)
    (executing,) = of_kind(decided, acts.ExecuteNotice)
    table = scenes.body((A10, "1.5"), (L4, "0.6"))["rows"]
    job = Job.objects.get(pk=executing.job)
    transact(lambda outbox: submission.change_table(job, table, expected_version=None, outbox=outbox))
    assert carry_out(cluster, decided, [executing]) == []
    assert Notice.objects.get().state == Notice.State.OPEN


def test_a_destination_that_is_given_back_already_is_not_given_back_again(cluster: Cluster) -> None:
    (job,) = run(cluster, 1)
    decided = plan_now(cluster)
    returning = [acts.ReturnDestination(0, job.pk, "lost")]
    assert carry_out(cluster, decided, returning) == []
    unit = Accelerator.objects.filter(type__slug=L4)[0]

    def begin(outbox: Outbox) -> None:
        given = leases.hand_over([(jobs.lock_one(job), unit.pk)], now=outbox.now(), outbox=outbox)
        migrations.begin(list(given.values()), now=outbox.now(), outbox=outbox)

    transact(begin)
    assert carry_out(cluster, decided, returning) == returning
    assert carry_out(cluster, decided, returning) == []
    assert (Migration.objects.get().state, Migration.objects.get().reason) == (Migration.State.ABORTED, "lost")
    assert Lease.objects.get(accelerator=unit).state == Lease.State.CLOSING


def test_an_unheard_of_action_is_an_error(cluster: Cluster) -> None:
    (job,) = queue(1)
    with pytest.raises(TypeError, match="no way to apply Nonsense"):
        carry_out(cluster, plan_now(cluster), [Nonsense(job.pk)])


@dataclass(frozen=True, slots=True)
class Nonsense:
    job: int


# One among many.


def test_one_bad_hand_over_among_many_costs_only_itself(cluster: Cluster) -> None:
    waiting = queue(4)
    decided = plan_now(cluster)
    handing = of_kind(decided, acts.HandOver)
    taken = handing[2]
    spoilt = [acts.HandOver(action.job, action.type, taken.unit, None) if action is handing[1] else action
              for action in decided.actions]  # fmt: skip
    applied = of_kind_in(carry_out(cluster, decided, spoilt), acts.HandOver)
    assert len(applied) == 3
    assert sum(action.unit == taken.unit for action in applied) == 1
    running = Job.objects.filter(pk__in=[job.pk for job in waiting], state=Job.State.RUNNING)
    assert set(running) == {lease.job for lease in Lease.objects.all()}
    assert sorted(Lease.objects.values_list("fence", flat=True)) == [1, 1, 1]
    assert Accelerator.objects.filter(fence=1).count() == 3
    assert Award.objects.filter(state=Award.State.WAITING).count() == 1
    assert soundness.violations() == []


def of_kind_in(applied: Sequence[acts.Action], kind: type) -> list[acts.Action]:
    return [action for action in applied if isinstance(action, kind)]


def test_whoever_waits_for_a_unit_has_put_its_holder_under_notice_and_nobody_itself(cluster: Cluster) -> None:
    outbid(cluster, 2)
    scenes.tick(cluster)
    assert list(Award.objects.filter(state="waiting").values_list("put_under_notice", flat=True)) == [True, True]
    award = Award.objects.filter(state="waiting")[0]
    Award.objects.update(put_under_notice=False)
    lease = Lease.objects.exclude(notices__state="open").filter(type__slug=A10)[0]
    Award.objects.filter(pk=award.pk).update(job=lease.job)  # as one who has won the type that it sits on
    decided = plan_now(cluster)
    giving = [acts.GiveNotice(lease.pk, lease.job_id, "outbid", 0)]
    assert carry_out(cluster, decided, giving) == giving
    marked = Award.objects.filter(state="waiting", put_under_notice=True)
    assert award not in marked
    assert marked.count() == 1


def test_cool_downs_start_and_double_together(cluster: Cluster) -> None:
    first, second = queue(2)
    decided = plan_now(cluster)
    kind = AcceleratorType.objects.get(slug=A10).pk
    carry_out(cluster, decided, [acts.CoolDown(first.pk, kind)])
    carry_out(cluster, decided, [acts.CoolDown(first.pk, kind), acts.CoolDown(second.pk, kind)])
    lengths = dict(CoolDown.objects.values_list("job", "length_seconds"))
    assert lengths == {first.pk: 2 * cluster.cool_down_seconds, second.pk: cluster.cool_down_seconds}
    for row in CoolDown.objects.all():
        assert row.until - timedelta(seconds=row.length_seconds) <= row.until


# How many statements it takes.


def statements(cluster: Cluster, decided: Plan, kind: type, count: int) -> int:
    wanted = of_kind(decided, kind)[:count]
    assert len(wanted) == count
    with CaptureQueriesContext(connection) as captured:
        assert len(carry_out(cluster, decided, wanted)) == count
    return len(captured)


def test_opening_awards_takes_the_same_queries_however_many(cluster: Cluster) -> None:
    queue(6)
    two = statements(cluster, plan_now(cluster), acts.OpenAward, 2)
    assert statements(cluster, plan_now(cluster), acts.OpenAward, 4) == two


def test_hand_overs_take_the_same_queries_however_many(cluster: Cluster) -> None:
    queue(6)
    decided = plan_now(cluster)
    carry_out(cluster, decided, of_kind(decided, acts.OpenAward))
    two = statements(cluster, plan_now(cluster), acts.HandOver, 2)
    assert statements(cluster, plan_now(cluster), acts.HandOver, 4) == two


@pytest.mark.parametrize("kind", [acts.GiveNotice, acts.ExecuteNotice, acts.WithdrawNotice])
def test_notices_take_the_same_queries_however_many(cluster: Cluster, kind: type) -> None:
    outbid(cluster, 6)
    if kind is not acts.GiveNotice:
        scenes.tick(cluster)
    if kind is acts.ExecuteNotice:
        pass_time(2)
    if kind is acts.WithdrawNotice:
        for job in Job.objects.filter(state=Job.State.QUEUED):
            cancel(job)
    two = statements(cluster, plan_now(cluster), kind, 2)
    assert statements(cluster, plan_now(cluster), kind, 4) == two


def test_closing_awards_takes_the_same_queries_however_many(cluster: Cluster) -> None:
    outbid(cluster, 6)
    scenes.tick(cluster)
    queue(6, price="1.2", name="dave")
    two = statements(cluster, plan_now(cluster), acts.CloseAward, 2)
    assert statements(cluster, plan_now(cluster), acts.CloseAward, 4) == two


def test_agents_are_asked_in_the_same_queries_however_many_and_keep_their_strongest_cause(cluster: Cluster) -> None:
    asked = run(cluster, 4)
    answered = Job.objects.get(pk=asked[0].pk)
    Job.objects.filter(pk=answered.pk).update(answered_number=answered.ask_number)

    def ask(count: int, cause: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            transact(
                lambda outbox: jobs.ask_agents(
                    list(jobs.lock(job.pk for job in asked[:count]).values()), cause, now=outbox.now()
                )
            )
        return len(captured)

    numbers = [job.ask_number for job in Job.objects.order_by("pk")]
    assert ask(1, "price") == ask(4, "price")
    assert list(Job.objects.order_by("pk").values_list("ask_cause", flat=True)) == ["price", *["hand_over"] * 3]
    ask(4, "notice")
    assert set(Job.objects.values_list("ask_cause", flat=True)) == {"notice"}
    assert [job.ask_number for job in Job.objects.order_by("pk")] == [numbers[0] + 3, *(n + 2 for n in numbers[1:])]
