"""Celery's half of the market: a tick and a meter per cluster and second. A lost, late or repeated one does no harm.

They run in different processes: a meter with much to bill delays no tick.
"""

import logging

from celery import shared_task

from markets.services import advising, metering, scheduling
from workers.models import Cluster

logger = logging.getLogger(__name__)

TICK_EXPIRES_SECONDS = 5
METER_EXPIRES_SECONDS = 5


@shared_task
def tick_all() -> None:
    """Fan out one tick per cluster."""
    for cluster_id in Cluster.objects.order_by("id").values_list("id", flat=True):
        tick_cluster.apply_async((cluster_id,), expires=TICK_EXPIRES_SECONDS)


@shared_task
def tick_cluster(cluster_id: int) -> None:
    """Ask queued jobs' policies, clear the market and move jobs."""
    advising.advise_queue(cluster_id)
    scheduling.tick(cluster_id)


@shared_task
def meter_all() -> None:
    """Fan out one meter per cluster."""
    for cluster_id in Cluster.objects.order_by("id").values_list("id", flat=True):
        meter_cluster.apply_async((cluster_id,), expires=METER_EXPIRES_SECONDS)


@shared_task
def meter_cluster(cluster_id: int) -> None:
    """Bill what is due, and see to the funds of jobs."""
    metering.meter_cluster(cluster_id)
