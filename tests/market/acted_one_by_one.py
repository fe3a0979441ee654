"""Carrying out a plan action by action and row by row: slow and plain, the reference of `markets.services.actions`."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import singledispatchmethod
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.utils import IntegrityError
from psycopg.types.range import TimestamptzRange

from laissez.events import Outbox
from markets.engine import actions as acts
from markets.engine.clearing import Clearing
from markets.engine.dynamics import cool_down
from markets.models import Award, Bid, CoolDown, Notice
from markets.selectors import rows
from markets.services import awards, bids
from markets.services.actions import BUDGET_DETAIL
from markets.services.notices import counted
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Job, Lease, Migration
from workers.services import announce, jobs

KINDS = (
    acts.ReturnDestination, acts.CloseAward, acts.CoolDown, acts.OpenAward, acts.HandOver, acts.LapseMove,
    acts.GiveNotice, acts.WithdrawNotice, acts.ExecuteNotice,
)  # fmt: skip
"""The order in which a plan names the actions of one job."""
LIVE = (Lease.State.PENDING, Lease.State.ACTIVE)
OPEN_MIGRATIONS = ("awarded", "checkpointing", "transferring", "restoring")
CAUSES = ("heartbeat", "price", "award", "hand_over", "notice", "checkpoint")
CLOSING_REASONS = {
    "outbid": "outbid", "claimed": "outbid", "below_base": "below_base", "drained": "drained", "budget": "budget",
    "host": "drained",
}  # fmt: skip


class OneByOne:
    """As `Applier`, and as it was before it took many actions at once."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        types: Mapping[int, AcceleratorType],
        clearing: Clearing,
        jobs: dict[int, Job],
        now: datetime,
        outbox: Outbox,
    ) -> None:
        self.cluster, self.clearing, self.jobs, self.now, self.outbox = cluster, clearing, jobs, now, outbox
        self.applied: list[acts.Action] = []

    def apply_all(self, actions: Sequence[acts.Action]) -> None:
        for action in sorted(actions, key=lambda action: KINDS.index(type(action))):
            job = self.jobs.get(action.job)
            if job is not None and job.state in ("queued", "running") and self._do(action, job):
                self.applied.append(action)

    @singledispatchmethod
    def _do(self, action: Any, job: Job) -> bool:
        raise TypeError(action)

    @_do.register
    def _(self, action: acts.OpenAward, job: Job) -> bool:
        if Award.objects.filter(job=job, state="waiting").exists():
            return False
        deadline = self.now + timedelta(seconds=self.cluster.max_award_seconds)
        award = Award.objects.create(job=job, type_id=action.type, since=self.now, deadline=deadline)
        self._tell_award(award, "opened")
        return True

    @_do.register
    def _(self, action: acts.CloseAward, job: Job) -> bool:
        award = Award.objects.filter(pk=action.award, state="waiting").first()
        if award is None:
            return False
        bid = Bid.objects.filter(job=job, type=award.type, closed_at=None).first()
        own = bid is None or (bid.accepted_at > award.since and self._was_higher(award, bid))
        return self._withdraw(award) if own else self._end(award, "lost")

    def _was_higher(self, award: Award, bid: Bid) -> bool:
        former = Bid.objects.filter(job=award.job, type=award.type, opened_at__lte=award.since).order_by("-id").first()
        if former is None or bid.max_price_per_hour is None:
            return False
        return former.max_price_per_hour is None or bid.max_price_per_hour < former.max_price_per_hour

    def _withdraw(self, award: Award) -> bool:
        if not self._end(award, "withdrawn"):
            return False
        if award.put_under_notice:
            awards._charge(award, self.outbox)
        return True

    def _end(self, award: Award, state: str) -> bool:
        ended = Award.objects.filter(pk=award.pk, state="waiting").update(state=state, closed_at=self.now)
        award.refresh_from_db()
        if ended:
            self._tell_award(award, state)
        return bool(ended)

    def _tell_award(self, award: Award, change: str) -> None:
        type_ = f"org.laissez.market.award.{change}.v1"
        self.outbox.add(f"job:{award.job.public_id}", type_, award.public_id, rows.award(award))

    @_do.register
    def _(self, action: acts.HandOver, job: Job) -> bool:
        award = Award.objects.filter(job=job, type_id=action.type, state="waiting").first()
        if award is None:
            return False
        present = self._open_leases(job)
        lease = self._lease(job, action.unit, present)
        if lease is None:
            return False
        announce.lease(lease, self.outbox, "handed_over")
        award.state, award.lease, award.closed_at = Award.State.HANDED_OVER, lease, self.now
        award.save()
        self._tell_award(award, "handed_over")
        self._start(job)
        if present:
            self._begin_to_move(job, present[0], lease)
        self._ask(job, "hand_over")
        return True

    def _open_leases(self, job: Job) -> list[Lease]:
        found = Lease.objects.filter(job=job).exclude(state="closed").order_by("id")
        return sorted(found, key=lambda row: not self._is_primary(row))

    def _is_primary(self, lease: Lease) -> bool:
        return lease.primary_during is not None and lease.primary_during.upper is None

    def _lease(self, job: Job, unit: int, present: list[Lease]) -> Lease | None:
        slot = next((slot for slot in (0, 1) if slot not in {lease.slot for lease in present}), None)
        if slot is None:
            return None
        try:
            with transaction.atomic():
                usable = Accelerator.objects.filter(pk=unit, healthy=True, host__state=Host.State.READY)
                if not usable.update(fence=F("fence") + 1):
                    return None
                device = Accelerator.objects.get(pk=unit)
                is_spoken_for = any(map(self._is_primary, present))
                return Lease.objects.create(
                    job=job,
                    accelerator=device,
                    host_id=device.host_id,
                    type_id=device.type_id,
                    slot=slot,
                    fence=device.fence,
                    during=TimestamptzRange(self.now, None),
                    primary_during=None if is_spoken_for else TimestamptzRange(self.now, None),
                    handed_over_at=self.now,
                    pending_deadline=self.now + timedelta(seconds=60),
                    expires_at=self.now + timedelta(seconds=settings.LEASE_TTL_SECONDS),
                )
        except IntegrityError:
            return None

    def _start(self, job: Job) -> None:
        moved = Job.objects.filter(pk=job.pk, state="queued").update(
            state="running", reason="handed_over", reason_detail="", queue_deadline=None,
            started_at=job.started_at or self.now,
        )  # fmt: skip
        job.refresh_from_db()
        if moved:
            announce.job(job, self.outbox)

    def _begin_to_move(self, job: Job, source: Lease, destination: Lease) -> None:
        saving = source.state == "closing"
        row = Migration.objects.create(
            job=job,
            source=source,
            destination=destination,
            mode="stop_and_copy" if saving else job.migration_mode,
            state="checkpointing" if saving else "awarded",
            checkpointing_at=source.closing_at if saving else None,
            opened_at=self.now,
            deadline=self.now + timedelta(seconds=job.seek_seconds),
        )
        announce.migration(row, self.outbox)

    def _ask(self, job: Job, cause: str) -> None:
        unanswered = job.ask_number > job.answered_number
        if not (unanswered and CAUSES.index(job.ask_cause) > CAUSES.index(cause)):
            job.ask_cause = cause
        job.ask_number += 1
        job.asked_at = self.now
        job.save()

    @_do.register
    def _(self, action: acts.GiveNotice, job: Job) -> bool:
        lease = Lease.objects.filter(pk=action.lease, state__in=LIVE).first()
        if lease is None or Notice.objects.filter(lease=lease, state="open").exists():
            return False
        bid = Bid.objects.filter(job=job, type_id=lease.type_id, closed_at=None).first()
        notice = Notice.objects.create(
            job=job,
            lease=lease,
            reason=action.reason,
            price_per_hour=self.clearing.prices[lease.type_id].public,
            bid_per_hour=None if bid is None else counted(bid),
            opened_at=self.now,
            deadline=self.now + timedelta(seconds=self.cluster.notice_seconds),
        )
        self._tell_notice(notice, "opened")
        self._ask(job, "notice")
        others = Award.objects.filter(type_id=lease.type_id, state="waiting").exclude(job=job)
        others.update(put_under_notice=True)
        return True

    def _tell_notice(self, notice: Notice, change: str) -> None:
        type_ = f"org.laissez.market.notice.{change}.v1"
        self.outbox.add(f"job:{notice.job.public_id}", type_, notice.public_id, rows.notice(notice))

    @_do.register
    def _(self, action: acts.WithdrawNotice, job: Job) -> bool:
        notice = Notice.objects.filter(pk=action.notice, state="open").first()
        if notice is None:
            return False
        raised = Bid.objects.filter(
            job=job, type_id=notice.lease.type_id, closed_at=None, accepted_at__gt=notice.opened_at
        ).exists()
        self._close(notice, "answered" if raised else "withdrawn", "rebid" if raised else "")
        return True

    def _close(self, notice: Notice, state: str, answer: str) -> None:
        Notice.objects.filter(pk=notice.pk).update(state=state, answer=answer, closed_at=self.now)
        notice.refresh_from_db()
        self._tell_notice(notice, state)

    @_do.register
    def _(self, action: acts.ExecuteNotice, job: Job) -> bool:
        notice = Notice.objects.filter(pk=action.notice, state="open").first()
        if notice is None or self._has_been_answered(job, notice):
            return False
        self._close(notice, "executed", "")
        if notice.reason == "budget":
            stopped = jobs.stop(job, reason="budget", detail=BUDGET_DETAIL, now=self.now, outbox=self.outbox)
            self._retire(job)
            return stopped
        return self._leave(job, notice.lease, CLOSING_REASONS[notice.reason])

    def _has_been_answered(self, job: Job, notice: Notice) -> bool:
        bid = Bid.objects.filter(job=job, type_id=notice.lease.type_id, closed_at=None).first()
        by_bids = notice.reason in ("outbid", "below_base")
        return by_bids and bid is not None and counted(bid) > self.clearing.prices[notice.lease.type_id].public

    def _retire(self, job: Job) -> None:
        bids.close_all(job, outbox=self.outbox)
        for award in Award.objects.filter(job=job, state="waiting"):
            self._withdraw(award)
        for notice in Notice.objects.filter(job=job, state="open").order_by("id"):
            self._close(notice, "answered", "left")

    def _leave(self, job: Job, lease: Lease, reason: str) -> bool:
        closing = self._begin_closing(lease, reason, "save", seconds=20)
        row = Migration.objects.filter(job=job, source=lease, state="awarded").first()
        if closing and row is not None:
            self._advance(row, "checkpointing", checkpointing_at=self.now)
        return closing

    def _begin_closing(self, lease: Lease, reason: str, ending: str, *, seconds: float) -> bool:
        moved = Lease.objects.filter(pk=lease.pk, state__in=LIVE).update(
            state="closing", reason=reason, ending=ending, closing_at=self.now,
            closing_deadline=self.now + timedelta(seconds=seconds),
        )  # fmt: skip
        if moved:
            announce.lease(Lease.objects.get(pk=lease.pk), self.outbox, "closing")
        return bool(moved)

    def _advance(self, row: Migration, to: str, **changes: Any) -> None:
        Migration.objects.filter(pk=row.pk).update(state=to, **changes)
        announce.migration(Migration.objects.get(pk=row.pk), self.outbox)

    @_do.register
    def _(self, action: acts.ReturnDestination, job: Job) -> bool:
        row = Migration.objects.filter(job=job, state__in=OPEN_MIGRATIONS).first()
        if row is None:
            return False
        self._advance(row, "aborted", reason=action.reason, closed_at=self.now)
        self._begin_closing(row.destination, "stopped", "stop", seconds=10)
        self._stay(job)
        return True

    @_do.register
    def _(self, action: acts.LapseMove, job: Job) -> bool:
        self._stay(job)
        return True

    def _stay(self, job: Job) -> None:
        job.leaving_since, job.leave_moment = None, ""
        job.save()
        announce.job(job, self.outbox, "changed")

    @_do.register
    def _(self, action: acts.CoolDown, job: Job) -> bool:
        row = CoolDown.objects.filter(job=job, type_id=action.type).first()
        previous = row.length_seconds if row is not None and not self._has_moved_since(row) else 0
        length_us = cool_down(previous * 1_000_000, first_us=self.cluster.cool_down_seconds * 1_000_000)
        seconds = min(length_us // 1_000_000, 24 * 3600)
        values = {"length_seconds": seconds, "until": self.now + timedelta(seconds=seconds)}
        CoolDown.objects.update_or_create(job=job, type_id=action.type, defaults=values)
        return True

    def _has_moved_since(self, row: CoolDown) -> bool:
        began = row.until - timedelta(seconds=row.length_seconds)
        return Migration.objects.filter(job_id=row.job_id, state="done", closed_at__gte=began).exists()
