"""Random worlds for the dynamics: a floor that random events change and the engine's plans are applied to.

Independent of the project's simulator: it keeps nothing but a floor of values and replaces it, and every few plans the
engine has to say the same as the one on objects, which moves the world. A world first lives through arrivals,
departures, changing bids, failing units and slow hand-overs, and is then held still until it settles.
"""

from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from markets.engine import dynamics as dyn
from markets.engine.clearing_invariants import check_clearing, check_vcg
from markets.engine.floor import (
    FloorJob,
    OpenNotice,
    TableRow,
    Tenure,
    TypeOffer,
    Unit,
    WaitingAward,
)
from markets.engine.invariants import check_floor
from tests.engine.agreement import assert_same
from tests.engine.objects import dynamics as objects
from tests.engine.objects.floor import Floor

SECOND = 1_000_000
MOST_ROUNDS = 60
COMPARED_EVERY = 10
"""The engine on objects is the quicker one on small floors: it moves the world, the one on arrays is held to it."""


@dataclass
class World:
    chance: Random
    floor: Floor
    ids: count = field(default_factory=lambda: count(1))
    due: dict[int, int] = field(default_factory=dict)
    """When a pending lease becomes active or a closing one is gone."""
    moment: dict[int, int] = field(default_factory=dict)
    """When a job that may leave its source does so."""
    cool_downs: dict[tuple[int, int], int] = field(default_factory=dict)
    moves: int = 0
    rule: str = "launch_table"
    told: set[str] = field(default_factory=set)
    """Every reason for which a notice was given."""
    plans: int = 0

    def job(self, job_id: int) -> FloorJob:
        return next(job for job in self.floor.jobs if job.id == job_id)

    def change_job(self, job_id: int, **fields) -> None:
        jobs = tuple(replace(job, **fields) if job.id == job_id else job for job in self.floor.jobs)
        self.floor = replace(self.floor, jobs=jobs)

    def change_unit(self, unit_id: int, **fields) -> None:
        units = tuple(replace(unit, **fields) if unit.id == unit_id else unit for unit in self.floor.units)
        self.floor = replace(self.floor, units=units)

    # The market

    def run_market(self) -> int:
        """Plan and apply until nothing is left to do at this instant; return how many rounds that took."""
        for rounds in range(MOST_ROUNDS):
            self.plans += 1
            planned = self.planned_by_gain() if self.rule == "vcg" else objects.plan(self.floor, self.rule)
            if self.rule != "vcg" and self.plans % COMPARED_EVERY == 0:
                self.compare()
            if not planned.actions:
                self.check_payments(objects.prices_paid(self.floor, planned.clearing))
                deadline = objects.next_deadline(self.floor)
                assert deadline is None or deadline > self.floor.now
                return rounds
            for action in planned.actions:
                self.apply(action)
        raise AssertionError(f"no rest within {MOST_ROUNDS} rounds: {planned.actions}")

    def planned_by_gain(self) -> dyn.Plan:
        """The plan by vcg, which the engine on objects does not know."""
        floor = self.floor.arrays()
        planned = dyn.plan(floor, self.rule)
        assert check_vcg(planned.book, planned.clearing) == []
        if not planned.actions:
            assert check_floor(floor) == []
        return planned

    def compare(self) -> None:
        """Have the engine on arrays say of this floor what the engine on objects says of it."""
        planned = assert_same(self.floor, self.rule)
        if self.rule == "launch_table":
            assert check_clearing(planned.book, planned.clearing) == []
        if not planned.actions:
            assert check_floor(self.floor.arrays()) == []

    def check_payments(self, paid: dict[int, int]) -> None:
        caps = {offer.id: offer.cap for offer in self.floor.types}
        for job in self.floor.jobs:
            for tenure in (job.source, job.destination, *job.closing):
                if tenure is not None:
                    row = next(row for row in job.rows if row.type == tenure.type)
                    stated = row.max_price if row.keep_price is None else row.keep_price
                    assert paid[tenure.lease] <= (caps[tenure.type] if stated is None else stated)

    def apply(self, action: dyn.Action) -> None:
        now = self.floor.now
        match action:
            case dyn.OpenAward(job_id, type_id):
                assert self.job(job_id).award is None
                self.change_job(job_id, award=WaitingAward(next(self.ids), type_id, now))
            case dyn.CloseAward(award, job_id):
                assert self.job(job_id).award.id == award
                self.change_job(job_id, award=None)
            case dyn.HandOver(job_id, type_id, unit_id, _):
                self.hand_over(self.job(job_id), type_id, unit_id)
            case dyn.GiveNotice(lease, job_id, reason, deadline):
                source = self.job(job_id).source
                assert source.lease == lease
                assert source.notice is None
                self.told.add(reason)
                notice = OpenNotice(next(self.ids), reason, deadline)
                self.change_job(job_id, source=replace(source, notice=notice))
            case dyn.WithdrawNotice(_, _, job_id):
                self.change_job(job_id, source=replace(self.job(job_id).source, notice=None))
            case dyn.ExecuteNotice(_, lease, job_id):
                assert self.job(job_id).source.lease == lease
                self.leave(self.job(job_id))
            case dyn.ReturnDestination(lease, job_id, _):
                job = self.job(job_id)
                assert job.destination.lease == lease
                self.change_job(
                    job_id,
                    destination=None,
                    seek_deadline=None,
                    leaving=False,
                    closing=self.closing(job, job.destination),
                )
                self.release(job.destination)
            case dyn.CoolDown(job_id, type_id):
                length = dyn.cool_down(self.cool_downs.get((job_id, type_id), 0))
                self.cool_downs[job_id, type_id] = length
                rows = tuple(
                    replace(row, closed_until=now + length) if row.type == type_id else row
                    for row in self.job(job_id).rows
                )
                self.change_job(job_id, rows=rows)
            case dyn.LapseMove(job_id):
                self.change_job(job_id, leaving=False)
            case _:
                raise AssertionError(action)

    def hand_over(self, job: FloorJob, type_id: int, unit_id: int) -> None:
        unit = next(unit for unit in self.floor.units if unit.id == unit_id)
        assert unit.usable
        assert unit.lease is None
        assert unit.type == type_id
        assert job.award.type == type_id
        lease = Tenure(next(self.ids), unit_id, type_id, "pending", self.floor.now)
        self.change_unit(unit_id, lease=lease.lease)
        self.due[lease.lease] = self.floor.now + self.chance.choice((0, 0, 3, 20)) * SECOND
        if job.source is None:
            self.change_job(job.id, source=lease, award=None)
        else:
            seek = self.chance.choice((None, self.floor.now + 15 * SECOND, self.floor.now + 200 * SECOND))
            self.change_job(job.id, destination=lease, award=None, seek_deadline=seek)

    def closing(self, job: FloorJob, tenure: Tenure) -> tuple[Tenure, ...]:
        return (*job.closing, replace(tenure, state="closing", notice=None))

    def release(self, tenure: Tenure) -> None:
        self.due[tenure.lease] = self.floor.now + self.chance.choice((0, 0, 2, 10)) * SECOND

    def leave(self, job: FloorJob) -> None:
        """The job leaves its source for its destination or for the queue."""
        self.moment.pop(job.id, None)
        if job.destination is not None:
            self.moves += 1
            self.cool_downs = {key: length for key, length in self.cool_downs.items() if key[0] != job.id}
        self.change_job(
            job.id,
            source=job.destination,
            destination=None,
            leaving=False,
            seek_deadline=None,
            closing=self.closing(job, job.source),
        )
        self.release(job.source)

    # What happens by itself

    def happen(self) -> bool:
        """Let happen what is due now; return whether anything did."""
        happened = False
        for job in self.floor.jobs:
            for tenure in (job.source, job.destination, *job.closing):
                if tenure is not None and self.due.get(tenure.lease, self.floor.now + 1) <= self.floor.now:
                    self.arrive(job.id, tenure)
                    happened = True
        for job in self.floor.jobs:
            if objects.gives_source_back(job):
                moment = self.moment.setdefault(job.id, self.floor.now + self.chance.choice((0, 5, 25, 60)) * SECOND)
                if moment <= self.floor.now:
                    self.leave(job)
                    happened = True
        return happened

    def arrive(self, job_id: int, tenure: Tenure) -> None:
        """A pending lease is ready, or a closing one is gone."""
        del self.due[tenure.lease]
        job = self.job(job_id)
        if tenure in job.closing:
            self.change_job(job_id, closing=tuple(other for other in job.closing if other != tenure))
            self.change_unit(tenure.unit, lease=None)
        elif job.source is not None and job.source.lease == tenure.lease:
            self.change_job(job_id, source=replace(job.source, state="active"))
        else:
            self.change_job(job_id, destination=replace(job.destination, state="active"))

    def advance(self, now: int) -> None:
        self.floor = replace(self.floor, now=now)
        for _ in range(MOST_ROUNDS):
            happened = self.happen()
            if not self.run_market() and not happened:
                return
        raise AssertionError("no rest at one instant")

    def next_event(self) -> int | None:
        instants = [*self.due.values(), *self.moment.values()]
        deadline = objects.next_deadline(self.floor)
        if deadline is not None:
            instants.append(deadline)
        return min((instant for instant in instants if instant > self.floor.now), default=None)

    # What happens by chance

    def shake(self) -> None:
        """One random event."""
        often, seldom = (self.submit, self.rebid), (self.depart, self.fail, self.recover, self.recover, self.migrate)
        self.chance.choice((*often * 3, *seldom))()

    def submit(self) -> None:
        if len(self.floor.jobs) < 9:
            job = random_job(self.chance, next(self.ids), self.floor)
            self.floor = replace(self.floor, jobs=(*self.floor.jobs, job))

    def rebid(self) -> None:
        if self.floor.jobs:
            job = self.chance.choice(self.floor.jobs)
            place = self.chance.randrange(len(job.rows))
            fresh = random_row(self.chance, job.rows[place].type, self.floor)
            fresh = replace(fresh, closed_until=job.rows[place].closed_until)
            self.change_job(job.id, rows=(*job.rows[:place], fresh, *job.rows[place + 1 :]))

    def depart(self) -> None:
        """A job ends; its leases are closing for a while but belong to no job of the floor any more."""
        if self.floor.jobs:
            job = self.chance.choice(self.floor.jobs)
            for tenure in (job.source, job.destination, *job.closing):
                if tenure is not None:
                    self.due.pop(tenure.lease, None)
                    self.change_unit(tenure.unit, lease=None)
            self.moment.pop(job.id, None)
            self.floor = replace(self.floor, jobs=tuple(other for other in self.floor.jobs if other != job))

    def fail(self) -> None:
        """A unit fails: a job that ran on it is queued at once, or it is only draining and the job gets a notice."""
        unit = self.chance.choice(self.floor.units)
        self.change_unit(unit.id, usable=False)
        for job in self.floor.jobs:
            if job.source is not None and job.source.unit == unit.id and self.chance.random() < 0.5:
                self.leave(job)

    def recover(self) -> None:
        self.change_unit(self.chance.choice(self.floor.units).id, usable=True)

    def migrate(self) -> None:
        """An agent says migrate."""
        running = [job for job in self.floor.jobs if job.source is not None]
        if running:
            self.change_job(self.chance.choice(running).id, leaving=True)

    # Standing still

    def settle(self, most_events: int = 3000) -> None:
        """Hold bids, jobs and units still until nothing happens any more."""
        self.advance(self.floor.now)
        for _ in range(most_events):
            instant = self.next_event()
            if instant is None:
                return
            self.advance(instant)
        raise AssertionError("a static world does not settle")

    def envious(self) -> list[str]:
        """Return who would rather have an awake row above its place than pay nothing more than its price."""
        planned = objects.plan(self.floor)
        book, clearing = planned.book, planned.clearing
        sentences = []
        for one in book.participants:
            job = self.job(one.job)
            place = job.source.type if job.source is not None else None
            for row in one.rows:
                if row.type == place:
                    break
                offer = next(offer for offer in book.offers if offer.type == row.type)
                bid = min(row.bid, offer.cap)
                if bid >= offer.base and bid > clearing.prices[row.type].public:
                    sentences.append(f"job {job.id} on {place} envies {row.type} at {bid}")
        return sentences


