"""Ringing hosts: "sync now", after commit. A ring that gets lost costs one heartbeat, nothing else."""

from django.db import transaction

from laissez.events import nudge
from workers.models import Job, Lease


def group_of(host_id: int) -> str:
    """The channel-layer group on which one host's doorbell listens."""
    return f"host.{host_id}"


def ring(host_id: int) -> None:
    """Ring one host once the present transaction has committed."""

    def ring_now() -> None:
        nudge([(group_of(host_id), {"type": "host.ring"})])

    transaction.on_commit(ring_now, robust=True)


def ring_for(job: Job) -> None:
    """Ring every host that a job occupies."""
    occupied = Lease.objects.filter(job=job).exclude(state=Lease.State.CLOSED)
    for host_id in sorted(set(occupied.values_list("host_id", flat=True))):
        ring(host_id)
