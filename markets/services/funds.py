"""Holds behind bids: funds for a job's dearest row over the time it takes to tell it to leave.

What a hold covers is spent without further asking: the minute not yet billed, the notice, and the saving of state.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from django.conf import settings

from laissez.errors import Refused
from laissez.events import Outbox
from laissez.prepared import run
from markets.engine.money import MICROSECONDS_PER_SECOND, amount, integral
from markets.models import Bid
from tenants.models import Hold, Tenant
from tenants.services import ledger
from workers.models import AcceleratorType, Job
from workers.services.leases import CLOSING_GRACE_SECONDS

SLICE_SECONDS = 60
_HELD = """
    SELECT reference, amount_microdollars FROM tenants_hold WHERE reference = ANY(%s::text[]) AND released_at IS NULL
"""


def needed_for(job: Job) -> int:
    """Micro-dollars: the dearest open bid, counted at most at its cap, over notice, saving and one minute.

    Twice that for a job that overlaps its moves, since it then pays for two devices.
    """
    return needed_for_many([job])[job.pk]


def needed_for_many(jobs: Sequence[Job]) -> dict[int, int]:
    """`needed_for` of many jobs by id, in one query."""
    needed = dict.fromkeys((job.pk for job in jobs), 0)
    by_id = {job.pk: job for job in jobs}
    columns = ("job_id", "max_price_per_hour", "keep_price_per_hour", "type__cap_price_per_hour")
    rows = Bid.objects.filter(job_id__in=list(needed), closed_at=None)
    for job_id, highest, keep, cap, notice_seconds in rows.values_list(*columns, "type__cluster__notice_seconds"):
        needed[job_id] = max(needed[job_id], _held(by_id[job_id], notice_seconds, counted(highest, keep, cap)))
    return needed


def needed_by(job: Job, rows: Iterable[tuple[AcceleratorType, int | None, int | None]]) -> int:
    """`needed_for` with rows that are known, or are yet to be written: type, maximum (None: the cap), keep price."""
    dearest = max((counted(highest, keep, kind.cap_price_per_hour) for kind, highest, keep in rows), default=0)
    return _held(job, job.cluster.notice_seconds, dearest)


def _held(job: Job, notice_seconds: int, price_per_hour: int) -> int:
    devices = 2 if job.migration_mode == Job.MigrationMode.OVERLAP else 1
    market_us = seconds_held(notice_seconds) * MICROSECONDS_PER_SECOND * speedup()
    return amount(integral(price_per_hour, 0, market_us)) * devices


def seconds_held(notice_seconds: int) -> int:
    """For how long a hold pays for a device."""
    return notice_seconds + CLOSING_GRACE_SECONDS + SLICE_SECONDS


def speedup() -> int:
    """How many market seconds the meter counts for a real one: 1, except in a demo."""
    speedup: int = settings.METER_SPEEDUP
    return speedup


def counted(highest: int | None, keep: int | None, cap: int) -> int:
    """What a row bids at most, once it holds a unit; `highest` None bids the cap."""
    return cap if highest is None else min(cap, max(highest, keep or 0))


def reserve(job: Job, outbox: Outbox) -> None:
    """Hold what a job's bids need, enlarging an open hold where it has become too small.

    Raises:
        Refused: `insufficient_funds`; nothing is written then.
    """
    for refusal in reserve_many(job.tenant, {job.public_id: needed_for(job)}, outbox).values():
        raise refusal


def reserve_many(
    tenant: Tenant, needed: Mapping[str, int], outbox: Outbox, *, held: Mapping[str, int] | None = None
) -> dict[str, Refused]:
    """`reserve` for jobs of one tenant by their public ids, with what each needs; no job adds a statement.

    Args:
        held: what is held for each at present, under the jobs' locks; None: to be read. Where that is enough, nobody's
            account is locked, and where it is not, the ledger looks again under the account's lock.

    Returns:
        The refusals by public id: in the order given, a hold that is not covered stays as it is, and the rest go on.
    """
    found = dict(run(_HELD, [list(needed)])) if held is None else held
    lacking = {name: amount for name, amount in needed.items() if found.get(name, -1) < amount}
    if not lacking:
        return {}
    wanted = [ledger.Reserve(tenant, public_id, amount) for public_id, amount in lacking.items()]
    refusals = ledger.reserve_many(wanted, outbox=outbox)
    return {name: refusal for name, refusal in zip(lacking, refusals, strict=True) if refusal is not None}


def renew_many(jobs: Sequence[Job], outbox: Outbox) -> set[int]:
    """`reserve` for many jobs, the one with the lowest id first, in a constant number of queries.

    Returns:
        The ids of those that their tenants' funds do not cover any more; their holds stay as they are.
    """
    ordered = sorted(jobs, key=lambda job: job.pk)
    needed, tenants = needed_for_many(ordered), Tenant.objects.in_bulk({job.tenant_id for job in ordered})
    wanted = [ledger.Reserve(tenants[job.tenant_id], job.public_id, needed[job.pk]) for job in ordered]
    refusals = ledger.reserve_many(wanted, outbox=outbox)
    return {job.pk for job, refusal in zip(ordered, refusals, strict=True) if refusal is not None}


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
