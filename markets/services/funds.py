"""Holds behind bids: funds for a job's dearest row over the time it takes to tell it to leave.

What a hold covers is spent without further asking: the minute not yet billed, the notice, and the saving of state.
"""

from collections.abc import Collection, Iterable, Sequence

from django.conf import settings

from laissez.events import Outbox
from markets.engine.money import MICROSECONDS_PER_SECOND, amount, integral
from markets.models import Bid
from tenants.models import Hold, Tenant
from tenants.services import ledger
from workers.models import Job
from workers.services.leases import CLOSING_GRACE_SECONDS

SLICE_SECONDS = 60


def needed_for(job: Job) -> int:
    """Micro-dollars: the dearest open bid, counted at most at its cap, over notice, saving and one minute.

    Twice that for a job that overlaps its moves, since it then pays for two devices.
    """
    return needed_for_many([job])[job.pk]


def needed_for_many(jobs: Sequence[Job]) -> dict[int, int]:
    """`needed_for` of many jobs by id, in one query."""
    needed = dict.fromkeys((job.pk for job in jobs), 0)
    devices = {job.pk: 2 if job.migration_mode == Job.MigrationMode.OVERLAP else 1 for job in jobs}
    columns = ("job_id", "max_price_per_hour", "keep_price_per_hour", "type__cap_price_per_hour")
    rows = Bid.objects.filter(job_id__in=list(needed), closed_at=None)
    for job_id, highest, keep, cap, notice in rows.values_list(*columns, "type__cluster__notice_seconds"):
        market_us = seconds_held(notice) * MICROSECONDS_PER_SECOND * speedup()
        row = amount(integral(_counted(highest, keep, cap), 0, market_us)) * devices[job_id]
        needed[job_id] = max(needed[job_id], row)
    return needed


def seconds_held(notice_seconds: int) -> int:
    """For how long a hold pays for a device."""
    return notice_seconds + CLOSING_GRACE_SECONDS + SLICE_SECONDS


def speedup() -> int:
    """How many market seconds the meter counts for a real one: 1, except in a demo."""
    speedup: int = settings.METER_SPEEDUP
    return speedup


def _counted(highest: int | None, keep: int | None, cap: int) -> int:
    return cap if highest is None else min(cap, max(highest, keep or 0))


def reserve(job: Job, outbox: Outbox) -> None:
    """Hold what a job's bids need, enlarging an open hold where it has become too small.

    Raises:
        Refused: `insufficient_funds`; nothing is written then.
    """
    needed = needed_for(job)
    hold = open_hold(job)
    if hold is None:
        ledger.place_hold(job.tenant, reference=job.public_id, amount_microdollars=needed, outbox=outbox)
    elif hold.amount_microdollars < needed:
        ledger.resize_hold(hold, amount_microdollars=needed, outbox=outbox)


def renew_many(jobs: Sequence[Job], outbox: Outbox) -> set[int]:
    """`reserve` for many jobs, the one with the lowest id first, in a constant number of queries.

    Returns:
        The ids of those that their tenants' funds do not cover any more; their holds stay as they are.
    """
    ordered = sorted(jobs, key=lambda job: job.pk)
    needed, tenants = needed_for_many(ordered), Tenant.objects.in_bulk({job.tenant_id for job in ordered})
    wanted = [ledger.Reserve(tenants[job.tenant_id], job.public_id, needed[job.pk]) for job in ordered]
    held = ledger.reserve_many(wanted, outbox=outbox)
    return {job.pk for job, is_held in zip(ordered, held, strict=True) if not is_held}


def open_hold(job: Job) -> Hold | None:
    """The open hold behind a job's bids."""
    return open_holds([job.public_id]).get(job.public_id)


def open_holds(public_ids: Collection[str]) -> dict[str, Hold]:
    """The open holds behind the bids of many jobs, by the jobs' public ids, in one query."""
    rows = Hold.objects.filter(reference__in=list(public_ids), released_at=None)
    return {hold.reference: hold for hold in rows}


def release_many(jobs: Iterable[Job], outbox: Outbox) -> None:
    """Free what is still held for jobs that are over and whose last slices are billed."""
    ledger.release_many(list(open_holds([job.public_id for job in jobs]).values()), outbox=outbox)
