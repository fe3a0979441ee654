"""What templates are given beside the rows themselves: figures that belong together, worked out once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from markets.models import Bid
from markets.presentation import resume_seconds
from markets.selectors.jobs import JobView, explain
from markets.selectors.overview import OwnBid, Standing
from markets.services import metering
from markets.views import timeline
from workers.models import Job, Lease, Migration
from workers.models.jobs import TERMINAL_JOB_STATES

PHASES = (
    ("opened", "opened_at"),
    ("destination confirmed", "destination_active_at"),
    ("checkpointing", "checkpointing_at"),
    ("transferring", "transferring_at"),
    ("source stopped", "source_stopped_at"),
    ("restoring", "restoring_at"),
    ("first step", "first_step_at"),
    ("closed", "closed_at"),
)


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job as one line of a list, and as the head of its page. Amounts in micro-dollars, prices per hour."""

    seen: JobView
    explanation: str
    cost: int

    @property
    def job(self) -> Job:
        """The job itself."""
        return self.seen.job

    @property
    def is_over(self) -> bool:
        """Whether it has reached a state that it never leaves."""
        return self.job.state in TERMINAL_JOB_STATES

    @property
    def hardware(self) -> str | None:
        """Where it runs, else what it has won; None where it has neither."""
        if self.seen.primary is not None:
            return self.seen.primary.type.slug
        return None if self.seen.award is None else self.seen.award.type.slug

    @property
    def bid(self) -> Bid | None:
        """The bid that counts at present: on the hardware it holds, else the first of its launch table."""
        if self.seen.primary is not None:
            return self.seen.bid_on(self.seen.primary.type_id)
        return next(iter(self.seen.bids), None)

    @property
    def own(self) -> int | None:
        """What that bid counts for: at most the cap."""
        bid = self.bid
        if bid is None:
            return None
        stated = bid.max_price_per_hour
        if self.seen.primary is not None:
            stated = bid.keep_price_per_hour or stated
        cap = bid.type.cap_price_per_hour
        return cap if stated is None else min(stated, cap)

    @property
    def price(self) -> int | None:
        """The exchange price of that bid's type: what it pays where it runs, else the public price."""
        bid = self.bid
        row = None if bid is None else self.seen.table.row(bid.type.slug)
        if row is None or self.own is None:
            return None
        if self.seen.primary is None:
            return row.price
        return None if row.lease_price is None else min(row.lease_price, self.own)

    @property
    def headroom(self) -> int | None:
        """How far the bid lies above the public price, negative below."""
        bid = self.bid
        row = None if bid is None else self.seen.table.row(bid.type.slug)
        return None if row is None or row.price is None or self.own is None else self.own - row.price


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """A lease with its cost, and what all leases up to it have cost together."""

    lease: Lease
    cost: int
    total: int

    @property
    def ended_at(self) -> datetime | None:
        """When the device was given back."""
        return self.lease.ended_at


@dataclass(frozen=True, slots=True)
class Phase:
    """One dated step of a move, and the seconds since the step before it."""

    name: str
    at: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class MoveLine:
    """A migration with its phases in the order of time."""

    move: Migration
    phases: tuple[Phase, ...]
    resume_seconds: float | None


@dataclass(frozen=True, slots=True)
class TableLine:
    """One row of a launch table with what the tenant expects of it."""

    own: OwnBid
    expected_hours: str | None

    @property
    def is_held(self) -> bool:
        """Whether the job runs there."""
        return self.own.standing in (Standing.RUNS, Standing.LEAVES)


def costs_of(seen: Sequence[JobView], now: datetime) -> Mapping[int, int]:
    """What each lease of these jobs has cost by now, by its primary key."""
    return metering.running_costs([lease for view in seen for lease in view.leases], now)


def job_line(seen: JobView, costs: Mapping[int, int]) -> JobLine:
    """A job's line."""
    return JobLine(seen=seen, explanation=explain(seen), cost=sum(costs[lease.pk] for lease in seen.leases))


def lease_lines(seen: JobView, costs: Mapping[int, int]) -> list[LeaseLine]:
    """Its leases, oldest first, with running totals."""
    totals = accumulate(costs[lease.pk] for lease in seen.leases)
    return [LeaseLine(lease, costs[lease.pk], total) for lease, total in zip(seen.leases, totals, strict=True)]


def move_lines(seen: JobView) -> list[MoveLine]:
    """Its moves, newest first."""
    return [MoveLine(move, _phases(move), resume_seconds(move)) for move in reversed(seen.migrations)]


def _phases(move: Migration) -> tuple[Phase, ...]:
    dated = [(name, at) for name, field in PHASES if (at := getattr(move, field)) is not None]
    dated.sort(key=lambda each: each[1])  # phases of one instant keep their order
    before = [move.opened_at, *(at for _, at in dated)]
    return tuple(
        Phase(name, at, (at - former).total_seconds()) for (name, at), former in zip(dated, before, strict=False)
    )


def table_lines(seen: JobView, standings: Sequence[OwnBid]) -> list[TableLine]:
    """Its launch table in order."""
    hours = {row["accelerator_type"]: row.get("expected_hours") for row in seen.job.spec["rows"]}
    return [TableLine(own, hours.get(own.bid.type.slug)) for own in standings]


def timeline_of(seen: JobView, costs: Mapping[int, int], now: datetime) -> timeline.Timeline:
    """Its life as a drawing."""
    return timeline.draw(
        start=seen.job.submitted_at,
        end=seen.job.finished_at or now,
        hardware=_hardware(seen),
        stays=[
            timeline.Stay(
                hardware=lease.type.slug,
                start=lease.during.lower,
                end=lease.during.upper,
                first_step=lease.first_step_at,
                cost=costs[lease.pk],
                state=lease.state,
            )
            for lease in seen.leases
        ],
        marks=[
            timeline.Mark(hardware=each.lease.type.slug, at=each.committed_at, progress=each.progress)
            for each in seen.checkpoints
        ],
        moves=[
            timeline.Move(
                source=each.source.type.slug,
                destination=each.destination.type.slug,
                at=each.first_step_at or each.source_stopped_at or each.opened_at,
                state=each.state,
            )
            for each in seen.migrations
        ],
    )


def _hardware(seen: JobView) -> list[str]:
    """The launch table's order; once it is closed, the order in which it was submitted, of what was used."""
    used = {lease.type.slug for lease in seen.leases}
    stated = [row["accelerator_type"] for row in seen.job.spec["rows"]]
    open_rows = {bid.type.slug for bid in seen.bids}
    return [name for name in stated if name in used | open_rows] or stated