def random_world(seed: int) -> World:
    chance = Random(seed)
    types = tuple(
        TypeOffer(type_id, base := chance.randint(1, 6), base + chance.randint(2, 14))
        for type_id in range(chance.randint(1, 4))
    )
    kinds = [offer.id for offer in types for _ in range(chance.randint(1, 2))]
    units = tuple(Unit(number, type_id, usable=True) for number, type_id in enumerate(kinds))
    return World(chance, Floor(0, chance.choice((0, 30)) * SECOND, types, units, ()))


def random_job(chance: Random, job_id: int, floor: Floor) -> FloorJob:
    order = chance.sample([offer.id for offer in floor.types], chance.randint(1, len(floor.types)))
    rows = tuple(random_row(chance, type_id, floor) for type_id in order)
    return FloorJob(job_id, chance.randint(1, 3), rows, seeking=chance.random() < 0.8)


def random_row(chance: Random, type_id: int, floor: Floor) -> TableRow:
    price = None if chance.random() < 0.1 else chance.randint(1, 20)
    keep = None if price is None or chance.random() < 0.5 else price + chance.randint(0, 5)
    return TableRow(type_id, price, keep, floor.now)


def live(seed: int, *, events: int = 25, rule: str = "launch_table") -> World:
    """Return a world after its random life, still shaking."""
    world = random_world(seed)
    world.rule = rule
    for _ in range(events):
        world.shake()
        world.advance(world.floor.now + world.chance.choice((0, 1, 7, 40)) * SECOND)
    return world
