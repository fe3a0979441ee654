"""A tenant's jobs in full: where each one is, why, and what it costs. Scoped: start from `visible_to`."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from laissez.errors import NotFound
from laissez.records import Reading
from markets.models import Award, Bid, Notice
from markets.selectors import exchange
from tenants.models import Tenant
from workers.models import Checkpoint, Job, Lease, Migration


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything its page and its API answer show of a job."""

    job: Job
    table: exchange.Exchange
    bids: list[Bid]
    leases: list[Lease]
    migrations: list[Migration]
    checkpoints: list[Checkpoint]
    award: Award | None
    notice: Notice | None

    @property
    def primary(self) -> Lease | None:
        """The lease that speaks for the job now."""
        return next((lease for lease in self.leases if lease.state != "closed" and _is_primary(lease)), None)

    @property
    def open_leases(self) -> list[Lease]:
        """The leases that occupy a device now."""
        return [lease for lease in self.leases if lease.state != "closed"]

    def bid_on(self, type_id: int) -> Bid | None:
        """The open bid on a type."""
        return next((bid for bid in self.bids if bid.type_id == type_id), None)


def visible_to(tenant: Tenant) -> QuerySet[Job]:
    """The jobs that a tenant may see: its own."""
    return Job.objects.filter(tenant=tenant).select_related("tenant", "cluster", "newest_checkpoint")


def find(tenant: Tenant, public_id: str) -> Job:
    """One of a tenant's jobs; somebody else's is no such job."""
    job = None if "\x00" in public_id else visible_to(tenant).filter(public_id=public_id).first()
    if job is None:
        raise NotFound("job")
    return job


def view(job: Job, *, now: datetime) -> JobView:
    """A job with everything around it. Nothing but an award comes before the first lease."""
    leases = _LEASES(job.pk)
    notices = _NOTICES(job.pk) if leases else []
    return JobView(
        job=job,
        table=exchange.of(job.cluster, now=now),
        bids=_BIDS(job.pk),
        leases=leases,
        migrations=_MIGRATIONS(job.pk) if leases else [],
        checkpoints=_CHECKPOINTS(job.pk) if leases else [],
        award=next(iter(_AWARDS(job.pk)), None),
        notice=next(iter(notices), None),
    )


_OF_JOB = "WHERE row.job_id = %s ORDER BY row.id"
_LEASES = Reading(Lease, "type", "host", rest=_OF_JOB)
_BIDS = Reading(Bid, "type", rest='WHERE row.job_id = %s AND row.closed_at IS NULL ORDER BY row."position"')
_MIGRATIONS = Reading(
    Migration, "source", "source__type", "destination", "destination__type", "checkpoint", rest=_OF_JOB
)
_CHECKPOINTS = Reading(Checkpoint, "lease", "lease__type", rest=_OF_JOB)
_AWARDS = Reading(Award, "type", rest="WHERE row.job_id = %s AND row.state = 'waiting' ORDER BY row.id LIMIT 1")
_NOTICES = Reading(
    Notice, "lease", "lease__type", rest="WHERE row.job_id = %s AND row.state = 'open' ORDER BY row.id LIMIT 1"
)


def explain(seen: JobView) -> str:
    """Why the job is where it is, in a sentence or two."""
    job = seen.job
    if job.state == Job.State.QUEUED:
        return _explain_queued(seen)
    if job.state == Job.State.RUNNING:
        return _explain_running(seen)
    return _ENDINGS.get(job.state, "").format(detail=job.reason_detail or job.reason.replace("_", " "))


_ENDINGS = {
    "stopped": "Stopped, with its state saved: {detail}. Resume it when you like.",
    "succeeded": "Finished: its program ended with exit code 0.",
    "failed": "Failed: {detail}.",
    "cancelled": "Cancelled by its tenant.",
    "expired": "Expired in the queue: {detail}",
}
_CAME_BACK = {
    "outbid": "It was outbid and has saved its state. ",
    "below_base": "The base price rose above its bid and it has saved its state. ",
    "host_lost": "Its host was lost; it goes on from its newest checkpoint. ",
    "drained": "Its host is being drained; it has saved its state. ",
    "resumed": "It was resumed. ",
    "killed": "Its process was killed; it is tried again. ",
}


