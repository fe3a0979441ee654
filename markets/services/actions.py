"""Carrying out what the engine has decided: a few statements per kind of action, each re-checking its rows.

The cluster's lock is held and the jobs named here are locked. Hosts may have reported since the floor was read, so
every write names the state it comes from; an action whose row has moved on is dropped.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, prefetch_related_objects

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
from markets.models import Notice
from markets.services import awards, bids, notices
from markets.services.notices import Ending, OpenBid, Opening
from workers.models import AcceleratorType, Cluster, Job, Lease
from workers.services import jobs, leases, migrations

BUDGET_DETAIL = "The budget is spent or the tenant's funds no longer cover the job; its state is saved."
_CLOSING_REASONS = {
    Notice.Reason.OUTBID: Lease.Reason.OUTBID,
    Notice.Reason.CLAIMED: Lease.Reason.OUTBID,
    Notice.Reason.BELOW_BASE: Lease.Reason.BELOW_BASE,
    Notice.Reason.DRAINED: Lease.Reason.DRAINED,
    Notice.Reason.BUDGET: Lease.Reason.BUDGET,
    Notice.Reason.HOST: Lease.Reason.DRAINED,
}
_ANSWERED_BY_BIDS = (Notice.Reason.OUTBID, Notice.Reason.BELOW_BASE)


@dataclass(slots=True)
class Applier:
    """The hand that moves rows for one tick."""

    cluster: Cluster
    types: Mapping[int, AcceleratorType]
    clearing: Clearing
    jobs: Mapping[int, Job]
    now: datetime
    outbox: Outbox
    applied: list[Action] = field(default_factory=list)

    def apply_all(self, actions: Iterable[Action]) -> None:
        """Carry out a plan's actions, kind by kind in the order in which a plan names those of one job.

        An action is dropped when its rows have moved on, or its job is not locked or not open any more.
        """
        by_kind: dict[type, list[Action]] = defaultdict(list)
        for action in actions:
            by_kind[type(action)].append(action)
        self._load_what_is_told()
        for kind, carry_out in self._ways().items():
            wanted = [action for action in by_kind.pop(kind, []) if self._is_open(action)]
            if wanted:
                self.applied += carry_out(wanted)
        if by_kind:
            raise TypeError(f"no way to apply {', '.join(sorted(kind.__name__ for kind in by_kind))}")

    def _ways(self) -> Mapping[type, Callable[[Sequence[Any]], Iterable[Action]]]:
        return {
            ReturnDestination: self._return_destinations,
            CloseAward: self._close_awards,
            CoolDown: self._cool_down,
            OpenAward: self._open_awards,
            HandOver: self._hand_over,
            LapseMove: self._lapse_moves,
            GiveNotice: self._give_notices,
            WithdrawNotice: self._withdraw_notices,
            ExecuteNotice: self._execute_notices,
        }

    def _load_what_is_told(self) -> None:
        """A job's events name its tenant and its cluster."""
        prefetch_related_objects(list(self.jobs.values()), "tenant")
        for job in self.jobs.values():
            job.cluster = self.cluster

    def _is_open(self, action: Action) -> bool:
        job = self.jobs.get(action.job)
        return job is not None and job.state in jobs.OPEN_JOB_STATES

    def _return_destinations(self, actions: Sequence[ReturnDestination]) -> Iterable[Action]:
        giving_back = [(self.jobs[action.job], str(action.reason)) for action in actions]
        aborted = {job.pk for job in migrations.abort_all(giving_back, now=self.now, outbox=self.outbox)}
        return [action for action in actions if action.job in aborted]

    def _close_awards(self, actions: Sequence[CloseAward]) -> Iterable[Action]:
        waiting = {award.pk: award for award in awards.waiting_of(self._jobs_of(actions))}
        rows = [waiting[action.award] for action in actions if action.award in waiting]
        closed = {award.pk for award in awards.close(rows, now=self.now, outbox=self.outbox)}
        return [action for action in actions if action.award in closed]

    def _cool_down(self, actions: Sequence[CoolDown]) -> Iterable[Action]:
        pairs = [(action.job, action.type) for action in actions]
        awards.close_rows(pairs, cluster=self.cluster, now=self.now)
        return actions

    def _open_awards(self, actions: Sequence[OpenAward]) -> Iterable[Action]:
        pairs = [(self.jobs[action.job], self.types[action.type]) for action in actions]
        opened = awards.open_all(pairs, cluster=self.cluster, now=self.now, outbox=self.outbox)
        won = {(award.job_id, award.type_id) for award in opened}
        return [action for action in actions if (action.job, action.type) in won]

    def _hand_over(self, actions: Sequence[HandOver]) -> Iterable[Action]:
        """Leases for jobs that wait for this type; where a job has another one already, it begins to move."""
        waiting = {(award.job_id, award.type_id): award for award in awards.waiting_of(self._jobs_of(actions))}
        wanted = {action.job: action for action in actions if (action.job, action.type) in waiting}
        pairs = [(self.jobs[action.job], action.unit) for action in wanted.values()]
        given = leases.hand_over(pairs, now=self.now, outbox=self.outbox)
        done = [action for action in wanted.values() if action.job in given]
        won = [(waiting[action.job, action.type], given[action.job]) for action in done]
        awards.hand_over(won, now=self.now, outbox=self.outbox)
        takers = self._jobs_of(done)
        jobs.start(takers, now=self.now, outbox=self.outbox)
        migrations.begin(list(given.values()), now=self.now, outbox=self.outbox)
        jobs.ask_agents(takers, "hand_over", now=self.now)
        return done

    def _lapse_moves(self, actions: Sequence[LapseMove]) -> Iterable[Action]:
        jobs.want_to_stay(self._jobs_of(actions), outbox=self.outbox)
        return actions

    def _give_notices(self, actions: Sequence[GiveNotice]) -> Iterable[Action]:
        is_warned = Exists(Notice.objects.filter(lease=OuterRef("pk"), state=Notice.State.OPEN))
        unwarned = Lease.objects.filter(~is_warned, state__in=leases.LIVE_STATES)
        live = {lease.pk: lease for lease in unwarned.filter(pk__among=[action.lease for action in actions])}
        wanted = {action.lease: action for action in actions if action.lease in live}
        openings = [self._opening(action, live[action.lease]) for action in wanted.values()]
        notices.open_all(openings, seconds=self.cluster.notice_seconds, now=self.now, outbox=self.outbox)
        awards.mark_disturbing((opening.lease.type_id, opening.job.pk) for opening in openings)
        return wanted.values()

    def _opening(self, action: GiveNotice, lease: Lease) -> Opening:
        lease.type = self.types[lease.type_id]
        price = self.clearing.prices[lease.type_id].public
        return Opening(self.jobs[action.job], lease, Notice.Reason(action.reason), price)

    def _withdraw_notices(self, actions: Sequence[WithdrawNotice]) -> Iterable[Action]:
        """The clearing gives the unit back: because its job has raised its bid, which is an answer, or all the same."""
        found = self._open_notices(actions)
        present = notices.open_bids(action.job for action in actions)
        endings = []
        for notice in found.values():
            bid = present.get((notice.job_id, notice.lease.type_id))
            raised = bid is not None and bid.accepted_at > notice.opened_at
            answer = Notice.Answer.REBID if raised else None
            endings.append(Ending(notice, Notice.State.ANSWERED if raised else Notice.State.WITHDRAWN, answer))
        closed = {notice.pk for notice in notices.close_all(endings, now=self.now, outbox=self.outbox)}
        return [action for action in actions if action.notice in closed]

    def _execute_notices(self, actions: Sequence[ExecuteNotice]) -> Iterable[Action]:
        found = self._open_notices(actions)
        present = notices.open_bids(notice.job_id for notice in found.values() if notice.reason in _ANSWERED_BY_BIDS)
        endings = [
            Ending(notice, Notice.State.EXECUTED)
            for notice in found.values()
            if not self._has_been_answered(notice, present)
        ]
        executed = notices.close_all(endings, now=self.now, outbox=self.outbox)
        gone = self._stop([notice.job for notice in executed if notice.reason == Notice.Reason.BUDGET])
        leaving = [
            (notice.job, notice.lease, _CLOSING_REASONS[Notice.Reason(notice.reason)])
            for notice in executed
            if notice.reason != Notice.Reason.BUDGET
        ]
        gone |= {lease.job_id for lease in migrations.leave_all(leaving, now=self.now, outbox=self.outbox)}
        return [action for action in actions if action.notice in found and action.job in gone]

    def _stop(self, spent: Iterable[Job]) -> set[int]:
        """Stop jobs whose money is gone; returns which. They are few in a tick, so each is stopped by itself."""
        stopped = set()
        for job in spent:
            if jobs.stop(job, reason="budget", detail=BUDGET_DETAIL, now=self.now, outbox=self.outbox):
                stopped.add(job.pk)
            retire(job, now=self.now, outbox=self.outbox)
        return stopped

    def _has_been_answered(self, notice: Notice, present: Mapping[tuple[int, int], OpenBid]) -> bool:
        """Whether the job bids more for its unit by now than anybody whom this clearing has preferred to it."""
        if notice.reason not in _ANSWERED_BY_BIDS:
            return False
        bid = present.get((notice.job_id, notice.lease.type_id))
        return bid is not None and bid.counted > self.clearing.prices[notice.lease.type_id].public

    def _open_notices(self, actions: Sequence[WithdrawNotice] | Sequence[ExecuteNotice]) -> dict[int, Notice]:
        """Those of the notices that these actions name that are still open, in the order of the actions."""
        still_open = {notice.pk: notice for notice in notices.open_of(self._jobs_of(actions))}
        return {action.notice: still_open[action.notice] for action in actions if action.notice in still_open}

    def _jobs_of(self, actions: Iterable[Action]) -> list[Job]:
        return [self.jobs[action.job] for action in actions]


def retire(job: Job, *, now: datetime, outbox: Outbox) -> None:
    """Take a job out of the market: its bids close, its award is withdrawn, its notices have been answered."""
    bids.close_all(job, outbox=outbox)
    awards.withdraw(awards.waiting_of([job]), now=now, outbox=outbox)
    notices.leave_all([job], now=now, outbox=outbox)
