"""What became of the story, read from the database: the same shape as `manage.py simulate paper --json`, and more.

Minutes are market minutes since the first submission; amounts and prices are decimal text in US dollars.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from laissez.demo.story import CLUSTER, CONTESTED_TYPE
from markets.engine.money import format_price
from markets.models import Bid, BillingSlice, Quote
from workers.models import Job, Lease, Migration, ProgressSample
from workers.selectors.rows import resume_seconds

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """Market minutes of an instant: real time since the origin, times the speed-up."""

    origin: datetime
    speedup: float

    def minute(self, moment: datetime | None) -> float | None:
        """None stays None."""
        return None if moment is None else round((moment - self.origin).total_seconds() * self.speedup / 60, 3)


def collect(jobs: Mapping[str, str], *, speedup: float) -> Json:
    """The outcome of the jobs (name in the story to public id)."""
    names = {Job.objects.get(public_id=public_id): name for name, public_id in jobs.items()}
    axis = Axis(origin=min(job.submitted_at for job in names), speedup=speedup)
    ended = [job.finished_at for job in names if job.finished_at is not None]
    types = sorted(set(Quote.objects.filter(type__cluster__slug=CLUSTER).values_list("type__slug", flat=True)))
    prices = {slug: prices_of(slug, axis, until=max(ended, default=None)) for slug in types}
    by_id = {job.pk: name for job, name in names.items()}
    return {
        "scenario": "demo",
        "a10_prices": prices.get(CONTESTED_TYPE, []),
        "prices": prices,
        "bids": bids_of(by_id, axis),
        "leases": leases_of(by_id, axis),
        "migrations": migrations_of(by_id, axis),
        "bills": {name: format_price(billed(job)) for job, name in ordered(names)},
        "finish_minute": {name: axis.minute(job.finished_at) for job, name in ordered(names)},
        "states": {name: job.state for job, name in ordered(names)},
    }


def is_settled(jobs: Mapping[str, str]) -> bool:
    """Whether every lease of the jobs is closed and billed to its end, so that the figures are final."""
    for lease in Lease.objects.filter(job__public_id__in=jobs.values()):
        billed_to = lease.billed_during.upper if lease.billed_during else None
        if lease.state != Lease.State.CLOSED or (billed_to is not None and lease.metered_until != billed_to):
            return False
    return True


def ordered(names: Mapping[Job, str]) -> Sequence[tuple[Job, str]]:
    """In the order of submission."""
    return sorted(names.items(), key=lambda pair: pair[0].pk)


def prices_of(slug: str, axis: Axis, *, until: datetime | None) -> list[Json]:
    """The public prices of a type, one entry per change, from the one in force at the origin on."""
    quotes = Quote.objects.filter(type__cluster__slug=CLUSTER, type__slug=slug, during__endswith__gt=axis.origin)
    still_open = Quote.objects.filter(type__cluster__slug=CLUSTER, type__slug=slug, during__upper_inf=True)
    points: list[Json] = []
    for quote in (quotes | still_open).order_by("id"):
        price = format_price(quote.price_per_hour)
        if not points or points[-1]["price"] != price:
            points.append({"minute": max(0.0, axis.minute(quote.during.lower) or 0.0), "price": price})
    return points


def bids_of(names: Mapping[int, str], axis: Axis) -> list[Json]:
    """Every value that a job bid on a type, when it began to."""
    return [
        {
            "job": names[bid.job_id],
            "minute": axis.minute(bid.opened_at),
            "type": bid.type.slug,
            "value": "cap" if bid.max_price_per_hour is None else format_price(bid.max_price_per_hour),
        }
        for bid in Bid.objects.filter(job_id__in=names).select_related("type").order_by("opened_at", "id")
    ]


def leases_of(names: Mapping[int, str], axis: Axis) -> list[Json]:
    """Every lease with the time that was billed and what it cost."""
    rows = Lease.objects.filter(job_id__in=names).select_related("type", "host").order_by("id")
    return [
        {
            "job": names[lease.job_id],
            "type": lease.type.slug,
            "host": lease.host.name,
            "start_minute": axis.minute(lease.active_at),
            "end_minute": axis.minute(lease.billed_during.upper if lease.billed_during else lease.ended_at),
            "cost": format_price(lease.billed_microdollars),
            "reason": lease.reason,
        }
        for lease in rows
    ]


def migrations_of(names: Mapping[int, str], axis: Axis) -> list[Json]:
    """Every move that was begun, with how long the job stood still and its loss on both sides."""
    rows = Migration.objects.filter(job_id__in=names).select_related("source__type", "destination__type", "checkpoint")
    return [
        {
            "job": names[move.job_id],
            "minute": axis.minute(move.transferring_at),
            "source": move.source.type.slug,
            "destination": move.destination.type.slug,
            "mode": move.mode,
            "state": move.state,
            "reason": move.reason,
            "resume_seconds": resume_seconds(move),
            "loss_before": loss_before(move),
            "loss_after": loss_after(move),
        }
        for move in rows.order_by("id")
    ]


def loss_before(move: Migration) -> float | None:
    """The last loss that the source reported at or before the state that was moved."""
    samples = ProgressSample.objects.filter(lease=move.source, loss__isnull=False)
    if move.checkpoint is not None:
        samples = samples.filter(progress__lte=move.checkpoint.progress)
    return samples.order_by("-progress", "-id").values_list("loss", flat=True).first()


def loss_after(move: Migration) -> float | None:
    """The first loss that the destination reported."""
    samples = ProgressSample.objects.filter(lease=move.destination, loss__isnull=False)
    return samples.order_by("id").values_list("loss", flat=True).first()


def billed(job: Job) -> int:
    """Micro-dollars over all slices of all leases."""
    slices = BillingSlice.objects.filter(lease__job=job).values_list("amount_microdollars", flat=True)
    return sum(slices)
