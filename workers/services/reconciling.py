"""Rows that have waited too long: silent hosts, hand-overs that no host confirms.

Silence counts only while the server itself could hear: after an outage of the control plane the count begins anew.
"""

import logging
from datetime import datetime, timedelta
from functools import partial

import httpx
from django.conf import settings
from django.db import DatabaseError

from laissez import clock
from laissez.events import Outbox, transact
from workers.models import Ear, Lease
from workers.services import hosts, jobs, leases, migrations

logger = logging.getLogger(__name__)

DEAF_AFTER = timedelta(seconds=15)
PROBE_SECONDS = 2.0


def reconcile() -> None:
    """One round. Every row is handled in a transaction of its own, so that one bad row stops no other."""
    hears = _web_answers()
    listening_since = transact(partial(_note_hearing, hears))
    if listening_since is None:
        return
    now = clock.now()
    for host_id in _silent(now, listening_since):
        _guarded(partial(_lose, host_id, listening_since))
    for host_id in hosts.lost_hosts_with_leases():
        _guarded(partial(_sweep, host_id))
    for lease_id in _unconfirmed(now):
        _guarded(partial(_give_up, lease_id))
    for job_id in migrations.overdue(now):
        _guarded(partial(_unstick, job_id))


def _guarded(work: partial[bool]) -> None:
    try:
        transact(work)
    except DatabaseError:
        logger.exception("a row could not be reconciled; it is tried again")


def _web_answers() -> bool:
    """Whether hosts could reach the web process now. Without a known address that is taken for granted."""
    if not settings.INTERNAL_URL:
        return True
    try:
        return httpx.get(f"{settings.INTERNAL_URL}/healthz", timeout=PROBE_SECONDS).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _note_hearing(hears: bool, outbox: Outbox) -> datetime | None:
    """Keep since when the server has been able to hear without a break; None while it cannot."""
    ear, _ = Ear.objects.select_for_update(no_key=True).get_or_create(pk=1)
    now = outbox.now()
    if ear.checked_at is None or now - ear.checked_at > DEAF_AFTER or not ear.hears:
        ear.listening_since = now
    ear.hears, ear.checked_at = hears, now
    ear.save()
    return ear.listening_since if hears else None


def _silent(now: datetime, listening_since: datetime) -> list[int]:
    """Hosts that may be lost; none before the server itself has listened for as long as a host may be silent.

    After an outage that spares looking at every host, under its lock, every few seconds until they have called.
    """
    return [] if now < listening_since + hosts.silence_limit() else hosts.silent_hosts(now)


def _lose(host_id: int, listening_since: datetime, outbox: Outbox) -> bool:
    return hosts.lose(host_id, heard_since=listening_since, outbox=outbox)


def _sweep(host_id: int, outbox: Outbox) -> bool:
    return hosts.sweep(host_id, outbox=outbox)


def _unstick(job_id: int, outbox: Outbox) -> bool:
    job = jobs.lock([job_id])[job_id]
    return migrations.unstick(job, now=outbox.now(), outbox=outbox)


def _unconfirmed(now: datetime) -> list[int]:
    rows = Lease.objects.filter(state=Lease.State.PENDING, pending_deadline__lt=now)
    return list(rows.order_by("id").values_list("id", flat=True))


def _give_up(lease_id: int, outbox: Outbox) -> bool:
    """No host has confirmed the device: the lease is told to leave, and the job looks elsewhere."""
    lease = Lease.objects.select_related("job", "type").get(pk=lease_id)
    job = jobs.lock([lease.job_id])[lease.job_id]
    now = outbox.now()
    row = migrations.open_of(job)
    if row is not None and row.destination_id == lease.pk:
        return migrations.abort(job, reason="never_started", now=now, outbox=outbox)
    return leases.begin_closing(
        lease, reason=Lease.Reason.NEVER_STARTED, ending=Lease.Ending.STOP, now=now, outbox=outbox
    )
