"""Rows of the floor as their tenants see them: one form for the API, the feed's events and its snapshots.

Each holds only what an event tells of when it changes; progress and costs, which run all the time, are not in them.
"""

from datetime import datetime
from typing import Any

from laissez.clock import rfc3339
from markets.engine.money import format_price
from workers.models import Checkpoint, Job, Lease, Migration


def job(row: Job) -> dict[str, Any]:
    """A job, by its public id."""
    return {
        "job": row.public_id,
        "name": row.name,
        "cluster": row.cluster.slug,
        "state": str(row.state),
        "reason": row.reason,
        "reason_detail": row.reason_detail,
        "policy": row.policy or None,
        "upgrade": str(row.upgrade),
        "migration_mode": str(row.migration_mode),
        "budget": None if row.budget_microdollars is None else format_price(row.budget_microdollars),
        "submitted_at": rfc3339(row.submitted_at),
        "queued_at": rfc3339(row.queued_at),
        "started_at": time_or_null(row.started_at),
        "finished_at": time_or_null(row.finished_at),
        "queue_deadline": time_or_null(row.queue_deadline),
        "attempts": row.attempts,
        "max_attempts": row.max_attempts,
        "exit_code": row.exit_code,
        "version": row.version,
        "moves": row.moves,
        "leaves": row.leave_moment or None,
    }


def lease(row: Lease) -> dict[str, Any]:
    """A lease, by its public id. Which host it is on stays with the operator."""
    billed = row.billed_during
    return {
        "lease": row.public_id,
        "accelerator_type": row.type.slug,
        "state": str(row.state),
        "reason": str(row.reason) or None,
        "fence": row.fence,
        "primary": row.primary_during is not None and row.primary_during.upper is None,
        "handed_over_at": rfc3339(row.handed_over_at),
        "active_at": time_or_null(row.active_at),
        "first_step_at": time_or_null(row.first_step_at),
        "closing_at": time_or_null(row.closing_at),
        "closing_deadline": time_or_null(row.closing_deadline),
        "ended_at": time_or_null(row.ended_at),
        "billed_from": time_or_null(None if billed is None else billed.lower),
        "billed_until": time_or_null(None if billed is None else billed.upper),
    }


def migration(row: Migration) -> dict[str, Any]:
    """A move, by its public id."""
    return {
        "migration": row.public_id,
        "from": row.source.type.slug,
        "to": row.destination.type.slug,
        "source": row.source.public_id,
        "destination": row.destination.public_id,
        "mode": str(row.mode),
        "state": str(row.state),
        "reason": row.reason or None,
        "checkpoint": None if row.checkpoint is None else row.checkpoint.public_id,
        "opened_at": rfc3339(row.opened_at),
        "destination_active_at": time_or_null(row.destination_active_at),
        "checkpointing_at": time_or_null(row.checkpointing_at),
        "transferring_at": time_or_null(row.transferring_at),
        "source_stopped_at": time_or_null(row.source_stopped_at),
        "restoring_at": time_or_null(row.restoring_at),
        "first_step_at": time_or_null(row.first_step_at),
        "closed_at": time_or_null(row.closed_at),
        "resume_seconds": resume_seconds(row),
    }


def resume_seconds(row: Migration) -> float | None:
    """Real seconds from when the destination could start to the first training step after the restore.

    It can start once it is active and the source has stopped; a source that overlaps goes on until that step, and
    there the arrival of the saved state takes the place of its stopping.
    """
    if row.first_step_at is None or row.destination_active_at is None:
        return None
    overlaps = row.source_stopped_at is None or row.source_stopped_at > row.first_step_at
    stopped = row.transferring_at if overlaps else row.source_stopped_at
    began = max(row.destination_active_at, stopped or row.destination_active_at)
    return round((row.first_step_at - began).total_seconds(), 3)


def checkpoint(row: Checkpoint) -> dict[str, Any]:
    """A committed checkpoint, by its public id."""
    return {
        "checkpoint": row.public_id,
        "lease": row.lease.public_id,
        "accelerator_type": row.lease.type.slug,
        "progress": row.progress,
        "step": row.step,
        "size_bytes": row.size_bytes,
        "sha256": row.sha256,
        "blocking_s": row.seconds,
        "requested": row.requested,
        "committed_at": rfc3339(row.committed_at),
    }


def time_or_null(moment: datetime | None) -> str | None:
    """A time in RFC 3339, where there is one."""
    return None if moment is None else rfc3339(moment)