def _explain_queued(seen: JobView) -> str:
    before = _CAME_BACK.get(seen.job.reason, "")
    if not before and seen.job.reason != "submitted":
        before = f"It is tried again: {seen.job.reason_detail or seen.job.reason.replace('_', ' ')}. "
    if seen.award is not None:
        return f"{before}Waiting for a free {seen.award.type.slug}, which it has won; the present holder is leaving."
    return f"{before}Waiting: {'; '.join(_obstacle(seen, bid) for bid in seen.bids) or 'its launch table is empty'}."


def _obstacle(seen: JobView, bid: Bid) -> str:
    """What keeps one row of the launch table from winning."""
    row = seen.table.row(bid.type.slug)
    cap = bid.type.cap_price_per_hour
    own = cap if bid.max_price_per_hour is None else min(cap, bid.max_price_per_hour)
    name = bid.type.slug
    if row is None or row.units_total == 0:
        return f"no host offers {name} at the moment"
    if own < bid.type.base_price_per_hour:
        return f"its ${_usd(own)}/h for {name} is under the base price ${_usd(bid.type.base_price_per_hour)}/h"
    if row.price is None:
        return f"{name} has not been priced yet"
    if own <= row.price and row.units_free == 0:
        return f"its ${_usd(own)}/h for {name} does not beat the price ${_usd(row.price)}/h, and no unit is free"
    return f"{name} is decided at the next tick (its ${_usd(own)}/h against ${_usd(row.price)}/h)"


def _usd(price: int) -> str:
    """A price with four decimals, as pages show it."""
    return f"{price / 1_000_000:.4f}"


def _explain_running(seen: JobView) -> str:
    primary = seen.primary
    if primary is None:
        return "Between two devices: its state is saved and its next device is being made ready."
    return " ".join(part for part in (_seat(seen, primary), _move(seen, primary), _warning(seen)) if part)


def _seat(seen: JobView, primary: Lease) -> str:
    row, bid = seen.table.row(primary.type.slug), seen.bid_on(primary.type_id)
    own = None if bid is None else bid.keep_price_per_hour or bid.max_price_per_hour
    paid = None if row is None or row.lease_price is None else min(row.lease_price, own or row.lease_price)
    price = "" if paid is None else f" at ${_usd(paid)}/h"
    limit = ", bidding the cap" if bid is not None and own is None else f", bidding ${_usd(own)}/h" if own else ""
    if primary.state == "closing":
        return f"Leaving {primary.type.slug} ({primary.reason.replace('_', ' ')}) and saving its state."
    verb = "Starting" if primary.state == "pending" else "Running"
    return f"{verb} on {primary.type.slug}{price}{limit}.{_came_from(seen)}"


def _came_from(seen: JobView) -> str:
    """The last completed move, which is why it runs here."""
    done = [row for row in seen.migrations if row.state == "done"]
    if not done:
        return ""
    last = done[-1]
    why = "it was outbid there" if _was_pushed(seen, last) else "it won a row it prefers"
    return f" It moved here from {last.source.type.slug} because {why}."


def _was_pushed(seen: JobView, row: Migration) -> bool:
    places = {bid.type_id: bid.position for bid in seen.bids}
    return places.get(row.destination.type_id, 0) > places.get(row.source.type_id, 0)


def _move(seen: JobView, primary: Lease) -> str:
    other = next((lease for lease in seen.open_leases if lease.pk != primary.pk), None)
    if other is not None and other.state != "closing":
        return f"Moving to {other.type.slug} at its moment; both are paid for until then."
    if seen.award is not None:
        return f"It has won {seen.award.type.slug} and waits for a unit to come free."
    return ""


def _warning(seen: JobView) -> str:
    notice = seen.notice
    if notice is None:
        return ""
    why = {
        "outbid": "It is outbid",
        "below_base": "Its bid is under the base price",
        "claimed": "Its unit is claimed by somebody else",
        "drained": "Its unit is being taken out of service",
        "budget": "Its budget or the tenant's funds are spent",
    }.get(notice.reason, "It has been given notice")
    return f"{why}; unless that changes it leaves {notice.lease.type.slug} by {notice.deadline:%H:%M:%S} UTC."


def _is_primary(lease: Lease) -> bool:
    return lease.primary_during is not None and lease.primary_during.upper is None
