"""Ringing hosts: "sync now", after commit. A ring that gets lost costs one heartbeat, nothing else."""

import asyncio
import logging
from functools import partial

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from workers.models import Job, Lease

logger = logging.getLogger(__name__)

RING_SECONDS = 1.0


def group_of(host_id: int) -> str:
    """The channel-layer group on which one host's doorbell listens."""
    return f"host.{host_id}"


def ring(host_id: int) -> None:
    """Ring one host once the present transaction has committed."""
    transaction.on_commit(partial(_ring, host_id), robust=True)


def ring_for(job: Job) -> None:
    """Ring every host that a job occupies."""
    for host_id in set(
        Lease.objects.filter(job=job).exclude(state=Lease.State.CLOSED).values_list("host_id", flat=True)
    ):
        ring(host_id)


def _ring(host_id: int) -> None:
    try:
        async_to_sync(_send)(group_of(host_id))
    except Exception as error:
        # Whatever the layer's failure is, the rows are committed and every host polls: only a heartbeat is lost.
        logger.warning("Host %s was not rung and will poll: %s: %s", host_id, type(error).__name__, error)


async def _send(group: str) -> None:
    layer = get_channel_layer()
    if layer is not None:
        async with asyncio.timeout(RING_SECONDS):
            await layer.group_send(group, {"type": "host.ring"})
