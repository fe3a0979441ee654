"""Deferred acceptance over heaps: everybody proposes down its table, every type keeps its best."""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled
from markets.engine.kernels.tables import OFFER, SUPPLY, Tables, admitted, outranks


class Desks(NamedTuple):
    """What every type has kept so far: the rows kept[firsts[t] : firsts[t] + held[t]], a heap with the worst first."""

    firsts: IntArray
    kept: IntArray
    held: IntArray


@compiled
def deferred_acceptance(tables: Tables) -> IntArray:
    """Return the offer that each participant gets, or NONE."""
    desks = empty_desks(tables)
    assigned = np.full(len(tables.participants), NONE)
    for one in range(len(tables.participants)):
        propose(tables, desks, assigned, one, tables.starts[one])
    return assigned


@compiled
def empty_desks(tables: Tables) -> Desks:
    """Return desks with room for as many rows as could be kept."""
    room = np.zeros(len(tables.offers) + 1, np.int64)
    for row in range(len(tables.rows)):
        room[tables.rows[row, OFFER] + 1] += 1
    for place in range(len(tables.offers)):
        room[place + 1] = room[place] + min(room[place + 1], max(0, tables.offers[place, SUPPLY]))
    return Desks(room[:-1], np.empty(room[-1], np.int64), np.zeros(len(tables.offers), np.int64))


@compiled
def propose(tables: Tables, desks: Desks, assigned: IntArray, one: int, row: int) -> None:
    """Propose from a row of its own on down, and let whoever is rejected by that go on, until nobody is."""
    while row < tables.starts[one + 1]:
        loser = row
        if admitted(tables, row):
            loser = consider(tables, desks, row)
            if loser != row:
                assigned[one] = tables.rows[row, OFFER]
            if loser == NONE:
                return
        if loser != row:
            one = tables.owners[loser]
            assigned[one] = NONE
        row = loser + 1


@compiled
def consider(tables: Tables, desks: Desks, row: int) -> int:
    """Keep the proposal if there is room or it outranks the worst one kept; return the row rejected, or NONE."""
    place = tables.rows[row, OFFER]
    first, held = desks.firsts[place], desks.held[place]
    if held < tables.offers[place, SUPPLY]:
        rise(tables, desks.kept, first, held, row)
        desks.held[place] = held + 1
        return NONE
    if held == 0 or outranks(tables, desks.kept[first], row):
        return row
    worst = int(desks.kept[first])
    sink(tables, desks.kept, first, held, 0, row)
    return worst


@compiled
def rise(tables: Tables, heap: IntArray, first: int, hole: int, row: int) -> None:
    """Put a row in at the end of a heap whose worst row is at `first`."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if outranks(tables, row, heap[first + parent]):
            break
        heap[first + hole] = heap[first + parent]
        hole = parent
    heap[first + hole] = row


@compiled
def sink(tables: Tables, heap: IntArray, first: int, size: int, hole: int, row: int) -> None:
    """Put a row into the hole of a heap of this size whose worst row is at `first`."""
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and outranks(tables, heap[first + child], heap[first + child + 1]):
            child += 1
        if outranks(tables, heap[first + child], row):
            break
        heap[first + hole] = heap[first + child]
        hole = child
    heap[first + hole] = row
