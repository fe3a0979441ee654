"""What a job's economic agent is told: the job's own state, the public exchange, and nothing of anybody else's."""

from datetime import datetime
from decimal import Decimal
from typing import cast

from laissez.models import Event as FeedEvent
from laissez.sdk.contexts import Cause, Context, Event, Notice, Quote, Row
from markets.engine.money import format_price
from markets.models import Award, Bid
from markets.models import Notice as NoticeRow
from markets.selectors import exchange
from workers.models import Job, Lease

MAX_EVENTS = 50
_SHARE = Decimal("0.000001")


def of(job: Job, *, cause: str, now: datetime, cost_microdollars: int = 0) -> Context:
    """The context of one decision.

    Args:
        cause: why the agent is asked.
        cost_microdollars: what the job has cost by now, for the budget that is left.
    """
    table = exchange.of(job.cluster, now=now)
    leases = list(
        Lease.objects.filter(job=job, state__in=(Lease.State.PENDING, Lease.State.ACTIVE)).select_related("type")
    )
    primary = next((lease for lease in leases if _is_primary(lease)), None)
    other = next((lease for lease in leases if lease is not primary), None)
    award = Award.objects.filter(job=job, state=Award.State.WAITING).select_related("type").first()
    newest = job.newest_checkpoint
    last = newest.progress if newest else 0.0
    return Context(
        job=job.public_id,
        state="running" if primary is not None else "queued",
        now=now.isoformat(),
        elapsed_seconds=Decimal(round((now - job.submitted_at).total_seconds(), 3)).quantize(Decimal("0.001")),
        progress=_share(max(job.progress, last) if primary is not None else last),
        last_checkpoint=_share(last),
        checkpoint_seconds=None if newest is None else Decimal(str(newest.seconds)),
        cause=cast(Cause, cause if cause in CAUSES else "heartbeat"),
        rows=_rows(job),
        stated=_stated(job),
        exchange=_quotes(table),
        holds=None if primary is None else primary.type.slug,
        destination=None if primary is None or other is None else other.type.slug,
        award=None if award is None else award.type.slug,
        moving=job.leaving_since is not None,
        notice=_notice(primary, now),
        budget_left=_budget_left(job, cost_microdollars),
        events=_events(job),
        stale=table.is_stale and job.cluster.last_tick_at is not None,
    )


CAUSES = frozenset({"heartbeat", "notice", "award", "hand_over", "price", "checkpoint", "submitted"})


def _share(value: float) -> Decimal:
    """A fraction with six digits, so that arithmetic on it is exact."""
    return Decimal(value).quantize(_SHARE)


def _is_primary(lease: Lease) -> bool:
    return lease.primary_during is not None and lease.primary_during.upper is None


def _rows(job: Job) -> tuple[Row, ...]:
    hours = {row["accelerator_type"]: row.get("expected_hours") for row in job.spec.get("rows", [])}
    return tuple(
        Row(
            accelerator_type=bid.type.slug,
            max_price_per_hour=_price(bid.max_price_per_hour),
            keep_price_per_hour=_price(bid.keep_price_per_hour),
            expected_hours=None if hours.get(bid.type.slug) is None else Decimal(hours[bid.type.slug]),
        )
        for bid in Bid.objects.filter(job=job, closed_at=None).select_related("type").order_by("position")
    )


def _price(value: int | None) -> Decimal | None:
    return None if value is None else Decimal(format_price(value))


def _stated(job: Job) -> dict[str, Decimal | None]:
    """The maxima as the tenant submitted them; None where it bid the cap."""
    stated = {row["accelerator_type"]: row.get("max_price_per_hour") for row in job.spec.get("rows", [])}
    return {slug: None if text in (None, "cap") else Decimal(text) for slug, text in stated.items()}


def _quotes(table: exchange.Exchange) -> dict[str, Quote]:
    return {
        row.type.slug: Quote(
            price_per_hour=Decimal(format_price(row.price or row.type.base_price_per_hour)),
            base_price_per_hour=Decimal(format_price(row.type.base_price_per_hour)),
            cap_price_per_hour=Decimal(format_price(row.type.cap_price_per_hour)),
            units_free=row.units_free,
            units_total=row.units_total,
        )
        for row in table.rows
    }


def _notice(lease: Lease | None, now: datetime) -> Notice | None:
    row = NoticeRow.objects.filter(lease=lease, state=NoticeRow.State.OPEN).first() if lease is not None else None
    if row is None:
        return None
    left = max(0.0, (row.deadline - now).total_seconds())
    return Notice(reason=row.reason, deadline_seconds=Decimal(str(round(left, 3))))


def _budget_left(job: Job, cost_microdollars: int) -> Decimal | None:
    if job.budget_microdollars is None:
        return None
    return Decimal(format_price(max(0, job.budget_microdollars - cost_microdollars)))


def _events(job: Job) -> tuple[Event, ...]:
    rows = FeedEvent.objects.filter(stream__name=f"job:{job.public_id}", seq__gt=job.agent_cursor).order_by("-seq")
    return tuple(Event(row.type, row.at.isoformat(), row.data) for row in reversed(rows[:MAX_EVENTS]))
