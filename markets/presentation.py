"""Rows as JSON: how prices, times and states look in every answer. Money as decimal strings, times in RFC 3339 UTC."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markets.engine.money import format_price
from markets.models import Bid
from markets.selectors import rows as book
from markets.selectors.exchange import Exchange, public, public_change
from markets.selectors.jobs import JobView, explain
from markets.selectors.tables import OpenRow
from markets.services import metering
from markets.services.bulk import Result
from workers.models import Job
from workers.selectors import rows as floor


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
    return _job(seen, metering.running_costs(seen.leases, now))


def jobs(seen: Sequence[JobView], *, now: datetime) -> list[dict[str, Any]]:
    """Jobs of a list, each as `job` has it; no job adds a query."""
    costs = metering.running_costs([lease for each in seen for lease in each.leases], now)
    return [_job(each, costs) for each in seen]


def _job(seen: JobView, costs: Mapping[int, int]) -> dict[str, Any]:
    row, primary = seen.job, seen.primary
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
        "cost": format_price(sum(costs[lease.pk] for lease in seen.leases)),
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
        "leases": [floor.lease(lease) | {"cost": format_price(costs[lease.pk])} for lease in seen.leases],
        "migrations": [floor.migration(each) for each in seen.migrations],
        "checkpoints": [floor.checkpoint(each) for each in seen.checkpoints],
    }


def launch_table(row: Job, rows: Sequence[OpenRow]) -> dict[str, Any]:
    """A job's launch table and its version, and nothing else of it."""
    return {"job": row.public_id, "state": row.state, "version": row.version, "rows": [book.bid(bid) for bid in rows]}


def bulk_change(results: Sequence[Result]) -> dict[str, Any]:
    """What came of each row of a bulk change, in their order, and how many came to what."""
    counts = Counter(result.state for result in results)
    return {
        "changed": counts["changed"],
        "unchanged": counts["unchanged"],
        "refused": counts["refused"],
        "rows": [result.as_json() for result in results],
    }


def _bid(bid: Bid, seen: JobView) -> dict[str, Any]:
    quote = seen.table.row(bid.type.slug)
    return book.bid(bid) | {
        "price_per_hour": None if quote is None else _price(quote.price),
        "units_free": None if quote is None else quote.units_free,
    }


def _price(value: int | None) -> str | None:
    return None if value is None else format_price(value)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
