"""The applier of a simulation: carries out on the world what the engine's plan asks for."""

from dataclasses import replace
from functools import singledispatchmethod

from markets.engine.actions import (
    Action,
    CloseAward,
    CoolDown,
    ExecuteNotice,
    GiveNotice,
    HandOver,
    LapseMove,
    OpenAward,
    ReturnDestination,
    WithdrawNotice,
)
from markets.engine.clearing import Clearing
from markets.engine.deadlines import cool_down
from markets.engine.dynamics import plan, prices_paid
from markets.engine.floor import OpenNotice, WaitingAward
from markets.simulation import moves
from markets.simulation.world import SimJob, World


class Market:
    """The price setter and the work scheduler of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clearing: Clearing | None = None

    def step(self) -> bool:
        """Clear, apply the plan and put the prices in force; return whether anything had to be done."""
        floor = self.world.floor()
        planned = plan(floor, self.world.scenario.rule)
        self.clearing = planned.clearing
        for lease_id, price in prices_paid(replace(floor, jobs=self.world.payers()), planned.clearing).items():
            self.world.leases[lease_id].price = price
        for action in planned.actions:
            self._apply(action)
        return bool(planned.actions)

    def _job(self, job_id: int) -> SimJob:
        return self.world.jobs[job_id]

    @singledispatchmethod
    def _apply(self, action: Action) -> None:
        raise TypeError(f"no way to apply {action!r}")

    @_apply.register
    def _(self, action: OpenAward) -> None:
        job = self._job(action.job)
        job.award = WaitingAward(self.world.awards, action.type, self.world.now)
        job.causes.add("award")
        self.world.awards += 1

    @_apply.register
    def _(self, action: CloseAward) -> None:
        self._job(action.job).award = None

    @_apply.register
    def _(self, action: HandOver) -> None:
        job = self._job(action.job)
        lease = self.world.open_lease(job, self.world.units[action.unit])
        job.award = None
        job.causes.add("hand_over")
        if job.source is None:
            job.source = lease
            return
        job.destination = lease
        if job.spec.seek_us is not None:
            job.seek_deadline = self.world.now + job.spec.seek_us

    @_apply.register
    def _(self, action: GiveNotice) -> None:
        job = self._job(action.job)
        if job.source is not None:
            job.source.notice = OpenNotice(self.world.notices, action.reason, action.deadline)
            job.causes.add("notice")
            self.world.notices += 1

    @_apply.register
    def _(self, action: WithdrawNotice) -> None:
        job = self._job(action.job)
        if job.source is not None:
            job.source.notice = None

    @_apply.register
    def _(self, action: ExecuteNotice) -> None:
        moves.leave_source(self.world, self._job(action.job))

    @_apply.register
    def _(self, action: ReturnDestination) -> None:
        moves.return_destination(self.world, self._job(action.job))

    @_apply.register
    def _(self, action: CoolDown) -> None:
        row = self._job(action.job).row(action.type)
        row.cool_down = cool_down(row.cool_down, first_us=self.world.scenario.timing.cool_down_us)
        row.closed_until = self.world.now + row.cool_down

    @_apply.register
    def _(self, action: LapseMove) -> None:
        self._job(action.job).decided = None
