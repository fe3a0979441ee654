"""Where things stand in the tables of a floor: whole columns are looked up at once.

A launch table is a run of `rows` between two of `starts`, and a job is its place in `jobs`; so is everything else a
place, and NONE where there is nothing. Of two rows of one job the smaller place stands higher in its table.
"""

import numpy as np
from numpy.typing import NDArray

from markets.engine.book import NONE, IntArray, Records
from markets.engine.floor import Floor

BoolArray = NDArray[np.bool_]


def column(table: Records, name: str, places: IntArray) -> IntArray:
    """Return a field at these places of a table; NONE where the place is NONE."""
    if not len(table):
        return np.full(len(places), NONE)
    return np.where(places == NONE, NONE, table[name][places])


def offsets(counts: NDArray[np.int64 | np.bool_]) -> IntArray:
    """Return where each of some runs of these lengths begins, one after the other, and at last where all end."""
    found = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def spans(firsts: IntArray, counts: IntArray) -> IntArray:
    """Return that many places from each first one on, one run after the other."""
    places = np.repeat(firsts - offsets(counts)[:-1], counts)
    places += np.arange(len(places))
    return places


def rows_of(starts: IntArray, jobs: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of these jobs one after the other, and beside each which of `jobs` it is of, counted from 0."""
    counts = starts[jobs + 1] - starts[jobs]
    return spans(starts[jobs], counts), np.repeat(np.arange(len(jobs)), counts)


def rows_above(starts: IntArray, jobs: IntArray, held: IntArray) -> tuple[IntArray, IntArray]:
    """Return as `rows_of` does the rows above the one that each job holds; none of a job that holds NONE."""
    rows, owners = rows_of(starts, jobs)
    above = rows < held[owners]
    return rows[above], owners[above]


def row_for(starts: IntArray, rows: Records, jobs: IntArray, types: IntArray) -> IntArray:
    """Return the row that each of these jobs has for the type beside it; NONE where its table has no such row."""
    found = np.full(len(jobs), NONE)
    if not len(jobs):
        return found
    candidates, owners = rows_of(starts, jobs)
    hits = np.flatnonzero(rows["type"][candidates] == types[owners])
    found[owners[hits]] = candidates[hits]
    return found


def unit_of(floor: Floor, tenures: IntArray) -> IntArray:
    """Return the units of these tenures as places in `units`; NONE where there is no such unit."""
    wanted = floor.tenures["unit"][tenures]
    places = np.searchsorted(floor.units["id"], wanted)
    known = np.flatnonzero(places < len(floor.units))
    same = known[floor.units["id"][places[known]] == wanted[known]]
    found = np.full(len(tenures), NONE)
    found[same] = places[same]
    return found


def on_usable_unit(floor: Floor, tenures: IntArray) -> BoolArray:
    """Return for each of these tenures whether its unit counts."""
    usable: BoolArray = column(floor.units, "usable", unit_of(floor, tenures)) == 1
    return usable
