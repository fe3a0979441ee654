"""Carrying out what the engine has decided: one method per action, each re-checking its rows.

The cluster's lock is held and the jobs named here are locked. Hosts may have reported since the floor was read, so
every write names the state it comes from; "0 rows" drops the action.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import singledispatchmethod

from laissez.events import Outbox
from markets.engine.actions import (
    Action,
    CloseAward,
    CoolDown,
    ExecuteNotice,
    GiveNotice,
    HandOver,
    LapseMove,
    OpenAward,
    ReturnDestination,
    WithdrawNotice,
)
from markets.engine.clearing import Clearing
from markets.models import Award, Bid, Notice
from markets.selectors import rows
from markets.services import awards, bids
from workers.models import Accelerator, Cluster, Job, Lease
from workers.services import jobs, leases, migrations

_CLOSING_REASONS = {
    Notice.Reason.OUTBID: Lease.Reason.OUTBID,
    Notice.Reason.CLAIMED: Lease.Reason.OUTBID,
    Notice.Reason.BELOW_BASE: Lease.Reason.BELOW_BASE,
    Notice.Reason.DRAINED: Lease.Reason.DRAINED,
    Notice.Reason.BUDGET: Lease.Reason.BUDGET,
    Notice.Reason.HOST: Lease.Reason.DRAINED,
}


@dataclass(slots=True)
class Applier:
    """The hand that moves rows for one tick."""

    cluster: Cluster
    clearing: Clearing
    jobs: Mapping[int, Job]
    now: datetime
    outbox: Outbox
    applied: list[Action] = field(default_factory=list)

    def apply(self, action: Action) -> None:
        """Carry out one action, or drop it when its rows have moved on."""
        job = self.jobs.get(action.job)
        if job is not None and job.state in jobs.OPEN_JOB_STATES and self._do(action, job):
            self.applied.append(action)

    @singledispatchmethod
    def _do(self, action: Action, job: Job) -> bool:
        raise TypeError(f"no way to apply {type(action).__name__}")

    @_do.register
    def _(self, action: OpenAward, job: Job) -> bool:
        if Award.objects.filter(job=job, state=Award.State.WAITING).exists():
            return False
        award = Award.objects.create(
            job=job,
            type_id=action.type,
            since=self.now,
            deadline=self.now + timedelta(seconds=self.cluster.max_award_seconds),
        )
        awards.tell(award, "opened", self.outbox)
        return True

    @_do.register
    def _(self, action: CloseAward, job: Job) -> bool:
        award = Award.objects.filter(pk=action.award, state=Award.State.WAITING).select_related(*AWARD_PARTS).first()
        return award is not None and awards.close(award, now=self.now, outbox=self.outbox)

    @_do.register
    def _(self, action: HandOver, job: Job) -> bool:
        award = Award.objects.filter(job=job, type_id=action.type, state=Award.State.WAITING).first()
        if award is None:
            return False
        present = leases.open_leases(job)
        accelerator = Accelerator.objects.select_for_update(no_key=True).get(pk=action.unit)
        lease = leases.hand_over(job, accelerator=accelerator, now=self.now, outbox=self.outbox)
        if lease is None:
            return False
        award.state, award.lease, award.closed_at = Award.State.HANDED_OVER, lease, self.now
        award.save(update_fields=["state", "lease", "closed_at"])
        awards.tell(award, "handed_over", self.outbox)
        jobs.start(job, now=self.now, outbox=self.outbox)
        if present:
            migrations.begin(job, source=present[0], destination=lease, now=self.now, outbox=self.outbox)
        jobs.ask_agent(job, "hand_over", now=self.now)
        return True

    @_do.register
    def _(self, action: GiveNotice, job: Job) -> bool:
        lease = Lease.objects.filter(pk=action.lease, state__in=leases.LIVE_STATES).select_related("type").first()
        if lease is None or Notice.objects.filter(lease=lease, state=Notice.State.OPEN).exists():
            return False
        price = self.clearing.prices[lease.type_id].public
        open_notice(
            job,
            lease,
            reason=Notice.Reason(action.reason),
            seconds=self.cluster.notice_seconds,
            price_per_hour=price,
            now=self.now,
            outbox=self.outbox,
        )
        Award.objects.filter(type_id=lease.type_id, state=Award.State.WAITING).exclude(job=job).update(
            put_under_notice=True
        )
        return True

    @_do.register
    def _(self, action: WithdrawNotice, job: Job) -> bool:
        notice = Notice.objects.filter(pk=action.notice, state=Notice.State.OPEN).select_related("lease").first()
        if notice is None:
            return False
        raised = Bid.objects.filter(
            job=job, type_id=notice.lease.type_id, closed_at=None, accepted_at__gt=notice.opened_at
        ).exists()
        close_notice(
            notice,
            state=Notice.State.ANSWERED if raised else Notice.State.WITHDRAWN,
            answer=Notice.Answer.REBID if raised else None,
            now=self.now,
            outbox=self.outbox,
        )
        return True

    @_do.register
    def _(self, action: ExecuteNotice, job: Job) -> bool:
        notice = Notice.objects.filter(pk=action.notice, state=Notice.State.OPEN).select_related("lease").first()
        if notice is None or self._has_been_answered(job, notice):
            return False
        close_notice(notice, state=Notice.State.EXECUTED, answer=None, now=self.now, outbox=self.outbox)
        if notice.reason == Notice.Reason.BUDGET:
            stopped = jobs.stop(job, reason="budget", detail=BUDGET_DETAIL, now=self.now, outbox=self.outbox)
            self.retire(job)
            return stopped
        return migrations.leave(
            job, notice.lease, reason=_CLOSING_REASONS[Notice.Reason(notice.reason)], now=self.now, outbox=self.outbox
        )

    @_do.register
    def _(self, action: ReturnDestination, job: Job) -> bool:
        return migrations.abort(job, reason=action.reason, now=self.now, outbox=self.outbox)

    @_do.register
    def _(self, action: LapseMove, job: Job) -> bool:
        jobs.want_to_stay(job, outbox=self.outbox)
        return True

    @_do.register
    def _(self, action: CoolDown, job: Job) -> bool:
        awards.close_row(job, action.type, cluster=self.cluster, now=self.now)
        return True

    def _has_been_answered(self, job: Job, notice: Notice) -> bool:
        """Whether the job bids more for its unit by now than anybody whom this clearing has preferred to it."""
        if notice.reason not in (Notice.Reason.OUTBID, Notice.Reason.BELOW_BASE):
            return False
        type_id = notice.lease.type_id
        bid = Bid.objects.filter(job=job, type_id=type_id, closed_at=None).select_related("type").first()
        return bid is not None and counted(bid) > self.clearing.prices[type_id].public

    def retire(self, job: Job) -> None:
        """A job that is over, or stopped, takes no part in the market any more."""
        retire(job, now=self.now, outbox=self.outbox)


BUDGET_DETAIL = "The budget is spent or the tenant's funds no longer cover the job; its state is saved."
AWARD_PARTS = ("job__cluster", "job__tenant", "type")


def open_notice(
    job: Job,
    lease: Lease,
    *,
    reason: Notice.Reason,
    seconds: float,
    price_per_hour: int | None,
    now: datetime,
    outbox: Outbox,
) -> Notice:
    """Warn a job about one lease, and have its agent asked."""
    bid = Bid.objects.filter(job=job, type_id=lease.type_id, closed_at=None).select_related("type").first()
    notice = Notice.objects.create(
        job=job,
        lease=lease,
        reason=reason,
        price_per_hour=price_per_hour,
        bid_per_hour=None if bid is None else counted(bid),
        opened_at=now,
        deadline=now + timedelta(seconds=seconds),
    )
    _tell(notice, "opened", outbox)
    jobs.ask_agent(job, "notice", now=now)
    return notice


def close_notice(
    notice: Notice, *, state: Notice.State, answer: Notice.Answer | None, now: datetime, outbox: Outbox
) -> bool:
    """End an open notice: answered, withdrawn or executed."""
    closed = Notice.objects.filter(pk=notice.pk, state=Notice.State.OPEN).update(
        state=state, answer=answer or "", closed_at=now
    )
    if closed:
        notice.state, notice.answer, notice.closed_at = state, answer or "", now
        _tell(notice, str(state), outbox)
    return bool(closed)


def _tell(notice: Notice, change: str, outbox: Outbox) -> None:
    type_ = f"org.laissez.market.notice.{change}.v1"
    outbox.add(f"job:{notice.job.public_id}", type_, notice.public_id, rows.notice(notice))


def close_spent_notices(job: Job, *, now: datetime, outbox: Outbox) -> None:
    """A notice ends with its lease: whoever is leaving has answered it, by moving or by leaving."""
    spent = Notice.objects.filter(job=job, state=Notice.State.OPEN).exclude(lease__state__in=leases.LIVE_STATES)
    stays = any(lease.state in leases.LIVE_STATES for lease in leases.open_leases(job))
    for notice in spent.select_related("lease", "job"):
        answer = Notice.Answer.MIGRATED if stays else Notice.Answer.LEFT
        close_notice(notice, state=Notice.State.ANSWERED, answer=answer, now=now, outbox=outbox)


def counted(bid: Bid) -> int:
    """What a held row bids: its keep price where it has one, at most the cap."""
    cap = bid.type.cap_price_per_hour
    stated = bid.keep_price_per_hour or bid.max_price_per_hour
    return cap if stated is None else min(cap, stated)


def retire(job: Job, *, now: datetime, outbox: Outbox) -> None:
    """Take a job out of the market: its bids close, its award is withdrawn, its notices have been answered."""
    bids.close_all(job, outbox=outbox)
    for award in Award.objects.filter(job=job, state=Award.State.WAITING).select_related(*AWARD_PARTS):
        awards.withdraw(award, now=now, outbox=outbox)
    for notice in Notice.objects.filter(job=job, state=Notice.State.OPEN).select_related("lease", "job"):
        close_notice(notice, state=Notice.State.ANSWERED, answer=Notice.Answer.LEFT, now=now, outbox=outbox)
