"""Celery's half of the ground: the feed forgets what is older than its retention."""

import logging
from datetime import timedelta

from celery import shared_task
from django.conf import settings

from laissez import clock
from laissez.feed import retention

logger = logging.getLogger(__name__)


@shared_task
def purge_events() -> None:
    """Delete old events; what one run leaves, the next one takes."""
    gone = retention.purge(before=clock.now() - timedelta(days=settings.EVENT_RETENTION_DAYS))
    if gone:
        logger.info("%d events were older than %g days and have gone", gone, settings.EVENT_RETENTION_DAYS)
