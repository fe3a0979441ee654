"""The applier of a simulation: carries out on the world what the engine's plan asks for."""

from typing import assert_never

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
        """Clear, put the prices in force and apply the plan; return whether anything had to be done."""
        planned = plan(self.world.floor(), self.world.scenario.rule, self.clearing)
        self.clearing = planned.clearing
        payers = self.world.payers()
        prices = prices_paid(payers, planned.clearing).tolist()
        for lease_id, price in zip(payers.tenures["lease"].tolist(), prices, strict=True):
            self.world.leases[lease_id].price = price
        for action in planned.actions:
            self._apply(action, self.world.jobs[action.job])
        return bool(planned.actions)

    def _apply(self, action: Action, job: SimJob) -> None:
        match action:
            case OpenAward():
                self._open_award(job, action.type)
            case CloseAward():
                job.award = None
            case HandOver():
                self._hand_over(job, action.unit)
            case GiveNotice():
                self._give_notice(job, action)
            case WithdrawNotice():
                self._withdraw_notice(job)
            case ExecuteNotice():
                moves.leave_source(self.world, job)
            case ReturnDestination():
                moves.return_destination(self.world, job)
            case CoolDown():
                self._cool_down(job, action.type)
            case LapseMove():
                job.decided = None
            case _:
                assert_never(action)

    def _open_award(self, job: SimJob, type_id: int) -> None:
        job.award = WaitingAward(self.world.awards, type_id, self.world.now)
        job.causes.add("award")
        self.world.awards += 1

    def _hand_over(self, job: SimJob, unit_id: int) -> None:
        lease = self.world.open_lease(job, self.world.units[unit_id])
        job.award = None
        job.causes.add("hand_over")
        if job.source is None:
            job.source = lease
            return
        job.destination = lease
        if job.spec.seek_us is not None:
            job.seek_deadline = self.world.now + job.spec.seek_us

    def _give_notice(self, job: SimJob, action: GiveNotice) -> None:
        assert job.source is not None
        job.source.notice = OpenNotice(self.world.notices, action.reason, action.deadline)
        job.causes.add("notice")
        self.world.notices += 1

    def _withdraw_notice(self, job: SimJob) -> None:
        assert job.source is not None
        job.source.notice = None

    def _cool_down(self, job: SimJob, type_id: int) -> None:
        row = job.row(type_id)
        row.cool_down = cool_down(row.cool_down, first_us=self.world.scenario.timing.cool_down_us)
        row.closed_until = self.world.now + row.cool_down
