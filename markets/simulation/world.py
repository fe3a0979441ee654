"""Units, leases and jobs while a simulation runs, and the floor that the engine reads from them.

The only mutable state of a simulation. Who moves what: `simulator` carries out time and decisions, `market` the
engine's actions; both through the methods here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from laissez.sdk.contexts import Cause, Moment
from markets.engine.floor import (
    Floor,
    FloorJob,
    OpenNotice,
    TableRow,
    Tenure,
    TenureState,
    TypeOffer,
    Unit,
    WaitingAward,
)
from markets.engine.money import MICROSECONDS_PER_HOUR, integral
from markets.simulation.scenarios import JobSpec, Scenario


@dataclass(slots=True)
class SimUnit:
    """One accelerator."""

    id: int
    type: int
    usable: bool = True
    lease: int | None = None


@dataclass(slots=True)
class SimLease:
    """One lease, kept after its end. changes_at: when a pending one is ready, or a closing one is gone."""

    id: int
    job: "SimJob"
    unit: SimUnit
    type: int
    since: int
    changes_at: int
    state: TenureState = "pending"
    notice: OpenNotice | None = None
    active_from: int | None = None
    ended_at: int | None = None
    price: int = 0
    paid: int = 0
    paid_until: int = 0

    def tenure(self) -> Tenure:
        """Return what the engine sees of it."""
        return Tenure(self.id, self.unit.id, self.type, self.state, self.since, self.notice)

    def activate(self, now: int) -> None:
        """The device is ready: billing starts."""
        self.state, self.active_from, self.paid_until = "active", now, now

    def meter(self, now: int) -> None:
        """Add what the lease has paid since it was metered last, at the price in force since then."""
        if self.active_from is not None and self.ended_at is None:
            self.paid += integral(self.price, self.paid_until, now)
            self.paid_until = now


@dataclass(slots=True)
class SimRow:
    """One row of a launch table as it stands; cool_down: the length of its last one."""

    type: int
    max_price: int | None
    keep_price: int | None
    accepted_at: int
    closed_until: int = 0
    cool_down: int = 0


@dataclass(slots=True)
class SimJob:
    """One job.

    progress is what was done at `works_from`, the instant since when it computes (None: it does not); saved is its
    last checkpoint. decided: the moment of an agent's migrate decision that has not happened yet. restoring_until:
    with overlap, when the destination takes its first step. causes: what its agent has not been asked about yet.
    """

    id: int
    spec: JobSpec
    tenant: int
    rows: list[SimRow]
    done: bool = False
    source: SimLease | None = None
    destination: SimLease | None = None
    award: WaitingAward | None = None
    seek_deadline: int | None = None
    closing: list[SimLease] = field(default_factory=list)
    progress: Fraction = Fraction(0)
    saved: Fraction = Fraction(0)
    works_from: int | None = None
    decided: Moment | None = None
    restoring_until: int | None = None
    causes: set[Cause] = field(default_factory=set)
    finished_at: int | None = None

    def leases(self) -> list[SimLease]:
        """Return every lease that still occupies a unit."""
        own = [lease for lease in (self.source, self.destination) if lease is not None]
        return own + self.closing

    def row(self, type_id: int) -> SimRow:
        """Return the row of a type."""
        return next(row for row in self.rows if row.type == type_id)

    def floor_job(self) -> FloorJob:
        """Return what the engine sees of the job."""
        return FloorJob(
            id=self.id,
            tenant=self.tenant,
            rows=tuple(
                TableRow(row.type, row.max_price, row.keep_price, row.accepted_at, row.closed_until)
                for row in self.rows
            ),
            source=self.source.tenure() if self.source is not None else None,
            destination=self.destination.tenure() if self.destination is not None else None,
            award=self.award,
            seeking=self.spec.seeks,
            leaving=self.decided is not None,
            seek_deadline=self.seek_deadline,
            closing=tuple(lease.tenure() for lease in self.closing),
        )

    @property
    def moment(self) -> Moment:
        """When the job moves: as its agent decided, else as its upgrade setting says."""
        return self.decided or ("now" if self.spec.upgrade == "now" else "checkpoint")

    def progress_at(self, now: int) -> Fraction:
        """Return the share of the job done."""
        if self.works_from is None or self.source is None or now <= self.works_from:
            return self.progress
        return self.progress + (now - self.works_from) / self._microseconds()

    def at_checkpoint(self, now: int) -> bool:
        """Return whether leaving now would lose no work."""
        return self.progress_at(now) == self.saved

    def next_mark(self) -> tuple[int, Fraction] | None:
        """Return when the job reaches its next checkpoint or its end, and the share done then."""
        if self.works_from is None or self.source is None:
            return None
        target = Fraction(1)
        if self.spec.checkpoint_every is not None:
            every = self.spec.checkpoint_every
            target = min(target, (self.progress // every + 1) * every)
        return self.works_from + ceil((target - self.progress) * self._microseconds()), target

    def reach(self, now: int, share: Fraction) -> None:
        """Stand at exactly this share of the work now."""
        self.progress, self.works_from = share, now

    def pause(self, now: int) -> None:
        """Stop computing."""
        self.progress, self.works_from = self.progress_at(now), None

    def _microseconds(self) -> Fraction:
        """Return how long the whole job takes where it runs."""
        assert self.source is not None
        hours = {row.type: spec.hours for row, spec in zip(self.rows, self.spec.rows, strict=True)}
        return hours[self.source.type] * MICROSECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class SimMove:
    """A job left its source for its destination at this instant."""

    at: int
    job: SimJob
    source: SimLease
    destination: SimLease


class World:
    """A scenario in progress; types, jobs and units have small integers for ids, in the scenario's order."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.now = 0
        self.names = [spec.name for spec in scenario.types]
        self.types = {spec.name: type_id for type_id, spec in enumerate(scenario.types)}
        self.offers = tuple(TypeOffer(type_id, spec.base, spec.cap) for type_id, spec in enumerate(scenario.types))
        kinds = [type_id for type_id, spec in enumerate(scenario.types) for _ in range(spec.units)]
        self.units = [SimUnit(unit_id, type_id) for unit_id, type_id in enumerate(kinds)]
        self.jobs: list[SimJob] = []
        self.leases: list[SimLease] = []
        self.moves: list[SimMove] = []
        self.notices = 0
        self.awards = 0
        self._tenants: dict[str, int] = {}

    def submit(self, spec: JobSpec) -> SimJob:
        """Put a job into the queue."""
        tenant = self._tenants.setdefault(spec.tenant or spec.name, len(self._tenants))
        rows = [SimRow(self.types[row.type], row.max_price, row.keep_price, self.now) for row in spec.rows]
        job = SimJob(len(self.jobs), spec, tenant, rows, causes={"submitted"})
        self.jobs.append(job)
        return job

    def alive(self) -> list[SimJob]:
        """Return the jobs that are not done."""
        return [job for job in self.jobs if not job.done]

    def floor(self) -> Floor:
        """Return what the engine sees."""
        return self.floor_of(self.alive())

    def payers(self) -> Floor:
        """Return the floor with every job that has a lease which occupies a unit, those that are done among them."""
        return self.floor_of([job for job in self.jobs if job.leases()])

    def floor_of(self, jobs: Iterable[SimJob]) -> Floor:
        """Return the floor with these jobs alone."""
        return Floor.of(
            now=self.now,
            notice_us=self.scenario.timing.notice_us,
            types=self.offers,
            units=(Unit(unit.id, unit.type, unit.usable, unit.lease) for unit in self.units),
            jobs=(job.floor_job() for job in jobs),
        )

    def open_lease(self, job: SimJob, unit: SimUnit) -> SimLease:
        """Occupy a free unit."""
        ready_at = self.now + self.scenario.timing.activation_us
        lease = SimLease(len(self.leases), job, unit, unit.type, since=self.now, changes_at=ready_at)
        unit.lease = lease.id
        self.leases.append(lease)
        return lease

    def dismiss(self, lease: SimLease) -> None:
        """Tell a lease to leave; its unit is free after the release time, at once where that is zero."""
        lease.state, lease.notice = "closing", None
        lease.changes_at = self.now + self.scenario.timing.release_us
        lease.job.closing.append(lease)
        if lease.changes_at <= self.now:
            self.end(lease)

    def end(self, lease: SimLease) -> None:
        """The unit is free: billing has ended."""
        lease.meter(self.now)
        lease.ended_at = self.now
        lease.unit.lease = None
        lease.job.closing.remove(lease)
