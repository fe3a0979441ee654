"""Holds behind bids: funds for a job's dearest row over the time it takes to tell it to leave.

What a hold covers is spent without further asking: the minute not yet billed, the notice, and the saving of state.
"""

from collections.abc import Iterable, Mapping

from django.conf import settings

from laissez.errors import Refused
from laissez.events import Outbox
from markets.engine.money import MICROSECONDS_PER_SECOND, amount, integral
from markets.models import Bid
from tenants.models import Hold, Tenant
from tenants.services import ledger
from workers.models import AcceleratorType, Job
from workers.services.leases import CLOSING_GRACE_SECONDS

SLICE_SECONDS = 60


def needed_for(job: Job) -> int:
    """Micro-dollars: the dearest open bid, counted at most at its cap, over notice, saving and one minute.

    Twice that for a job that overlaps its moves, since it then pays for two devices.
    """
    rows = Bid.objects.filter(job=job, closed_at=None).select_related("type")
    return needed_by(job, ((bid.type, bid.max_price_per_hour, bid.keep_price_per_hour) for bid in rows))


def needed_by(job: Job, rows: Iterable[tuple[AcceleratorType, int | None, int | None]]) -> int:
    """`needed_for` with rows that are known, or are yet to be written: type, maximum (None: the cap), keep price."""
    dearest = max((_counted(*row) for row in rows), default=0)
    seconds = job.cluster.notice_seconds + CLOSING_GRACE_SECONDS + SLICE_SECONDS
    devices = 2 if job.migration_mode == Job.MigrationMode.OVERLAP else 1
    market_us = seconds * MICROSECONDS_PER_SECOND * speedup()
    return amount(integral(dearest, 0, market_us)) * devices


def speedup() -> int:
    """How many market seconds the meter counts for a real one: 1, except in a demo."""
    speedup: int = settings.METER_SPEEDUP
    return speedup


def _counted(kind: AcceleratorType, highest: int | None, keep: int | None) -> int:
    cap: int = kind.cap_price_per_hour
    return cap if highest is None else min(cap, max(highest, keep or 0))


def reserve(job: Job, outbox: Outbox) -> None:
    """Hold what a job's bids need, enlarging an open hold where it has become too small.

    Raises:
        Refused: `insufficient_funds`; nothing is written then.
    """
    for refusal in reserve_many(job.tenant, {job.public_id: needed_for(job)}, outbox).values():
        raise refusal


def reserve_many(tenant: Tenant, needed: Mapping[str, int], outbox: Outbox) -> dict[str, Refused]:
    """`reserve` for jobs of one tenant by their public ids, with what each needs; no job adds a statement.

    Returns:
        The refusals by public id: in the order given, a hold that is not covered stays as it is, and the rest go on.
    """
    return ledger.enlarge_holds(tenant, needed, outbox=outbox)


def renew(job: Job, outbox: Outbox) -> bool:
    """`reserve`, but answering whether the tenant's funds sufficed: the caller warns the job when they do not."""
    try:
        reserve(job, outbox)
    except Refused as refusal:
        if refusal.code != "insufficient_funds":
            raise
        return False
    return True


def open_hold(job: Job) -> Hold | None:
    """The open hold behind a job's bids."""
    return Hold.objects.filter(reference=job.public_id, released_at=None).first()


def references(public_ids: Iterable[str]) -> set[str]:
    """Those of these jobs that have an open hold."""
    rows = Hold.objects.filter(reference__in=list(public_ids), released_at=None)
    return set(rows.values_list("reference", flat=True))


def release(job: Job, outbox: Outbox) -> None:
    """Free what is still held: the job is over and its last slice is billed."""
    hold = open_hold(job)
    if hold is not None:
        ledger.release_hold(hold, outbox=outbox)
