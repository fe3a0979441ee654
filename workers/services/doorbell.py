"""Ringing hosts: "sync now", after commit. A ring that gets lost costs one heartbeat, nothing else."""

import threading

from django.db import transaction

from laissez.events import nudge
from workers.models import Lease


class _Rung(threading.local):
    """The hosts that this thread's transaction will ring. One that is undone leaves them to the next one's ring."""

    def __init__(self) -> None:
        self.hosts: set[int] = set()


_rung = _Rung()


def group_of(host_id: int) -> str:
    """The channel-layer group on which one host's doorbell listens."""
    return f"host.{host_id}"


def ring(*host_ids: int) -> None:
    """Ring hosts once the present transaction has committed: all at once, each once however often it was asked for."""
    if host_ids:
        _rung.hosts.update(host_ids)
        transaction.on_commit(_ring_now, robust=True)


def _ring_now() -> None:
    hosts, _rung.hosts = sorted(_rung.hosts), set()
    if hosts:
        nudge([(group_of(host_id), {"type": "host.ring"}) for host_id in hosts])


def ring_for(*job_ids: int) -> None:
    """Ring every host that these jobs occupy."""
    occupied = Lease.objects.filter(job__in=job_ids).exclude(state=Lease.State.CLOSED)
    ring(*set(occupied.values_list("host_id", flat=True)))
