"""The floor: who sits where at one instant, as dynamics reads it, as arrays of records.

The live system reads it from rows under the cluster's lock, the simulator builds it from values in memory. Instants are
microseconds, prices micro-dollars per hour; NONE stands where there is nothing, and flags are 0 or 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from markets.engine.actions import MARKET_REASONS
from markets.engine.book import NONE, IntArray, Records, record

TYPE = record("id", "base", "cap")
"""An accelerator type of the cluster with its base and cap price in force."""

UNIT = record("id", "type", "usable", "lease")
"""One accelerator; type is a place in `types`. usable: healthy, approved and not draining. lease: whoever occupies it,
closing ones and those of finished jobs too."""

JOB = record(
    "id", "tenant", "seeking", "leaving", "seek_deadline", "source", "destination", "award", "award_type", "award_since"
)
"""A job in the market, queued where it has no source and running where it has one.

source and destination are places in `tenures`: the unit it runs on (pending or active), and the one it is moving to,
only beside a source. seeking: the rows above the one it runs on are awake (its upgrade setting, and not over its moves
per hour). leaving: its agent said migrate and that has not happened yet. seek_deadline: the instant at which an unused
destination is given back. award is the id of a win without a device yet, award_type a place in `types`.
"""

TENURE = record(
    "lease", "job", "unit", "type", "state", "since", "notice", "notice_reason", "notice_deadline", "notice_answered"
)
"""A lease of one of the floor's jobs that still occupies its unit.

job and type are places in `jobs` and `types`, unit is an id, state one of PENDING, ACTIVE, CLOSING. notice is the id of
its open notice, neither withdrawn nor executed; notice_reason a place in NOTICE_REASONS; answered: the agent has
replied to it, and it still stands.
"""

TABLE_ROW = record("type", "max_price", "keep_price", "accepted_at", "closed_until")
"""One row of a launch table as it stands; type is a place in `types`.

max_price NONE bids the cap; keep_price NONE means the same as max_price, and it counts as at least max_price.
closed_until: a running job does not seek this row before that instant, its cool-down after a failed upgrade.
"""

PENDING, ACTIVE, CLOSING = 0, 1, 2

NOTICE_REASONS = (*MARKET_REASONS, "budget", "host")
"""The market's own first, which planning may withdraw; the others planning only executes at their deadline."""

MARKET_REASONS_END = len(MARKET_REASONS)
"""Places in NOTICE_REASONS below this one are the market's own."""

TenureState = Literal["pending", "active", "closing"]
_STATES: dict[TenureState, int] = {"pending": PENDING, "active": ACTIVE, "closing": CLOSING}


@dataclass(frozen=True, slots=True, eq=False)
class Floor:
    """One cluster at the instant `now`; notice_us is how long a notice runs in it.

    types, units and jobs by id; tenures by job, then source, destination and closing ones; job i has the launch table
    rows[starts[i] : starts[i + 1]], in its order. Rows and tenures name types of this cluster only.

    A finished job need not be here while its lease still occupies a unit: a unit whose lease belongs to no job of the
    floor counts as one that is being left.
    Shapes: types (T,), units (U,), jobs (J,), tenures (L,), starts (J + 1,), rows (R,).
    """

    now: int
    notice_us: int
    types: Records
    units: Records
    jobs: Records
    tenures: Records
    starts: IntArray
    rows: Records

    @classmethod
    def of(
        cls,
        *,
        now: int,
        notice_us: int,
        types: "Iterable[TypeOffer]",
        units: "Iterable[Unit]",
        jobs: "Iterable[FloorJob]",
    ) -> "Floor":
        """Return the floor of these values. Rows of types that are not the cluster's are left out."""
        kinds = sorted(types, key=lambda kind: kind.id)
        place = {kind.id: number for number, kind in enumerate(kinds)}
        people = sorted(jobs, key=lambda job: job.id)
        tables = [[row for row in job.rows if row.type in place] for job in people]
        tenures: list[tuple[int, ...]] = []
        records = [_job_record(job, number, place, tenures) for number, job in enumerate(people)]
        return cls(
            now=now,
            notice_us=notice_us,
            types=np.array([(kind.id, kind.base, kind.cap) for kind in kinds], dtype=TYPE),
            units=np.array(
                [
                    (unit.id, place[unit.type], int(unit.usable), _or_none(unit.lease))
                    for unit in sorted(units, key=lambda unit: unit.id)
                ],
                dtype=UNIT,
            ),
            jobs=np.array(records, dtype=JOB),
            tenures=np.array(tenures, dtype=TENURE),
            starts=np.cumsum([0, *(len(table) for table in tables)], dtype=np.int64),
            rows=np.array([_row_record(row, place) for table in tables for row in table], dtype=TABLE_ROW),
        )


def _job_record(job: "FloorJob", number: int, place: dict[int, int], tenures: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return a job's record; its tenures are added to the others."""
    seats = []
    for tenure in (job.source, job.destination):
        seats.append(NONE if tenure is None else len(tenures))
        if tenure is not None:
            tenures.append(_tenure_record(tenure, number, place))
    tenures.extend(_tenure_record(tenure, number, place) for tenure in job.closing)
    award = (NONE, NONE, NONE) if job.award is None else (job.award.id, place[job.award.type], job.award.since)
    deadline = _or_none(job.seek_deadline)
    return (job.id, job.tenant, int(job.seeking), int(job.leaving), deadline, *seats, *award)


def _tenure_record(tenure: "Tenure", number: int, place: dict[int, int]) -> tuple[int, ...]:
    seat = (tenure.lease, number, tenure.unit, place[tenure.type], _STATES[tenure.state], tenure.since)
    notice = tenure.notice
    if notice is None:
        return (*seat, NONE, NONE, NONE, 0)
    return (*seat, notice.id, NOTICE_REASONS.index(notice.reason), notice.deadline, int(notice.answered))


def _row_record(row: "TableRow", place: dict[int, int]) -> tuple[int, ...]:
    return (place[row.type], _or_none(row.max_price), _or_none(row.keep_price), row.accepted_at, row.closed_until)


def _or_none(value: int | None) -> int:
    return NONE if value is None else value


# The same as values, for whoever writes a floor by hand


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

    reason: one of NOTICE_REASONS.
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
    """A job in the market, queued where it has no source and running where it has one.

    source: the unit it runs on (pending or active); destination: the unit it is moving to, only beside a source.
    rows: its launch table in order, with a row for every type it sits on.
    seeking: the rows above the one it runs on are awake (its upgrade setting, and not over its moves per hour).
    leaving: its agent said migrate and that has not happened yet.
    seek_deadline: the instant at which an unused destination is given back.
    closing: leases told to leave that still occupy their units.
    """

    id: int
    tenant: int
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
