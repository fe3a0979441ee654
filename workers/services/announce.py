"""What the rows' changes say on the feed: one function per kind of row, so that every change is told alike.

Each event carries the whole public row, so it is added after every write of its change: what a stream has told is
always all that its snapshot holds.
"""

from typing import Any

from laissez.events import Outbox
from workers.models import Checkpoint, Host, Job, Lease, Migration
from workers.selectors import rows


def job(row: Job, outbox: Outbox, change: str | None = None) -> None:
    """A job is in another state, or something else about it has changed; its own stream and its tenant's hear of it.

    Args:
        change: `changed` where its state is the same as before.
    """
    data = rows.job(row)
    for stream in (f"job:{row.public_id}", row.tenant.stream):
        outbox.add(stream, f"org.laissez.market.job.{change or row.state}.v1", row.public_id, data)


def lease(row: Lease, outbox: Outbox, change: str) -> None:
    """A lease changed its state."""
    outbox.add(f"job:{row.job.public_id}", f"org.laissez.market.lease.{change}.v1", row.public_id, rows.lease(row))


def migration(row: Migration, outbox: Outbox, change: str | None = None) -> None:
    """A migration entered a phase, or one of its leases did."""
    type_ = f"org.laissez.market.migration.{change or row.state}.v1"
    outbox.add(f"job:{row.job.public_id}", type_, row.public_id, rows.migration(row))


def checkpoint(row: Checkpoint, outbox: Outbox) -> None:
    """A checkpoint was committed."""
    type_ = "org.harmonaize.checkpoint.completed.v1"
    outbox.add(f"job:{row.job.public_id}", type_, row.public_id, rows.checkpoint(row))


def host(row: Host, outbox: Outbox, **figures: Any) -> None:
    """A host changed its state, or was refused something; operators hear of it."""
    outbox.add("ops", f"org.laissez.ops.host.{figures.pop('change', row.state)}.v1", row.public_id, figures)
