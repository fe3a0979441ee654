"""From the floor to the book, and from the clearing to what has to happen on the floor.

Pure and shared: the live scheduler calls `plan` on a snapshot read under the cluster's lock, the simulator on its own
memory with a virtual clock. Nothing is reserved: the whole book is cleared afresh, and awards and notices are the
differences between what the clearing says and who sits where.

`plan` is idempotent: applying it and planning again at the same instant asks only for what has become possible since.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from markets.engine.actions import (
    MARKET_REASONS,
    Action,
    CloseAward,
    CoolDown,
    ExecuteNotice,
    GiveNotice,
    HandOver,
    LapseMove,
    OpenAward,
    ReturnDestination,
    ReturnReason,
    WithdrawNotice,
)
from markets.engine.bidding import book_as_it_stands, own_bids, prices_paid
from markets.engine.book import NONE, Book, IntArray, Records, record
from markets.engine.clearing import BY_GAIN, RULES, Clearing
from markets.engine.deadlines import (
    COOL_DOWN_US,
    cool_down,
    give_back,
    next_deadline,
    without_spent_destinations,
)
from markets.engine.floor import ACTIVE, MARKET_REASONS_END, Floor
from markets.engine.places import BoolArray, column, row_for
from markets.engine.roles import Roles, is_source, roles_as_they_stand

__all__ = [
    "COOL_DOWN_US",
    "MARKET_REASONS",
    "Action",
    "CloseAward",
    "CoolDown",
    "ExecuteNotice",
    "GiveNotice",
    "HandOver",
    "LapseMove",
    "OpenAward",
    "Plan",
    "ReturnDestination",
    "WithdrawNotice",
    "book_of",
    "cool_down",
    "gives_source_back",
    "next_deadline",
    "plan",
    "prices_paid",
    "roles_of",
]

LEASES_PER_JOB = 2

# The fate of the unit that a job runs on: why the job loses it, a place in MARKET_REASONS, or one of these.
_OUTBID, _BELOW_BASE, _CLAIMED, _DRAINED = range(len(MARKET_REASONS))
_KEPT, _OUTGROWN = NONE, -2
"""It keeps the unit; it has won a better row."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A clearing of the whole book and the actions that bring the floor towards it, in the order to apply them.

    roles: what the floor's jobs are in that book besides their bids.
    """

    clearing: Clearing
    actions: tuple[Action, ...]
    roles: Roles

    @property
    def book(self) -> Book:
        """The book that was cleared."""
        return self.clearing.book


def book_of(floor: Floor) -> Book:
    """Return the book that the floor puts forward at this instant (MECHANISM section 2)."""
    present, _ = without_spent_destinations(floor)
    return book_as_it_stands(present, roles_as_they_stand(present))


def roles_of(floor: Floor) -> Roles:
    """Return what every job is in that book besides its bids."""
    return roles_as_they_stand(without_spent_destinations(floor)[0])


def plan(floor: Floor, rule: str = "launch_table", former: Clearing | None = None) -> Plan:
    """Clear the book by the named rule and say what has to happen (MECHANISM section 3).

    A former clearing of about the same book may save time; it never changes the plan.
    """
    present, returned = without_spent_destinations(floor)
    roles = roles_as_they_stand(present)
    clearing = RULES[rule](book_as_it_stands(present, roles), former)
    return Plan(clearing, (*returned, *_Planner(present, roles, clearing).actions()), roles)


def gives_source_back(floor: Floor) -> BoolArray:
    """Return for every job whether, at its moment (now or its next checkpoint, state saved), it leaves where it runs.

    It does when its destination is active. It does without one, for the queue and with its award, when its unit is
    claimed, or when it is under any notice and its agent has said migrate: so cycles of swaps dissolve.
    """
    jobs = floor.jobs
    ready = column(floor.tenures, "state", jobs["destination"]) == ACTIVE
    under_notice = column(floor.tenures, "notice", jobs["source"]) != NONE
    claimed = column(floor.tenures, "notice_reason", jobs["source"]) == _CLAIMED
    leaves = under_notice & ((jobs["leaving"] == 1) | (claimed & (jobs["destination"] == NONE)))
    gives: BoolArray = (jobs["source"] != NONE) & (ready | leaves)
    return gives


_WIN = record("type", "since", "job", "award", "has_room")
"""An award in line for a unit: type is a place, job and award are ids, award is NONE where this plan opens it."""


class _Planner:
    """One plan in the making, by job: what the clearing gives it, the fate of the unit it runs on, and what it wins.

    assigned: the type, for a job on two units at its destination. wins: that type where the job does not sit on it.
    held: the row of the unit it runs on, or NONE. Of the jobs in `running` only: sources, their tenures, the bids
    for them, and their fates.
    """

    def __init__(self, floor: Floor, roles: Roles, clearing: Clearing) -> None:
        self.floor = floor
        self.follows_tables = clearing.rule not in BY_GAIN
        self.assigned, at_source = _assigned(floor, clearing)
        self.running = np.flatnonzero(floor.jobs["source"] != NONE)
        seats = floor.jobs["source"][self.running]
        self.sources, self.bids = floor.tenures[seats], own_bids(floor, seats)
        self.held = np.full(len(floor.jobs), NONE)
        self.held[self.running] = row_for(floor.starts, floor.rows, self.running, self.sources["type"])
        self.fates = self._fates(at_source[self.running], roles.jobs["on"][self.running] != NONE)
        self.wins = np.where(floor.jobs["destination"] == NONE, self.assigned, NONE)
        self.wins[self.running[self.fates == _KEPT]] = NONE

    def actions(self) -> Iterator[Action]:
        """Yield destinations given back, awards, hand-overs, then notices."""
        gone, reasons = self._pointless()
        yield from give_back(self.floor, gone, reasons)
        yield from self._awards()
        line, free = self._line(), self._free_units()
        yield from self._hand_overs(line, free)
        kinds = len(self.floor.types)
        waiting = np.bincount(line["type"], minlength=kinds) - np.bincount(free["type"], minlength=kinds)
        yield from self._notices(waiting - self._leaving(gone))

    def _row_for(self, jobs: IntArray, types: IntArray) -> IntArray:
        return row_for(self.floor.starts, self.floor.rows, jobs, types)

    def _fates(self, assigned: IntArray, usable: BoolArray) -> IntArray:
        """Return what the clearing means for the units that jobs run on, from the types that it gives them there."""
        types = self.sources["type"]
        better = (assigned != NONE) & (self._row_for(self.running, assigned) < self.held[self.running])
        below_base = self.bids < self.floor.types["base"][types]
        fates: IntArray = np.select(
            [~usable, assigned == types, better, below_base], [_DRAINED, _KEPT, _OUTGROWN, _BELOW_BASE], _OUTBID
        )
        return fates

    def _pointless(self) -> tuple[IntArray, list[ReturnReason]]:
        """Return the jobs whose destination is lost, or was a fall-back that is not needed now, and which of both.

        Under a rule by gain no destination is a fall-back. A job on the move bids for its source alone there, and may
        keep it at a price at which, with all its bids, it would rather have the destination: it would come and go.
        """
        jobs = self.floor.jobs[self.running]
        moving = np.flatnonzero(jobs["destination"] != NONE)
        movers = self.running[moving]
        to = self.floor.tenures["type"][jobs["destination"][moving]]
        lost = self.assigned[movers] == NONE
        stays = (self.fates[moving] == _KEPT) & (jobs["leaving"][moving] == 0) & self.follows_tables
        unneeded = ~lost & stays & (self._row_for(movers, to) >= self.held[movers])
        gone = np.flatnonzero(lost | unneeded)
        return movers[gone], ["lost" if is_lost else "not_needed" for is_lost in lost[gone]]

    def _awards(self) -> Iterator[Action]:
        """Close the awards that the clearing does not repeat, open those that it makes."""
        award_types, types = self.floor.jobs["award_type"], self.floor.types["id"].tolist()
        changed = np.flatnonzero(award_types != self.wins)
        cooling = self._falls_short(changed).tolist()
        jobs = self.floor.jobs[["id", "award", "award_type"]][changed].tolist()
        for (job, award, award_type), win, cools in zip(jobs, self.wins[changed].tolist(), cooling, strict=True):
            if award != NONE:
                yield CloseAward(award, job)
            if cools:
                yield CoolDown(job, types[award_type])
            if win != NONE:
                yield OpenAward(job, types[win])

    def _falls_short(self, jobs: IntArray) -> BoolArray:
        """Return whether the award of each of these jobs was an upgrade and nothing as good takes its place."""
        awards, wins = self.floor.jobs["award_type"][jobs], self.wins[jobs]
        rank = self._row_for(jobs, awards)
        worse = (wins == NONE) | (self._row_for(jobs, wins) > rank)
        falls: BoolArray = (awards != NONE) & (rank < self.held[jobs]) & worse
        return falls

    def _line(self) -> Records:
        """Return the awards that wait, by type, then since when, then job."""
        jobs = self.floor.jobs
        winners = np.flatnonzero(self.wins != NONE)
        leases = np.bincount(self.floor.tenures["job"], minlength=len(jobs))
        line = np.empty(len(winners), dtype=_WIN)
        line["type"], line["job"] = self.wins[winners], jobs["id"][winners]
        repeated = jobs["award_type"][winners] == line["type"]
        line["since"] = np.where(repeated, jobs["award_since"][winners], self.floor.now)
        line["award"] = np.where(repeated, jobs["award"][winners], NONE)
        line["has_room"] = leases[winners] < LEASES_PER_JOB
        return line[np.lexsort((line["job"], line["since"], line["type"]))]

    def _free_units(self) -> Records:
        """Return the unoccupied usable units, by type, then id."""
        units = self.floor.units
        free = units[(units["usable"] == 1) & (units["lease"] == NONE)]
        by_type: Records = free[np.argsort(free["type"], kind="stable")]
        return by_type

    def _hand_overs(self, line: Records, free: Records) -> Iterator[Action]:
        """Give free units to the earliest awards of their type whose jobs have room for one more lease."""
        takers = line[line["has_room"] == 1]
        places = np.arange(len(takers)) - np.searchsorted(takers["type"], takers["type"])
        places += np.searchsorted(free["type"], takers["type"])
        served = np.flatnonzero(places < np.searchsorted(free["type"], takers["type"], side="right"))
        types = self.floor.types["id"][takers["type"][served]].tolist()
        units = free["id"][places[served]].tolist()
        who = takers[["job", "award"]][served].tolist()
        for (job, award), type_id, unit in zip(who, types, units, strict=True):
            yield HandOver(job, type_id, unit, None if award == NONE else award)

    def _leaving(self, gone: IntArray) -> IntArray:
        """Count by type the occupied units that become free whether or not anybody claims them.

        Whoever is not a source or a destination that stays is leaving, leases of finished jobs among them.
        """
        floor, units = self.floor, self.floor.units
        destinations = floor.jobs["destination"][np.setdiff1d(self.running, gone, assume_unique=True)]
        sitting = self.sources["lease"][(self.fates == _KEPT) | (self.fates == _OUTGROWN)]
        staying = np.concatenate((floor.tenures["lease"][destinations[destinations != NONE]], sitting))
        occupied = units[(units["usable"] == 1) & (units["lease"] != NONE)]
        return np.bincount(occupied["type"][~np.isin(occupied["lease"], staying)], minlength=len(floor.types))

    def _notices(self, needed: IntArray) -> Iterator[Action]:
        """Give, withdraw and execute notices; a wish to leave lapses where there is nothing to leave for.

        needed: how many more units of every type its waiting awards need than are free or leaving.
        """
        now, jobs, notice = self.floor.now, self.floor.jobs[self.running], self.sources["notice"]
        grounds = self._grounds(needed)
        lapses = (self.fates == _KEPT) & (jobs["leaving"] == 1) & (jobs["destination"] == NONE)
        gives = (notice == NONE) & (grounds != NONE)
        withdraws = (notice != NONE) & (grounds == NONE) & (self.sources["notice_reason"] < MARKET_REASONS_END)
        executes = (notice != NONE) & ~withdraws & (self.sources["notice_deadline"] <= now)
        changed = np.flatnonzero(lapses | gives | withdraws | executes)
        marks = zip(lapses[changed], gives[changed], withdraws[changed], executes[changed], strict=True)
        who = zip(jobs["id"][changed].tolist(), self.sources["lease"][changed].tolist(), strict=True)
        what = zip(grounds[changed].tolist(), notice[changed].tolist(), strict=True)
        for (lapse, give, withdraw, execute), (job, lease), (reason, number) in zip(marks, who, what, strict=True):
            if lapse:
                yield LapseMove(job)
            if give:
                yield GiveNotice(lease, job, MARKET_REASONS[reason], now + self.floor.notice_us)
            if withdraw:
                yield WithdrawNotice(number, lease, job)
            if execute:
                yield ExecuteNotice(number, lease, job)

    def _grounds(self, needed: IntArray) -> IntArray:
        """Return for what each job is to be under notice, a place in MARKET_REASONS, or NONE.

        Of the winners of a better row those whose units are needed are claimed: those already under notice come first,
        so that a notice does not wander, then the lowest bids.
        """
        outgrown = np.flatnonzero(self.fates == _OUTGROWN)
        leavers = self.sources[outgrown]
        order = np.lexsort((-leavers["job"], self.bids[outgrown], leavers["notice"] == NONE, leavers["type"]))
        types = leavers["type"][order]
        claimed = np.arange(len(order)) - np.searchsorted(types, types) < needed[types]
        grounds = self.fates.copy()
        grounds[outgrown] = NONE
        grounds[outgrown[order[claimed]]] = _CLAIMED
        return grounds


def _assigned(floor: Floor, clearing: Clearing) -> tuple[IntArray, IntArray]:
    """Return for every job the type that the clearing gives it, and the one it gives it for the unit it runs on.

    They differ for a job on two units, which the unit that it moves away from takes part beside.
    """
    people = clearing.book.participants
    beside = is_source(people)
    assigned = clearing.assigned[~beside]
    at_source = assigned.copy()
    at_source[np.searchsorted(floor.jobs["id"], people["job"][beside])] = clearing.assigned[beside]
    return assigned, at_source
