"""The loop of a simulation: what happens, then every agent once, then the market until it has nothing more to do.

Time jumps from instant to instant: to the next arrival, failure, ready or released device, checkpoint, end, first
step, deadline of the engine, heartbeat, or reaction of an agent to what the market did.
"""

from collections.abc import Iterator

from laissez.sdk.policies import POLICIES
from markets.engine.deadlines import next_deadline
from markets.simulation import moves
from markets.simulation.agents import carry_out, context_of
from markets.simulation.market import Market
from markets.simulation.report import Recorder, Report
from markets.simulation.scenarios import Scenario
from markets.simulation.world import SimJob, World

ROUNDS_PER_INSTANT = 1000


def simulate(scenario: Scenario) -> Report:
    """Run a scenario to its end. RuntimeError if its market does not come to rest within one instant."""
    return Simulator(scenario).run()


class Simulator:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.recorder = Recorder(scenario)
        self.world = World(scenario)
        self.market = Market(self.world)
        self._arrivals = sorted(scenario.jobs, key=lambda spec: spec.submit_at)
        self._failures = sorted(scenario.failures, key=lambda failure: failure.at)
        self._reaction: int | None = None

    def run(self) -> Report:
        """Jump from instant to instant until every job is done, nothing can happen any more, or the horizon."""
        instant: int | None = 0
        while instant is not None and instant <= self.scenario.horizon:
            self._advance(instant)
            instant = self._next_instant()
        for lease in self.world.leases:
            lease.meter(self.world.now)
        return self.recorder.report(self.world)

    def _advance(self, instant: int) -> None:
        """Play one instant."""
        for lease in self.world.leases:
            lease.meter(instant)
        self.world.now = instant
        self._fail_and_recover()
        self._settle()
        self._work()
        self._settle()
        self._arrive()
        self._ask_agents()
        self._run_market()
        self.recorder.prices(self.world, self.market.clearing)

    def _fail_and_recover(self) -> None:
        """Units fail, their jobs fall back to the queue with their last checkpoint; or units are usable again."""
        while self._failures and self._failures[0].at <= self.world.now:
            failure = self._failures.pop(0)
            type_id = self.world.types[failure.type]
            unit = [unit for unit in self.world.units if unit.type == type_id][failure.unit]
            unit.usable = failure.usable
            for job in self.world.alive():
                if not unit.usable and job.source is not None and job.source.unit is unit:
                    moves.lose_source(self.world, job)

    def _settle(self) -> bool:
        """Let happen what is due of its own: releases, ready devices, first steps, moves decided for now."""
        changed = False
        for lease in [lease for lease in self.world.leases if lease.ended_at is None]:
            if lease.changes_at > self.world.now or lease.state == "active":
                continue
            changed = True
            if lease.state == "closing":
                self.world.end(lease)
                continue
            lease.activate(self.world.now)
            if lease is lease.job.source:
                moves.start_work(self.world, lease.job)
        for job in self.world.alive():
            changed |= moves.finish_overlap(self.world, job)
        return moves.move_those_ready(self.world) or changed

    def _work(self) -> None:
        """Jobs reach checkpoints and ends; those that wait for a checkpoint to move, move when the world settles."""
        for job in self.world.alive():
            mark = job.next_mark()
            if mark is None or job.source is None or mark[0] > self.world.now:
                continue
            job.reach(self.world.now, mark[1])
            if mark[1] == 1:
                self._complete(job)
                continue
            job.saved = mark[1]
            self.recorder.checkpoint(self.world, job, job.source)
            job.causes.add("checkpoint")

    def _complete(self, job: SimJob) -> None:
        job.done, job.finished_at = True, self.world.now
        for lease in (job.source, job.destination):
            if lease is not None:
                self.world.dismiss(lease)
        job.source = job.destination = job.award = job.works_from = None

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0].submit_at <= self.world.now:
            self.world.submit(self._arrivals.pop(0))

    def _ask_agents(self) -> None:
        """Ask every agent once, all of them with the exchange as it stood before this instant."""
        contexts = [(job, context_of(self.world, job, self.market.clearing)) for job in self.world.alive()]
        for job, context in contexts:
            job.causes.clear()
            carry_out(self.world, job, POLICIES[job.spec.policy](context, job.spec.params))
            self.recorder.bids(self.world, job)

    def _run_market(self) -> None:
        """Clear and act until nothing is left to do at this instant."""
        for _ in range(ROUNDS_PER_INSTANT):
            settled = self._settle()
            if not self.market.step() and not settled:
                break
        else:
            raise RuntimeError(f"{self.scenario.name}: no rest at microsecond {self.world.now}")
        events = any(job.causes for job in self.world.alive())
        self._reaction = self.world.now + self.scenario.timing.reaction_us if events else None

    def _next_instant(self) -> int | None:
        """Return when something happens next, if ever."""
        if not self._arrivals and not self.world.alive():
            return min((lease.changes_at for lease in self.world.leases if lease.ended_at is None), default=None)
        return min((instant for instant in self._instants() if instant > self.world.now), default=None)

    def _instants(self) -> Iterator[int]:
        now, timing = self.world.now, self.scenario.timing
        yield from (spec.submit_at for spec in self._arrivals[:1])
        yield from (failure.at for failure in self._failures[:1])
        yield from (lease.changes_at for lease in self.world.leases if lease.ended_at is None)
        for job in self.world.alive():
            mark = job.next_mark()
            if mark is not None:
                yield mark[0]
            if job.restoring_until is not None:
                yield job.restoring_until
        deadline = next_deadline(self.world.floor())
        if deadline is not None:
            yield deadline
        if self._reaction is not None:
            yield self._reaction
        if self.world.alive() and timing.heartbeat_us:
            yield (now // timing.heartbeat_us + 1) * timing.heartbeat_us
