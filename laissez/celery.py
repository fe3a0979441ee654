"""Celery: two queues, and the clock that rings them. A task is a doorbell; what it would have done stands in rows.

So nothing here is precious: no results, tasks that may run twice or never, and a broker that may forget everything.
"""

import os
import signal
from typing import Any

from celery import Celery
from celery.signals import worker_process_init
from django.conf import settings

from laissez.stack.launch import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "laissez.settings")
TASK_SECONDS = 60
TICK_SECONDS = 1.0
METER_SECONDS = 1.0
RECONCILE_SECONDS = 5.0
PURGE_SECONDS = 3600.0

app = Celery("laissez")
app.config_from_object(
    {
        "broker_url": settings.CELERY_BROKER_URL,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # Unacknowledged tasks of a killed process come back after this; longer than any task may run.
        "broker_transport_options": {"visibility_timeout": 2 * TASK_SECONDS},
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_time_limit": TASK_SECONDS,
        "task_default_queue": "celery",
        "task_routes": {"markets.tasks.tick*": {"queue": "ticks"}},
        "worker_prefetch_multiplier": 1,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "timezone": "UTC",
        "beat_schedule": {
            "tick": {
                "task": "markets.tasks.tick_all",
                "schedule": TICK_SECONDS,
                "options": {"queue": "ticks", "expires": TICK_SECONDS},
            },
            "meter": {
                "task": "markets.tasks.meter_all",
                "schedule": METER_SECONDS,
                "options": {"expires": METER_SECONDS},
            },
            "reconcile": {
                "task": "workers.tasks.reconcile",
                "schedule": RECONCILE_SECONDS,
                "options": {"expires": RECONCILE_SECONDS},
            },
            "purge": {
                "task": "laissez.tasks.purge_events",
                "schedule": PURGE_SECONDS,
                "options": {"expires": PURGE_SECONDS},
            },
        },
    }
)
app.autodiscover_tasks(["laissez", "tenants", "workers", "markets"])


@worker_process_init.connect
def _die_with_parent(**_details: Any) -> None:
    """A pool child ends with its parent, also when that is killed."""
    die_with_parent(signal.SIGKILL, 0)
