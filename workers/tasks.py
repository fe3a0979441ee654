"""Celery's half of the floor: finding what no message will tell, such as hosts that have gone silent."""

from celery import shared_task

from workers.services import reconciling


@shared_task
def reconcile() -> None:
    """Look for rows whose deadline has passed."""
    reconciling.reconcile()
