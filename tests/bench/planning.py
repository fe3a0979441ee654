"""Planning without the clearing: from the floor to the book, and from the clearing to the actions.

The market is at rest but for a few: of the types some are so dear that nobody takes them, all other units are held by
whoever won them, a tenth of the holders seek better rows, a hundredth are under notice, and one queued job in a
thousand has just raised its bids.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from unittest.mock import patch

import numpy as np

from markets.engine.book import NONE, Book, IntArray
from markets.engine.clearing import RULES, Clearing, clear
from markets.engine.dynamics import book_of, next_deadline, plan
from markets.engine.floor import ACTIVE, JOB, NOTICE_REASONS, TABLE_ROW, TENURE, TYPE, UNIT, Floor
from tests.bench.figures import Figure, Run

TYPES = 20
TAKEN = 0.6
ROWS_PER_JOB = 5
UNITS = 10_000
JOBS = (10_000, 100_000)
ROUNDS = 9
CHANGED = 0.01
BASE, CAP = 100_000, 100_000_000
DEAREST_BID = 5_000_000
SECOND = 1_000_000
NOW = 1_000_000_000 * SECOND


def figures(run: Run) -> Iterator[Figure]:
    """Yield how long planning takes beside the clearing, by number of jobs."""
    for jobs in JOBS:
        floor = at_rest(run.of(jobs), run.of(UNITS), np.random.default_rng(run.seed))
        planned = plan(floor)
        taken = [(_planning(floor), _sorting(planned.book), _waking(floor)) for _ in range(ROUNDS)]
        planning, sorting, waking = (1000 * median(column) for column in zip(*taken, strict=True))
        held = np.count_nonzero(floor.units["lease"] != NONE)
        counts = f"{len(floor.rows)} rows, {held} of {len(floor.units)} units held, {len(planned.actions)} actions"
        yield Figure(f"planning.{jobs}", planning, "ms", detail=f"{counts}; median of {ROUNDS}")
        yield Figure(f"planning.{jobs}.ratio", planning / sorting, "x", detail="of one lexsort of the book's rows")
        whole = 1000 * median(_replanning(floor, planned.clearing, np.random.default_rng(run.seed + 1)))
        detail = f"with its clearing from the former one, {CHANGED:.0%} of the bids changed; median of {ROUNDS}"
        yield Figure(f"planning.{jobs}.whole", whole, "ms", detail=detail)
        yield Figure(f"planning.{jobs}.next_deadline", waking, "ms", detail=f"median of {ROUNDS}")


def at_rest(jobs: int, units: int, chance: np.random.Generator) -> Floor:
    """Return a floor as the module says, of that many jobs and units."""
    floor = _seated(_queued(jobs, units, chance))
    running, tenures = np.flatnonzero(floor.jobs["source"] != NONE), floor.tenures
    floor.jobs["seeking"][running[chance.random(len(running)) < 0.1]] = 1
    warned = np.flatnonzero(chance.random(len(tenures)) < 0.01)
    tenures["notice"][warned] = warned
    tenures["notice_reason"][warned] = NOTICE_REASONS.index("budget")
    tenures["notice_deadline"][warned] = NOW + 30 * SECOND
    raising = np.repeat((floor.jobs["source"] == NONE) & (chance.random(jobs) < 0.001), ROWS_PER_JOB)
    floor.rows["max_price"][raising] *= 3
    floor.rows["accepted_at"][raising] = NOW
    return floor


def _queued(jobs: int, units: int, chance: np.random.Generator) -> Floor:
    types = np.zeros(TYPES, dtype=TYPE)
    types["id"], types["cap"] = np.arange(TYPES) + 1, CAP
    types["base"] = np.where(np.arange(TYPES) < TYPES * TAKEN, BASE, CAP)
    places = np.full(units, NONE, dtype=UNIT)
    places["id"], places["type"], places["usable"] = np.arange(units), np.arange(units) % TYPES, 1
    people = np.full(jobs, NONE, dtype=JOB)
    people["id"], people["tenant"] = np.arange(jobs) + 1, chance.integers(1, 1 + jobs // 10, jobs)
    people["seeking"] = people["leaving"] = 0
    rows = np.full(jobs * ROWS_PER_JOB, NONE, dtype=TABLE_ROW)
    rows["type"] = np.argsort(chance.random((jobs, TYPES)))[:, :ROWS_PER_JOB].ravel()
    rows["max_price"] = chance.integers(BASE, DEAREST_BID, len(rows))
    rows["accepted_at"] = NOW - chance.integers(0, 3600 * SECOND, len(rows))
    rows["closed_until"] = 0
    return Floor(
        now=NOW,
        notice_us=30 * SECOND,
        types=types,
        units=places,
        jobs=people,
        tenures=np.zeros(0, dtype=TENURE),
        starts=np.arange(0, len(rows) + 1, ROWS_PER_JOB),
        rows=rows,
    )


def _seated(queued: Floor) -> Floor:
    """Return the floor once every winner has its unit; the n-th unit is of type n modulo TYPES."""
    won = clear(book_of(queued)).assigned
    winners = np.flatnonzero(won != NONE)
    tenures = np.full(len(winners), NONE, dtype=TENURE)
    tenures["lease"], tenures["job"] = np.arange(len(winners)), winners
    tenures["type"], tenures["unit"] = won[winners], _ordinals(won[winners]) * TYPES + won[winners]
    tenures["state"], tenures["since"], tenures["notice_answered"] = ACTIVE, NOW, 0
    floor = replace(queued, tenures=tenures)
    floor.jobs["source"][winners] = np.arange(len(winners))
    floor.units["lease"][tenures["unit"]] = tenures["lease"]
    return floor


def _ordinals(values: IntArray) -> IntArray:
    """Return for each value how many equal ones stand before it."""
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.arange(len(values)) - np.searchsorted(values[order], values[order])
    return found


@dataclass
class _Timed:
    """A rule that notes for how long it took."""

    seconds: float = 0.0

    def __call__(self, book: Book, former: Clearing | None) -> Clearing:
        started = perf_counter()
        found = clear(book, former)
        self.seconds = perf_counter() - started
        return found


def _planning(floor: Floor) -> float:
    """Return how long a plan takes but for its clearing."""
    rule = _Timed()
    with patch.dict(RULES, {"timed": rule}):
        started = perf_counter()
        plan(floor, "timed")
        return perf_counter() - started - rule.seconds


def _replanning(floor: Floor, former: Clearing, chance: np.random.Generator) -> list[float]:
    """Return how long plans take, each from the former clearing, once so many bids have changed."""
    rows = floor.rows.copy()
    picked = chance.choice(len(rows), max(1, round(CHANGED * len(rows))), replace=False)
    rows["max_price"][picked] = chance.integers(BASE, DEAREST_BID, len(picked))
    rows["accepted_at"][picked] = NOW
    later, taken = replace(floor, rows=rows), []
    for _ in range(ROUNDS):
        started = perf_counter()
        plan(later, "launch_table", former)
        taken.append(perf_counter() - started)
    return taken


def _sorting(book: Book) -> float:
    """Return how long it takes to sort the rows of the book."""
    started = perf_counter()
    np.lexsort((book.rows["accepted_at"], book.rows["bid"], book.rows["offer"]))
    return perf_counter() - started


def _waking(floor: Floor) -> float:
    started = perf_counter()
    next_deadline(floor)
    return perf_counter() - started
