"""The desired state of a host: what each of its leases should be doing, derived from the rows at every sync."""

from datetime import datetime
from typing import Any

from workers.models import Artifact, Checkpoint, Host, Job, Lease, Migration

_TAKING_STATE = (Migration.State.RESTORING, Migration.State.TRANSFERRING)


def leases_of(host: Host, *, now: datetime) -> list[dict[str, Any]]:
    """One entry for each lease that still occupies a device of the host."""
    rows = (
        Lease.objects.filter(host=host)
        .exclude(state=Lease.State.CLOSED)
        .select_related("job__artifact", "job__newest_checkpoint", "accelerator", "type")
        .order_by("id")
    )
    return [_entry(lease, now) for lease in rows]


def _entry(lease: Lease, now: datetime) -> dict[str, Any]:
    job = lease.job
    primary = lease.primary_during is not None and lease.primary_during.upper is None
    return {
        "lease": lease.public_id,
        "job": job.public_id,
        "fence": lease.fence,
        "index": lease.accelerator.index,
        "accelerator_type": lease.type.slug,
        "primary": primary,
        "desired": lease.ending if lease.state == Lease.State.CLOSING else "run",
        "grace_seconds": _remaining(lease.closing_deadline, now) if lease.state == Lease.State.CLOSING else None,
        "deadline_seconds": _remaining(lease.closing_deadline, now),
        "ask": job.ask_number if primary else 0,
        "cause": job.ask_cause,
        "checkpoint": primary and job.checkpoint_wanted_at is not None,
        "resume": _resume(lease, primary),
        "spec": job.spec,
        "artifact": _artifact(lease),
        "expected_hours": _row(job, lease).get("expected_hours"),
    }


def _remaining(deadline: datetime | None, now: datetime) -> float | None:
    """Seconds from now, never negative; hosts count them down on their own monotonic clocks."""
    return None if deadline is None else max(0.0, (deadline - now).total_seconds())


def _resume(lease: Lease, primary: bool) -> dict[str, Any]:
    """From which checkpoint the workload starts: none, one to wait for, or one that is ready."""
    if primary:
        newest = _newest_of_others(lease)
        return {"state": "none"} if newest is None else _ready(newest)
    row = Migration.objects.filter(destination=lease, state__in=_TAKING_STATE).select_related("checkpoint").first()
    if row is None or row.checkpoint is None or row.mode != Job.MigrationMode.OVERLAP:
        return {"state": "wait"}
    return _ready(row.checkpoint)


def _newest_of_others(lease: Lease) -> Checkpoint | None:
    """The newest checkpoint that this lease did not take itself: where it has to begin."""
    return Checkpoint.objects.filter(job_id=lease.job_id).exclude(lease=lease).order_by("-id").first()


def _ready(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "state": "ready",
        "checkpoint": checkpoint.public_id,
        "uri": checkpoint.uri,
        "sha256": checkpoint.sha256,
        "progress": checkpoint.progress,
        "step": checkpoint.step,
    }


def _artifact(lease: Lease) -> dict[str, Any] | None:
    """What the lease's row brings of its own, else what the job brings."""
    own = _row(lease.job, lease).get("artifact")
    artifact = lease.job.artifact
    if own is not None:
        artifact = Artifact.objects.filter(tenant_id=lease.job.tenant_id, public_id=own).first()
    if artifact is None:
        return None
    return {
        "url": f"/api/v1/host/artifacts/{artifact.sha256}",
        "sha256": artifact.sha256,
        "size_bytes": artifact.size_bytes,
    }


def _row(job: Job, lease: Lease) -> dict[str, Any]:
    """The row of the job as submitted that names the lease's type."""
    rows: list[dict[str, Any]] = job.spec.get("rows", [])
    return next((row for row in rows if row.get("accelerator_type") == lease.type.slug), {})
