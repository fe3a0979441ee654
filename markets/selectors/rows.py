"""Rows of the book as their tenants see them: one form for the API, the feed's events and its snapshots."""

from typing import Any

from laissez.clock import rfc3339
from markets.engine.money import format_price
from markets.models import Award, Bid, Notice
from markets.selectors.tables import OpenRow
from workers.selectors.rows import time_or_null


def bid(row: Bid | OpenRow) -> dict[str, Any]:
    """A row of the job's own launch table, by its public id."""
    return {
        "bid": row.public_id,
        "accelerator_type": row.type.slug,
        "position": row.position,
        "max_price_per_hour": "cap" if row.max_price_per_hour is None else format_price(row.max_price_per_hour),
        "keep_price_per_hour": price_or_null(row.keep_price_per_hour),
        "set_by": str(row.origin),
        "accepted_at": rfc3339(row.accepted_at),
    }


def award(row: Award) -> dict[str, Any]:
    """A win, by its public id. Whom it has put under notice is not the winner's to know."""
    return {
        "award": row.public_id,
        "accelerator_type": row.type.slug,
        "state": str(row.state),
        "since": rfc3339(row.since),
        "deadline": rfc3339(row.deadline),
        "lease": None if row.lease is None else row.lease.public_id,
    }


def notice(row: Notice) -> dict[str, Any]:
    """A warning, by its public id."""
    return {
        "notice": row.public_id,
        "lease": row.lease.public_id,
        "accelerator_type": row.lease.type.slug,
        "reason": str(row.reason),
        "state": str(row.state),
        "answer": str(row.answer) or None,
        "price_per_hour": price_or_null(row.price_per_hour),
        "bid_per_hour": price_or_null(row.bid_per_hour),
        "opened_at": rfc3339(row.opened_at),
        "deadline": rfc3339(row.deadline),
        "closed_at": time_or_null(row.closed_at),
    }


def price_or_null(value: int | None) -> str | None:
    """A price in dollars per accelerator-hour, where there is one."""
    return None if value is None else format_price(value)
