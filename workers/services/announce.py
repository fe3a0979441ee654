"""What the rows' changes say on the feed: one function per kind of row, so that every change is told alike."""

from typing import Any

from laissez.events import Outbox
from workers.models import Checkpoint, Host, Job, Lease, Migration


def job(row: Job, outbox: Outbox, **figures: Any) -> None:
    """A job changed its state; its own stream and its tenant's hear of it."""
    data = {"state": row.state, "reason": row.reason, "detail": row.reason_detail, **figures}
    for stream in (f"job:{row.public_id}", row.tenant.stream):
        outbox.add(stream, f"org.laissez.market.job.{row.state}.v1", row.public_id, data)


def lease(row: Lease, outbox: Outbox, change: str) -> None:
    """A lease changed its state."""
    outbox.add(
        f"job:{row.job.public_id}",
        f"org.laissez.market.lease.{change}.v1",
        row.public_id,
        {"accelerator_type": row.type.slug, "reason": row.reason, "fence": row.fence},
    )


def migration(row: Migration, outbox: Outbox) -> None:
    """A migration entered a phase."""
    outbox.add(
        f"job:{row.job.public_id}",
        f"org.laissez.market.migration.{row.state}.v1",
        row.public_id,
        {
            "source": row.source.public_id,
            "destination": row.destination.public_id,
            "mode": row.mode,
            "reason": row.reason,
        },
    )


def checkpoint(row: Checkpoint, outbox: Outbox) -> None:
    """A checkpoint was committed."""
    outbox.add(
        f"job:{row.job.public_id}",
        "org.harmonaize.checkpoint.completed.v1",
        row.public_id,
        {"progress": row.progress, "size_bytes": row.size_bytes, "blocking_s": row.seconds, "requested": row.requested},
    )


def host(row: Host, outbox: Outbox, **figures: Any) -> None:
    """A host changed its state, or was refused something; operators hear of it."""
    outbox.add("ops", f"org.laissez.ops.host.{figures.pop('change', row.state)}.v1", row.public_id, figures)
