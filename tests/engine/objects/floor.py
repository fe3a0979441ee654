"""The floor: who sits where at one instant, as dynamics reads it.

The live system builds these values from rows under the cluster's lock, the simulator from memory.
Instants are microseconds, prices micro-dollars per hour; every id is unique among its kind.
"""

from dataclasses import dataclass
from typing import Literal

JobState = Literal["queued", "running"]
TenureState = Literal["pending", "active", "closing"]


@dataclass(frozen=True, slots=True)
class TypeOffer:
    """An accelerator type of the cluster with its base and cap price in force."""

    id: int
    base: int
    cap: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One accelerator. usable: healthy, approved and not draining. lease: whoever occupies it, closing ones too."""

    id: int
    type: int
    usable: bool
    lease: int | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a launch table as it stands.

    max_price None bids the cap; keep_price None means the same as max_price, and it counts as at least max_price.
    closed_until: a running job does not seek this row before that instant, its cool-down after a failed upgrade.
    """

    type: int
    max_price: int | None
    keep_price: int | None
    accepted_at: int
    closed_until: int = 0


@dataclass(frozen=True, slots=True)
class OpenNotice:
    """A notice that is neither withdrawn nor executed. answered: the agent has replied to it; it still stands.

    reason: one of the market's own (see actions.NoticeReason), which planning may withdraw, or any other word
    (budget, host trouble), which planning only executes at its deadline.
    """

    id: int
    reason: str
    deadline: int
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Tenure:
    """A lease that still occupies its unit."""

    lease: int
    unit: int
    type: int
    state: TenureState
    since: int
    notice: OpenNotice | None = None


@dataclass(frozen=True, slots=True)
class WaitingAward:
    """A win without a device yet."""

    id: int
    type: int
    since: int


@dataclass(frozen=True, slots=True)
class FloorJob:
    """A job in the market.

    source: the unit it runs on (pending or active); destination: the unit it is moving to, only beside a source.
    rows: its launch table in order, with a row for every type it sits on.
    seeking: the rows above the one it runs on are awake (its upgrade setting, and not over its moves per hour).
    leaving: its agent said migrate and that has not happened yet.
    seek_deadline: the instant at which an unused destination is given back.
    closing: leases told to leave that still occupy their units.
    """

    id: int
    tenant: int
    state: JobState
    rows: tuple[TableRow, ...]
    source: Tenure | None = None
    destination: Tenure | None = None
    award: WaitingAward | None = None
    seeking: bool = False
    leaving: bool = False
    seek_deadline: int | None = None
    closing: tuple[Tenure, ...] = ()

    def rank(self, type_id: int) -> int:
        """Return the place of a type in the launch table, 0 for the first; -1 if the table has no such row."""
        return next((place for place, row in enumerate(self.rows) if row.type == type_id), -1)

    def row(self, type_id: int) -> TableRow | None:
        """Return the row for a type, if there is one."""
        return next((row for row in self.rows if row.type == type_id), None)


@dataclass(frozen=True, slots=True)
class Floor:
    """One cluster at the instant `now`; notice_us is how long a notice runs in it.

    jobs: those queued or running. A finished job need not be here while its lease still occupies a unit: a unit whose
    lease belongs to no job of the floor counts as one that is being left.
    """

    now: int
    notice_us: int
    types: tuple[TypeOffer, ...]
    units: tuple[Unit, ...]
    jobs: tuple[FloorJob, ...]
