"""The life of a job: submit, start, requeue, finish, stop, resume, cancel, expire. One function per transition.

Each names the states it comes from; "0 rows" means somebody else got there, and the caller goes on. Callers hold the
job's row lock, taken with `lock`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models.functions import Coalesce

from laissez.errors import Conflict, NotFound
from laissez.events import Outbox
from workers.models import Job, Lease
from workers.models.jobs import TERMINAL_JOB_STATES
from workers.services import announce, doorbell, leases
from workers.services.rereading import reread

OPEN_JOB_STATES = (Job.State.QUEUED, Job.State.RUNNING)


def lock(ids: Iterable[int]) -> dict[int, Job]:
    """Lock job rows in id order, the one order every transaction uses, and return them by id.

    No-key locks: a commit that checks a foreign key to a job must not wait for whoever holds it.
    """
    rows = Job.objects.select_for_update(of=("self",), no_key=True).filter(pk__among=sorted(set(ids))).order_by("pk")
    return {row.pk: row for row in rows}


def lock_one(job: Job) -> Job:
    """Lock one job's row and return it as it is now."""
    row = lock([job.pk]).get(job.pk)
    if row is None:
        raise NotFound("job")
    return row


def start(rows: Sequence[Job], *, now: datetime, outbox: Outbox) -> list[Job]:
    """Queued jobs have been handed a device each. Returns those of them that were queued."""
    return _move_all(
        rows,
        to=Job.State.RUNNING,
        come_from=(Job.State.QUEUED,),
        reason="handed_over",
        outbox=outbox,
        queue_deadline=None,
        started_at=Coalesce("started_at", now),
    )


def requeue(job: Job, *, reason: str, detail: str = "", now: datetime, outbox: Outbox) -> bool:
    """A running or stopped job goes back to the queue with whatever state it has saved."""
    return _move(
        job,
        to=Job.State.QUEUED,
        come_from=(Job.State.RUNNING, Job.State.STOPPED),
        reason=reason,
        detail=detail,
        outbox=outbox,
        queued_at=now,
        queue_deadline=now + timedelta(seconds=job.queue_timeout_seconds),
        leaving_since=None,
        leave_moment="",
        settled_at=None,
    )


def finish(
    job: Job, *, state: Job.State, reason: str, detail: str, exit_code: int | None, now: datetime, outbox: Outbox
) -> bool:
    """The workload has ended by itself: `succeeded` or `failed`."""
    figures = {"progress": 1.0} if state == Job.State.SUCCEEDED else {}
    return _move(
        job,
        to=state,
        come_from=(Job.State.RUNNING,),
        reason=reason,
        detail=detail,
        outbox=outbox,
        finished_at=now,
        exit_code=exit_code,
        leaving_since=None,
        leave_moment="",
        **figures,
    )


def stop(job: Job, *, reason: str, detail: str = "", now: datetime, outbox: Outbox) -> bool:
    """The agent, the tenant or the budget has stopped it: its state is saved first and it can be resumed."""
    moved = _move(
        job,
        to=Job.State.STOPPED,
        come_from=OPEN_JOB_STATES,
        reason=reason,
        detail=detail,
        outbox=outbox,
        queue_deadline=None,
        leaving_since=None,
        leave_moment="",
    )
    if moved:
        why = Lease.Reason.BUDGET if reason == "budget" else Lease.Reason.STOPPED
        _leave_every_device(job, why, Lease.Ending.SAVE, now, outbox)
    return moved


def cancel(job: Job, *, now: datetime, outbox: Outbox) -> Job:
    """End a job for good. Valid in every state: of a job that has already ended it changes nothing.

    The devices are given back as soon as their hosts confirm it.
    """
    moved = _move(
        job,
        to=Job.State.CANCELLED,
        come_from=(*OPEN_JOB_STATES, Job.State.STOPPED),
        reason="cancelled",
        outbox=outbox,
        finished_at=now,
        queue_deadline=None,
        leaving_since=None,
        leave_moment="",
    )
    if moved:
        _leave_every_device(job, Lease.Reason.CANCELLED, Lease.Ending.STOP, now, outbox)
    return job


def resume(job: Job, *, now: datetime, outbox: Outbox) -> Job:
    """Queue a stopped job again, from its newest checkpoint."""
    if not requeue_stopped(job, now=now, outbox=outbox):
        raise Conflict("not_stopped", f"The job is {job.state}; only a stopped job can be resumed.")
    return job


def requeue_stopped(job: Job, *, now: datetime, outbox: Outbox) -> bool:
    """`requeue`, from `stopped` alone."""
    return job.state == Job.State.STOPPED and requeue(job, reason="resumed", now=now, outbox=outbox)


def expire(job: Job, *, now: datetime, outbox: Outbox) -> bool:
    """The queue time-out has passed without a device."""
    if job.queue_deadline is None or job.queue_deadline > now:
        return False
    return _move(
        job,
        to=Job.State.EXPIRED,
        come_from=(Job.State.QUEUED,),
        reason="queue_timeout",
        detail=f"No device was won within {job.queue_timeout_seconds} s.",
        outbox=outbox,
        finished_at=now,
        queue_deadline=None,
    )


def settle(job: Job, ended: Lease, *, now: datetime, outbox: Outbox) -> None:
    """A lease of a running job has ended: go on with the other one, or return to the queue.

    A failed start has already written its own reason on the job; any other end gives the lease's.
    """
    if job.state != Job.State.RUNNING:
        return
    rows = leases.open_leases(job)
    if any(leases.is_primary(row) for row in rows):
        return
    heir = next((row for row in rows if row.state in leases.LIVE_STATES), None)
    if heir is not None:
        leases.make_primary(heir, now=now, outbox=outbox)
    elif not rows:
        failed = ended.reason == Lease.Reason.FAILED
        reason, detail = (job.reason, job.reason_detail) if failed else (ended.reason, "")
        requeue(job, reason=reason, detail=detail, now=now, outbox=outbox)


