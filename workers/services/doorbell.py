"""Ringing hosts: "sync now", after commit. A ring that gets lost costs one heartbeat, nothing else.

Many hosts share a group, and a message names those that it is for: a price that concerns the whole floor would take
seconds to tell to thousands one by one.
"""

import threading
from collections import defaultdict

from django.db import transaction

from laissez.events import nudge
from workers.models import Lease


class _Rung(threading.local):
    """The hosts that this thread's transaction will ring. One that is undone leaves them to the next one's ring."""

    def __init__(self) -> None:
        self.hosts: set[int] = set()


_rung = _Rung()


GROUPS = 64


def group_of(host_id: int) -> str:
    """The channel-layer group on which one host's doorbell listens, for messages `host.ring` that name it."""
    return f"hosts.{host_id % GROUPS}"


def ring(*host_ids: int) -> None:
    """Ring hosts once the present transaction has committed: all at once, each once however often it was asked for."""
    if host_ids:
        _rung.hosts.update(host_ids)
        transaction.on_commit(_ring_now, robust=True)


def _ring_now() -> None:
    hosts, _rung.hosts = sorted(_rung.hosts), set()
    by_group: dict[str, list[int]] = defaultdict(list)
    for host_id in hosts:
        by_group[group_of(host_id)].append(host_id)
    nudge([(group, {"type": "host.ring", "hosts": rung}) for group, rung in by_group.items()])


def ring_for(*job_ids: int) -> None:
    """Ring every host that these jobs occupy."""
    occupied = Lease.objects.filter(job_id__among=job_ids).exclude(state=Lease.State.CLOSED)
    ring(*set(occupied.values_list("host_id", flat=True)))
