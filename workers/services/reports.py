"""What a host reports about its leases, one handler per kind. Every report is refused unless its fence is the lease's.

A workload's words count only while its lease is the job's primary one; a host's words about the end of a process
always count.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Length

from laissez.errors import Refused
from laissez.events import Outbox
from workers.models import Checkpoint, Job, Lease, LogChunk, ProgressSample
from workers.services import announce, jobs, leases, migrations

LOG_BYTES_PER_LEASE = 4 * 1024 * 1024
LOG_BYTES_PER_CHUNK = 256 * 1024
MAX_NUMBER = 1e300
LEASE_FIELDS = (
    "state", "reason", "ending", "during", "primary_during", "billed_during",
    "active_at", "first_step_at", "closing_at", "closing_deadline", "ended_at",
)  # fmt: skip
"""What an earlier report of the same message may have changed of a lease."""
_STREAMS = frozenset({"stdout", "stderr", "data_load", "agent", "host"})
_RETRIED = frozenset({"data_load_failed", "sandbox_failed", "killed"})
_NOT_ITS_FAULT = frozenset({"host_lost", "stopped"})  # the host went away, or ended it by its own clock
_EXIT_REASONS = frozenset({"completed", "failed"}) | _RETRIED | _NOT_ITS_FAULT
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Report:
    """One dated fact from a host. `id` grows for ever per host; `body` is what its kind carries."""

    id: int
    lease: str
    fence: int
    kind: str
    body: Mapping[str, Any]


def take(
    report: Report, known: Mapping[str, Lease], locked: Mapping[int, Job], *, now: datetime, outbox: Outbox
) -> dict[str, Any]:
    """Let one report take effect and return its answer.

    Raises:
        Refused: `unknown_lease`, `stale_fence`, `unknown_kind`, or what the kind's handler objects to.
    """
    lease = known.get(report.lease)
    if lease is None:
        raise Refused("unknown_lease", f"This host has no lease {report.lease}.")
    if lease.fence != report.fence:
        raise Refused("stale_fence", f"Lease {report.lease} has fence {lease.fence}, not {report.fence}.")
    handler = _HANDLERS.get(report.kind)
    if handler is None:
        raise Refused(
            "unknown_kind", f"{report.kind!r} is not a kind of report; known: {', '.join(sorted(_HANDLERS))}."
        )
    lease.refresh_from_db(fields=LEASE_FIELDS)
    return handler(locked[lease.job_id], lease, report.body, now, outbox) or {}


def answer_again(report: Report, lease: Lease | None) -> dict[str, Any]:
    """The answer to a report that had already taken effect: its sender did not get the first one."""
    if report.kind != "checkpoint" or lease is None:
        return {}
    row = Checkpoint.objects.filter(lease=lease, sequence=_whole(report.body, "sequence") or 0).first()
    if row is None:
        return {"accepted": False, "code": "not_committed"}
    lease.refresh_from_db(fields=["state"])
    return {"accepted": True, "checkpoint": row.public_id, "then": "continue" if lease.state == "active" else "stop"}


def _progress(job: Job, lease: Lease, body: Mapping[str, Any], now: datetime, outbox: Outbox) -> None:
    fraction = _fraction(body, "progress")
    step, loss = _whole(body, "step"), _number_or_none(body, "loss")
    ProgressSample.objects.create(job=job, lease=lease, progress=fraction, step=step, loss=loss, received_at=now)
    if leases.is_primary(lease) and job.state == Job.State.RUNNING:
        job.progress, job.step, job.loss, job.progress_at = fraction, step, loss, now
        job.save(update_fields=["progress", "step", "loss", "progress_at"])


def _first_step(job: Job, lease: Lease, body: Mapping[str, Any], now: datetime, outbox: Outbox) -> None:
    if lease.first_step_at is None:
        lease.first_step_at = now
        lease.save(update_fields=["first_step_at"])
        announce.lease(lease, outbox, "first_step")
    migrations.first_step(job, lease, now=now, outbox=outbox)


def _checkpoint(job: Job, lease: Lease, body: Mapping[str, Any], now: datetime, outbox: Outbox) -> dict[str, Any]:
    """Commit a checkpoint under its fence, and say whether the workload goes on or stops here."""
    if not leases.is_primary(lease) or lease.state == Lease.State.CLOSED or jobs.is_over(job):
        return {"accepted": False, "code": "not_primary", "then": "stop"}
    row = Checkpoint.objects.create(
        job=job,
        lease=lease,
        fence=lease.fence,
        sequence=_required_whole(body, "sequence"),
        uri=_text(body, "uri", 1000),
        sha256=_sha256(body),
        size_bytes=_required_whole(body, "size_bytes"),
        progress=_fraction(body, "progress"),
        step=_whole(body, "step"),
        seconds=_number_or_none(body, "seconds") or 0.0,
        requested=bool(body.get("requested")),
        committed_at=now,
    )
    had_failed = job.attempts > 0
    job.newest_checkpoint = row
    job.checkpoint_wanted_at = None
    job.attempts = 0
    job.progress, job.progress_at = max(row.progress, job.progress), now
    job.save(update_fields=["newest_checkpoint", "checkpoint_wanted_at", "attempts", "progress", "progress_at"])
    announce.checkpoint(row, outbox)
    if had_failed:
        announce.job(job, outbox, "changed")
    stops = migrations.reach_moment(job, row, now=now, outbox=outbox)
    if lease.state == Lease.State.CLOSING:
        leases.hasten(lease)
        stops = True
    if not stops:
        jobs.ask_agents([job], "checkpoint", now=now)
    return {"accepted": True, "checkpoint": row.public_id, "then": "stop" if stops else "continue"}


def _log(job: Job, lease: Lease, body: Mapping[str, Any], now: datetime, outbox: Outbox) -> None:
    stream = _text(body, "stream", 16)
    if stream not in _STREAMS:
        raise Refused("unknown_stream", f"{stream!r} is not a log stream; known: {', '.join(sorted(_STREAMS))}.")
    text = str(body.get("text", ""))[:LOG_BYTES_PER_CHUNK].replace("\x00", "\ufffd")
    stored = LogChunk.objects.filter(lease=lease).aggregate(total=Sum(Length("text")))["total"] or 0
    if stored + len(text) > LOG_BYTES_PER_LEASE:
        raise Refused("log_full", f"The log of lease {lease.public_id} has reached {LOG_BYTES_PER_LEASE} characters.")
    LogChunk.objects.get_or_create(
        lease=lease,
        stream=stream,
        offset=_required_whole(body, "offset"),
        defaults={"job": job, "text": text, "received_at": now},
    )


def _agent(job: Job, lease: Lease, body: Mapping[str, Any], now: datetime, outbox: Outbox) -> None:
    """The agent said nothing usable, which means stay; the tenant hears of it."""
    outcome = _text(body, "outcome", 16)
    if outcome != "ok":
        data = {"outcome": outcome, "detail": str(body.get("detail", ""))[:500], "meaning": "stay"}
        outbox.add(f"job:{job.public_id}", "org.laissez.market.agent.failed.v1", lease.public_id, data)


def _exit(job: Job, lease: Lease, body: Mapping[str, Any], now: datetime, outbox: Outbox) -> None:
    """The processes of a lease have ended; what becomes of the job depends on whose end it was."""
    reason, detail = _exit_reason(body), str(body.get("detail", ""))[:500]
    code = _whole(body, "exit_code")
    if lease.state in (Lease.State.CLOSING, Lease.State.CLOSED):
        _exit_while_closing(job, lease, reason, code, now, outbox)
    elif not leases.is_primary(lease) and reason == "completed":
        # Two copies run while a move overlaps; only the primary's end is the job's.
        leases.begin_closing(lease, reason=Lease.Reason.FAILED, ending=Lease.Ending.STOP, now=now, outbox=outbox)
    elif not leases.is_primary(lease):
        leases.begin_closing(lease, reason=Lease.Reason.FAILED, ending=Lease.Ending.STOP, now=now, outbox=outbox)
        migrations.abort(job, reason=f"destination_{reason}", now=now, outbox=outbox)
    elif reason == "completed":
        _complete(job, lease, code, now, outbox)
    else:
        _fail(job, lease, reason, detail, code, now, outbox)


def _exit_while_closing(job: Job, lease: Lease, reason: str, code: int | None, now: datetime, outbox: Outbox) -> None:
    """Told to leave, but it may just have finished: a completed primary is a success all the same."""
    if reason == "completed" and leases.is_primary(lease) and job.state == Job.State.RUNNING:
        _complete(job, lease, code, now, outbox)


def _complete(job: Job, lease: Lease, code: int | None, now: datetime, outbox: Outbox) -> None:
    migrations.abort(job, reason="completed_on_source", now=now, outbox=outbox)
    jobs.finish(job, state=Job.State.SUCCEEDED, reason="completed", detail="", exit_code=code, now=now, outbox=outbox)
    for each in leases.open_leases(job):
        leases.begin_closing(each, reason=Lease.Reason.COMPLETED, ending=Lease.Ending.STOP, now=now, outbox=outbox)


def _fail(job: Job, lease: Lease, reason: str, detail: str, code: int | None, now: datetime, outbox: Outbox) -> None:
    """A start that failed or a process that was killed is tried again, at most `max_attempts` times in a row."""
    leases.begin_closing(lease, reason=Lease.Reason.FAILED, ending=Lease.Ending.STOP, now=now, outbox=outbox)
    if reason in _NOT_ITS_FAULT:
        _retry(job, lease, reason, detail, outbox)
        return
    job.attempts += 1
    job.save(update_fields=["attempts"])
    tried = f" (attempt {job.attempts} of {job.max_attempts})" if reason in _RETRIED else ""
    if reason in _RETRIED and job.attempts < job.max_attempts:
        _retry(job, lease, reason, detail + tried, outbox)
        return
    migrations.abort(job, reason="job_failed", now=now, outbox=outbox)
    jobs.finish(
        job, state=Job.State.FAILED, reason=reason, detail=detail + tried, exit_code=code, now=now, outbox=outbox
    )
    for each in leases.open_leases(job):
        leases.begin_closing(each, reason=Lease.Reason.FAILED, ending=Lease.Ending.STOP, now=now, outbox=outbox)


def _retry(job: Job, lease: Lease, reason: str, detail: str, outbox: Outbox) -> None:
    """Once the device is given back the job goes on at its destination, or in the queue."""
    jobs.note(job, reason=reason, detail=detail, outbox=outbox)
    data = {"reason": reason, "detail": detail}
    outbox.add(f"job:{job.public_id}", "org.laissez.market.job.start_failed.v1", lease.public_id, data)


def _fraction(body: Mapping[str, Any], name: str) -> float:
    value = _number_or_none(body, name)
    if value is None or not 0 <= value <= 1:
        raise Refused("bad_value", f"{name} is {body.get(name)!r}, not a fraction from 0 to 1.", f"/{name}")
    return value


def _number_or_none(body: Mapping[str, Any], name: str) -> float | None:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_NUMBER < value < MAX_NUMBER:
        return None
    return float(value)


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62 else None


def _required_whole(body: Mapping[str, Any], name: str) -> int:
    value = _whole(body, name)
    if value is None or value < 0:
        raise Refused("bad_value", f"{name} is {body.get(name)!r}, not a whole number from 0.", f"/{name}")
    return value


def _text(body: Mapping[str, Any], name: str, limit: int) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise Refused("bad_value", f"{name} is {value!r}, not a text of 1 to {limit} characters.", f"/{name}")
    return value


def _sha256(body: Mapping[str, Any]) -> str:
    value = _text(body, "sha256", 64)
    if not _SHA256.fullmatch(value):
        raise Refused("bad_value", f"sha256 is {value!r}, not 64 hexadecimal digits in lower case.", "/sha256")
    return value


def _exit_reason(body: Mapping[str, Any]) -> str:
    value = _text(body, "reason", 32)
    if value not in _EXIT_REASONS:
        known = ", ".join(sorted(_EXIT_REASONS))
        raise Refused("bad_value", f"reason is {value!r}; it must be one of {known}.", "/reason")
    return value


_HANDLERS = {
    "progress": _progress,
    "first_step": _first_step,
    "checkpoint": _checkpoint,
    "log": _log,
    "agent": _agent,
    "exit": _exit,
}