def note(job: Job, *, reason: str, detail: str, outbox: Outbox) -> None:
    """Write why the job is about to change, ahead of the change itself."""
    job.reason, job.reason_detail = reason, detail[:500]
    job.save(update_fields=["reason", "reason_detail"])
    announce.job(job, outbox, "changed")


def want_to_leave(job: Job, *, moment: str, now: datetime, outbox: Outbox) -> None:
    """The job wants to move, `now` or at the next `checkpoint`, as soon as it has somewhere to go."""
    job.leaving_since, job.leave_moment = job.leaving_since or now, moment
    job.save(update_fields=["leaving_since", "leave_moment"])
    announce.job(job, outbox, "changed")


def want_to_stay(rows: Sequence[Job], *, outbox: Outbox) -> None:
    """They want to no more, or not for as long as they did."""
    if not rows:
        return
    Job.objects.filter(pk__among=[job.pk for job in rows]).update(leaving_since=None, leave_moment="")
    for job in rows:
        job.leaving_since, job.leave_moment = None, ""
        announce.job(job, outbox, "changed")


# A question still unanswered keeps the strongest of its causes; what a notice or an award says stands in the context.
_CAUSES = ("heartbeat", "price", "award", "hand_over", "notice", "checkpoint")

_ASK = """
    UPDATE workers_job SET ask_number = ask_number + 1, asked_at = %(now)s, ask_cause = CASE
        WHEN ask_number > answered_number
            AND array_position(%(causes)s::text[], ask_cause::text)
                > array_position(%(causes)s::text[], %(cause)s::text)
        THEN ask_cause ELSE %(cause)s END
    WHERE id = ANY(%(ids)s)
"""


def ask_agents_of(ids: Iterable[int], cause: str, *, now: datetime) -> None:
    """Something happened that concerns the agents of these jobs; their hosts ask them at the next sync.

    For jobs that are locked and of which no instance is used any more; `ask_agents` keeps instances as they are.
    """
    asked = sorted(set(ids))
    if asked:
        with connection.cursor() as cursor:
            cursor.execute(_ASK, {"now": now, "causes": list(_CAUSES), "cause": cause, "ids": asked})
        doorbell.ring_for(*asked)


def ask_agents(rows: Sequence[Job], cause: str, *, now: datetime) -> None:
    """`ask_agents_of`, for jobs at hand."""
    ask_agents_of([job.pk for job in rows], cause, now=now)
    reread(rows, "ask_number", "ask_cause", "asked_at")


def ask_if_due(job: Job, *, now: datetime) -> None:
    """The heartbeat of an agent: it is asked when nothing else has had it asked for as long as its job wants."""
    due = job.asked_at is None or (now - job.asked_at).total_seconds() >= job.spec["heartbeat_seconds"]
    if due and job.state == Job.State.RUNNING:
        job.ask_cause = "heartbeat" if job.ask_number <= job.answered_number else job.ask_cause or "heartbeat"
        job.ask_number += 1
        job.asked_at = now
        job.save(update_fields=["ask_number", "ask_cause", "asked_at"])


def answered(job: Job, number: int) -> None:
    """The agent has answered the question with this number."""
    if number > job.answered_number:
        job.answered_number = min(number, job.ask_number)
        job.save(update_fields=["answered_number"])


def request_checkpoint(job: Job, *, now: datetime) -> None:
    """Ask the workload for a checkpoint at its next chance."""
    job.checkpoint_wanted_at = now
    job.save(update_fields=["checkpoint_wanted_at"])
    doorbell.ring_for(job.pk)


def _leave_every_device(job: Job, reason: Lease.Reason, ending: Lease.Ending, now: datetime, outbox: Outbox) -> None:
    for lease in leases.open_leases(job):
        how = ending if leases.is_primary(lease) else Lease.Ending.STOP
        leases.begin_closing(lease, reason=reason, ending=how, now=now, outbox=outbox)
        if ending == Lease.Ending.STOP:
            leases.hasten(lease)


def _move(
    job: Job,
    *,
    to: Job.State,
    come_from: tuple[Job.State, ...],
    reason: str,
    outbox: Outbox,
    detail: str = "",
    **changes: Any,
) -> bool:
    moved = _move_all([job], to=to, come_from=come_from, reason=reason, outbox=outbox, detail=detail, **changes)
    return bool(moved)


def _move_all(
    rows: Sequence[Job],
    *,
    to: Job.State,
    come_from: tuple[Job.State, ...],
    reason: str,
    outbox: Outbox,
    detail: str = "",
    **changes: Any,
) -> list[Job]:
    """Move those jobs that are in a state from which they can, and tell of it in the order given."""
    if not rows:
        return []
    values = {"state": to, "reason": reason, "reason_detail": detail[:500], **changes}
    ids = [job.pk for job in rows]
    there = Job.objects.filter(pk__among=ids, state__in=come_from)
    movable = set(there.values_list("pk", flat=True) if len(ids) > 1 else ids)  # of one the update's count says it
    if not there.update(**values):
        return []
    moved = [job for job in rows if job.pk in movable]
    reread(moved, *values)
    for job in moved:
        announce.job(job, outbox)
    return moved


def is_over(job: Job) -> bool:
    """Whether the job has reached a state it never leaves."""
    return job.state in TERMINAL_JOB_STATES
