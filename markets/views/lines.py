"""What templates are given beside the rows themselves: figures that belong together, worked out once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from markets.models import Bid
from markets.selectors.jobs import JobView
from markets.selectors.overview import OwnBid, Standing
from markets.selectors.positions import Position
from markets.views import reasons
from markets.views.paid import Costs, Paid
from workers.models import Job, Lease, Migration
from workers.models.jobs import TERMINAL_JOB_STATES
from workers.selectors.rows import resume_seconds

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
    reason: str
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
    """A lease with its cost, what it paid per hour, and what all leases up to it have cost together."""

    lease: Lease
    cost: int
    paid: Paid | None
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
    """One row of a launch table: what the tenant expects of it, and its place among the losing bids where it loses."""

    own: OwnBid
    expected_hours: str | None
    position: Position | None

    @property
    def is_held(self) -> bool:
        """Whether the job runs there."""
        return self.own.standing in (Standing.RUNS, Standing.LEAVES)


def job_line(seen: JobView, costs: Mapping[int, int]) -> JobLine:
    """A job's line; costs are its leases' by primary key."""
    return JobLine(seen=seen, reason=reasons.reason(seen), cost=sum(costs[lease.pk] for lease in seen.leases))


def lease_lines(seen: JobView, costs: Costs) -> list[LeaseLine]:
    """Its leases, oldest first, with running totals."""
    totals = accumulate(costs.of(lease) for lease in seen.leases)
    return [
        LeaseLine(lease, costs.of(lease), costs.paid(lease), total)
        for lease, total in zip(seen.leases, totals, strict=True)
    ]


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


def table_lines(seen: JobView, standings: Sequence[OwnBid], positions: Mapping[int, Position]) -> list[TableLine]:
    """Its launch table in order."""
    hours = {row["accelerator_type"]: row.get("expected_hours") for row in seen.job.spec["rows"]}
    return [TableLine(own, hours.get(own.bid.type.slug), positions.get(own.bid.type_id)) for own in standings]
