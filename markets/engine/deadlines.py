"""What the passing of time alone does to a floor: seek deadlines, cool-downs, and when to look again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from markets.engine.actions import Action, CoolDown, ReturnDestination, ReturnReason
from markets.engine.book import NONE, IntArray
from markets.engine.floor import Floor
from markets.engine.places import BoolArray, column, on_usable_unit, row_for, rows_above

COOL_DOWN_US = 60_000_000


def next_deadline(floor: Floor) -> int | None:
    """Return the earliest instant at which `plan` would act although nothing else has changed, if there is one.

    It lies in the past when it is already due.
    """
    notices = column(floor.tenures, "notice_deadline", floor.jobs["source"])
    instants = np.concatenate((notices, _seek_deadlines(floor, _moving(floor)), _ends_of_cool_downs(floor)))
    ahead = instants[instants != NONE]
    return int(ahead.min()) if len(ahead) else None


def cool_down(previous_us: int, *, first_us: int = COOL_DOWN_US) -> int:
    """Return for how long a row is closed after its previous cool-down of that length (0: it never had one)."""
    return 2 * previous_us if previous_us else first_us


def without_spent_destinations(floor: Floor) -> tuple[Floor, tuple[Action, ...]]:
    """Return the floor as if destinations past their seek deadline or on unusable units were given back already."""
    moving = _moving(floor)
    lost, deadlines = ~on_usable_unit(floor, floor.jobs["destination"][moving]), _seek_deadlines(floor, moving)
    spent = np.flatnonzero(lost | ((deadlines != NONE) & (deadlines <= floor.now)))
    if not len(spent):
        return floor, ()
    reasons: list[ReturnReason] = ["lost" if is_lost else "seek_expired" for is_lost in lost[spent]]
    returned = tuple(give_back(floor, moving[spent], reasons))
    return _without_destinations(floor, moving[spent]), returned


def give_back(floor: Floor, jobs: IntArray, reasons: Sequence[ReturnReason]) -> Iterator[Action]:
    """Yield what gives the destinations of these jobs back, and closes the row of each that was an upgrade."""
    if not len(jobs):
        return
    destinations = floor.tenures[floor.jobs["destination"][jobs]]
    cooling = is_upgrade(floor, jobs, destinations["type"])
    types = floor.types["id"][destinations["type"]].tolist()
    leases, ids = destinations["lease"].tolist(), floor.jobs["id"][jobs].tolist()
    for lease, job, type_id, cools, reason in zip(leases, ids, types, cooling, reasons, strict=True):
        yield ReturnDestination(lease, job, reason)
        if cools:
            yield CoolDown(job, type_id)


def is_upgrade(floor: Floor, jobs: IntArray, types: IntArray) -> BoolArray:
    """Return for each of these jobs whether it runs and the type beside it stands above the one that it runs on.

    A type without a row counts as above all that have one.
    """
    on = column(floor.tenures, "type", floor.jobs["source"][jobs])
    wanted = row_for(floor.starts, floor.rows, jobs, types)
    above: BoolArray = (on != NONE) & (wanted < row_for(floor.starts, floor.rows, jobs, on))
    return above


def _without_destinations(floor: Floor, jobs: IntArray) -> Floor:
    """Return the floor with the destinations of these jobs on the way out and, for an upgrade, that row closed."""
    types = column(floor.tenures, "type", floor.jobs["destination"][jobs])
    upgrades = is_upgrade(floor, jobs, types)
    rows = row_for(floor.starts, floor.rows, jobs[upgrades], types[upgrades])
    present = replace(floor, jobs=floor.jobs.copy(), rows=floor.rows.copy())
    present.jobs["destination"][jobs] = present.jobs["seek_deadline"][jobs] = NONE
    present.rows["closed_until"][rows[rows != NONE]] = floor.now + 1
    return present


def _moving(floor: Floor) -> IntArray:
    return np.flatnonzero(floor.jobs["destination"] != NONE)


def _seek_deadlines(floor: Floor, moving: IntArray) -> IntArray:
    """Return when these jobs give their destinations back, NONE for never.

    While the source is under notice, that deadline decides instead.
    """
    notices = column(floor.tenures, "notice", floor.jobs["source"][moving])
    return np.where(notices == NONE, floor.jobs["seek_deadline"][moving], NONE)


def _ends_of_cool_downs(floor: Floor) -> IntArray:
    """Return the instants to come at which rows of seeking jobs wake."""
    jobs = floor.jobs
    seekers = np.flatnonzero((jobs["seeking"] == 1) & (jobs["source"] != NONE) & (jobs["destination"] == NONE))
    on = column(floor.tenures, "type", jobs["source"][seekers])
    above, _ = rows_above(floor.starts, seekers, row_for(floor.starts, floor.rows, seekers, on))
    ends: IntArray = floor.rows["closed_until"][above]
    return ends[ends > floor.now]
