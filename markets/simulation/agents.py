"""What the agents of a simulation are told, and how their decisions reach the world."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from laissez.sdk.contexts import Cause, Context, Decision, Notice, Quote, Row
from markets.engine.clearing import Clearing
from markets.engine.money import DECIMALS, MICROSECONDS_PER_SECOND, parse_price
from markets.simulation.world import SimJob, SimLease, World

CAUSES: tuple[Cause, ...] = ("checkpoint", "notice", "hand_over", "award", "price", "submitted", "heartbeat")
"""The order in which one of several causes at one instant is named."""


def context_of(world: World, job: SimJob, clearing: Clearing | None) -> Context:
    """Return what the agent of a job is told now, with the prices of the last clearing."""
    notice = job.source.notice if job.source is not None else None
    return Context(
        job=job.spec.name,
        state="queued" if job.source is None else "running",
        now=(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=world.now)).isoformat(),
        elapsed_seconds=Decimal(world.now - job.spec.submit_at) / MICROSECONDS_PER_SECOND,
        progress=_decimal(job.progress_at(world.now)),
        last_checkpoint=_decimal(job.saved),
        cause=next((cause for cause in CAUSES if cause in job.causes), "heartbeat"),
        rows=_rows(world, job),
        stated={row.type: _dollars(row.max_price) for row in job.spec.rows},
        exchange=_exchange(world, clearing),
        checkpoint_seconds=Decimal(0),
        holds=_name(world, job.source),
        destination=_name(world, job.destination),
        award=world.names[job.award.type] if job.award is not None else None,
        moving=job.decided is not None or job.restoring_until is not None,
        notice=None
        if notice is None
        else Notice(notice.reason, Decimal(max(0, notice.deadline - world.now)) / MICROSECONDS_PER_SECOND),
    )


def carry_out(world: World, job: SimJob, decision: Decision) -> None:
    """Do what the agent decided. ValueError for stop, which a simulated job does not know."""
    if decision.kind == "stop":
        raise ValueError(f"{job.spec.name}: a simulated job does not stop")
    for name, price in decision.bids.items():
        row = job.row(world.types[name])
        if row.max_price != parse_price(price):
            row.max_price, row.accepted_at = parse_price(price), world.now
    if decision.kind == "checkpoint" and job.spec.saves_any_time:
        job.saved = job.progress_at(world.now)
        job.causes.add("checkpoint")
    if decision.kind == "migrate" and job.source is not None and job.restoring_until is None:
        job.decided = decision.moment


def _rows(world: World, job: SimJob) -> tuple[Row, ...]:
    return tuple(
        Row(world.names[row.type], _dollars(row.max_price), _dollars(row.keep_price), _decimal(spec.hours))
        for row, spec in zip(job.rows, job.spec.rows, strict=True)
    )


def _exchange(world: World, clearing: Clearing | None) -> dict[str, Quote]:
    """Return the public exchange; the base prices before the first clearing."""
    quotes = {}
    for offer in world.offers:
        units = [unit for unit in world.units if unit.type == offer.id and unit.usable]
        quotes[world.names[offer.id]] = Quote(
            price_per_hour=_exact(clearing.prices[offer.id].public if clearing is not None else offer.base),
            base_price_per_hour=_exact(offer.base),
            cap_price_per_hour=_exact(offer.cap),
            units_free=sum(unit.lease is None for unit in units),
            units_total=len(units),
        )
    return quotes


def _exact(price: int) -> Decimal:
    return Decimal(price).scaleb(-DECIMALS)


def _dollars(price: int | None) -> Decimal | None:
    return None if price is None else _exact(price)


def _decimal(share: Fraction) -> Decimal:
    return Decimal(share.numerator) / share.denominator


def _name(world: World, lease: SimLease | None) -> str | None:
    return None if lease is None else world.names[lease.type]
