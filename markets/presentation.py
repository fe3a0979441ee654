"""Rows as JSON: how prices, times and states look in every answer. Money as decimal strings, times in RFC 3339 UTC."""

from datetime import datetime
from typing import Any

from markets.engine.money import format_price
from markets.models import Bid
from markets.selectors.exchange import Exchange, public, public_change
from markets.selectors.jobs import JobView, explain
from markets.services import metering
from workers.models import Checkpoint, Lease, Migration


def exchange(table: Exchange) -> dict[str, Any]:
    """A cluster's table."""
    return {
        "cluster": table.cluster.slug,
        "currency": "USD",
        "rule": table.cluster.rule,
        "as_of": _time(table.as_of),
        "age_seconds": None if table.age_seconds is None else round(table.age_seconds, 3),
        "stale": table.is_stale,
        "types": [
            {
                **public(row),
                "bid_needed_per_hour": _price(row.bid_needed),
                "announced": [public_change(change) for change in row.announced],
            }
            for row in table.rows
        ],
    }


def job(seen: JobView, *, now: datetime) -> dict[str, Any]:
    """A job with its reason, its costs and its history."""
    row, primary = seen.job, seen.primary
    costs = metering.running_costs(seen.leases, now)
    quote = None if primary is None else seen.table.row(primary.type.slug)
    return {
        "job": row.public_id,
        "name": row.name,
        "cluster": row.cluster.slug,
        "state": row.state,
        "reason": row.reason,
        "reason_detail": row.reason_detail,
        "explanation": explain(seen),
        "holds": None if primary is None else primary.type.slug,
        "price_per_hour": None if quote is None else _price(quote.lease_price),
        "cost": format_price(sum(costs.values())),
        "currency": "USD",
        "budget": None if row.budget_microdollars is None else format_price(row.budget_microdollars),
        "progress": row.progress,
        "step": row.step,
        "loss": row.loss,
        "policy": row.policy or None,
        "upgrade": row.upgrade,
        "migration_mode": row.migration_mode,
        "submitted_at": _time(row.submitted_at),
        "started_at": _time(row.started_at),
        "finished_at": _time(row.finished_at),
        "queue_deadline": _time(row.queue_deadline),
        "attempts": row.attempts,
        "max_attempts": row.max_attempts,
        "exit_code": row.exit_code,
        "version": row.version,
        "rows": [_bid(bid, seen) for bid in seen.bids],
        "award": None
        if seen.award is None
        else {"accelerator_type": seen.award.type.slug, "since": _time(seen.award.since)},
        "notice": None
        if seen.notice is None
        else {
            "reason": seen.notice.reason,
            "accelerator_type": seen.notice.lease.type.slug,
            "deadline": _time(seen.notice.deadline),
            "price_per_hour": _price(seen.notice.price_per_hour),
            "bid_per_hour": _price(seen.notice.bid_per_hour),
        },
        "leases": [_lease(lease, costs[lease.pk]) for lease in seen.leases],
        "migrations": [_migration(each) for each in seen.migrations],
        "checkpoints": [_checkpoint(each) for each in seen.checkpoints],
    }


def _bid(bid: Bid, seen: JobView) -> dict[str, Any]:
    quote = seen.table.row(bid.type.slug)
    return {
        "bid": bid.public_id,
        "accelerator_type": bid.type.slug,
        "max_price_per_hour": "cap" if bid.max_price_per_hour is None else format_price(bid.max_price_per_hour),
        "keep_price_per_hour": _price(bid.keep_price_per_hour),
        "set_by": bid.origin,
        "accepted_at": _time(bid.accepted_at),
        "price_per_hour": None if quote is None else _price(quote.price),
        "units_free": None if quote is None else quote.units_free,
    }


def _lease(lease: Lease, cost: int) -> dict[str, Any]:
    return {
        "lease": lease.public_id,
        "accelerator_type": lease.type.slug,
        "state": lease.state,
        "reason": lease.reason or None,
        "handed_over_at": _time(lease.handed_over_at),
        "active_at": _time(lease.active_at),
        "first_step_at": _time(lease.first_step_at),
        "ended_at": _time(lease.ended_at),
        "billed_from": _time(None if lease.billed_during is None else lease.billed_during.lower),
        "billed_until": _time(None if lease.billed_during is None else lease.billed_during.upper),
        "cost": format_price(cost),
    }


def _migration(row: Migration) -> dict[str, Any]:
    return {
        "migration": row.public_id,
        "from": row.source.type.slug,
        "to": row.destination.type.slug,
        "source": row.source.public_id,
        "destination": row.destination.public_id,
        "mode": row.mode,
        "state": row.state,
        "reason": row.reason or None,
        "checkpoint": None if row.checkpoint is None else row.checkpoint.public_id,
        "opened_at": _time(row.opened_at),
        "destination_active_at": _time(row.destination_active_at),
        "checkpointing_at": _time(row.checkpointing_at),
        "transferring_at": _time(row.transferring_at),
        "source_stopped_at": _time(row.source_stopped_at),
        "restoring_at": _time(row.restoring_at),
        "first_step_at": _time(row.first_step_at),
        "closed_at": _time(row.closed_at),
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


def _checkpoint(row: Checkpoint) -> dict[str, Any]:
    return {
        "checkpoint": row.public_id,
        "accelerator_type": row.lease.type.slug,
        "progress": row.progress,
        "step": row.step,
        "size_bytes": row.size_bytes,
        "sha256": row.sha256,
        "requested": row.requested,
        "committed_at": _time(row.committed_at),
    }


def _price(value: int | None) -> str | None:
    return None if value is None else format_price(value)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
