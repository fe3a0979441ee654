"""Heaps of rows of one type each, side by side in one array, with the best or the worst row on top."""

from typing import NamedTuple

import numpy as np

from markets.engine.book import IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.tables import Tables, outranks

BEST, WORST = True, False


class Heaps(NamedTuple):
    """The heap of the type at place t is rows[firsts[t] : firsts[t] + sizes[t]], its top at firsts[t]."""

    firsts: IntArray
    rows: IntArray
    sizes: IntArray


@compiled
def heaps_with_room(room: IntArray) -> Heaps:
    """Return empty heaps with room for so many rows of each type."""
    firsts = np.zeros(len(room) + 1, np.int64)
    firsts[1:] = np.cumsum(room)
    return Heaps(firsts, np.empty(firsts[-1], np.int64), np.zeros(len(room), np.int64))


@innermost
def append(heaps: Heaps, place: int, row: int) -> None:
    """Add a row without regard to the order; `order` restores it."""
    heaps.rows[heaps.firsts[place] + heaps.sizes[place]] = row
    heaps.sizes[place] += 1


@innermost
def order_all(tables: Tables, heaps: Heaps, top: bool) -> None:
    """Make heaps of rows in any order."""
    for place in range(len(heaps.sizes)):
        order(tables, heaps, top, place)


@innermost
def order(tables: Tables, heaps: Heaps, top: bool, place: int) -> None:
    """Make a heap of one type's rows in any order."""
    first, size = heaps.firsts[place], heaps.sizes[place]
    for hole in range(size // 2 - 1, -1, -1):
        _sink(tables, heaps, top, first, size, hole, heaps.rows[first + hole])


@innermost
def push(tables: Tables, heaps: Heaps, top: bool, place: int, row: int) -> None:
    """Add a row."""
    first, hole = heaps.firsts[place], heaps.sizes[place]
    heaps.sizes[place] += 1
    while hole > 0:
        parent = (hole - 1) >> 1
        if outranks(tables, row, heaps.rows[first + parent]) != top:
            break
        heaps.rows[first + hole] = heaps.rows[first + parent]
        hole = parent
    heaps.rows[first + hole] = row


@innermost
def pop(tables: Tables, heaps: Heaps, top: bool, place: int) -> int:
    """Take the top row out and return it."""
    first, size = heaps.firsts[place], heaps.sizes[place] - 1
    row = int(heaps.rows[first])
    heaps.sizes[place] = size
    if size > 0:
        _sink(tables, heaps, top, first, size, 0, heaps.rows[first + size])
    return row


@innermost
def swap_top(tables: Tables, heaps: Heaps, top: bool, place: int, row: int) -> int:
    """Put a row in and take the former top out; return that."""
    first = heaps.firsts[place]
    former = int(heaps.rows[first])
    _sink(tables, heaps, top, first, heaps.sizes[place], 0, row)
    return former


@innermost
def _sink(tables: Tables, heaps: Heaps, top: bool, first: int, size: int, hole: int, row: int) -> None:
    """Fill the hole with the row, or move it down to where the row belongs."""
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and outranks(tables, heaps.rows[first + child + 1], heaps.rows[first + child]) == top:
            child += 1
        if outranks(tables, heaps.rows[first + child], row) != top:
            break
        heaps.rows[first + hole] = heaps.rows[first + child]
        hole = child
    heaps.rows[first + hole] = row
