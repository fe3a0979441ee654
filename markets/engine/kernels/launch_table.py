"""Deferred acceptance over heaps: everybody proposes down its table, every type keeps its best.

The state is the row that each participant has won so far, NONE if none, and one heap per type of the rows it keeps.
"""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.heaps import WORST, Heaps, heaps_with_room, pop, push, swap_top
from markets.engine.kernels.tables import OFFER, SUPPLY, Tables, admitted, outranks


@compiled
def deferred_acceptance(tables: Tables) -> IntArray:
    """Return the row that each participant gets, or NONE."""
    kept = empty_desks(rows_for(tables), tables.offers[:, SUPPLY])
    won = np.full(len(tables.participants), NONE)
    for one in range(len(tables.participants)):
        propose(tables, kept, won, one, tables.starts[one])
    return won


@compiled
def empty_desks(rows: IntArray, supply: IntArray) -> Heaps:
    """Return heaps with room for as many rows of each type as could be kept of so many."""
    return heaps_with_room(np.minimum(rows, np.maximum(0, supply)))


@compiled
def rows_for(tables: Tables) -> IntArray:
    """Return how many rows there are for each type."""
    count = np.zeros(len(tables.offers), np.int64)
    for row in range(len(tables.rows)):
        count[tables.rows[row, OFFER]] += 1
    return count


@innermost
def propose(tables: Tables, kept: Heaps, won: IntArray, one: int, row: int) -> None:
    """Propose from a row of its own on down, and let whoever is rejected by that go on, until nobody is."""
    while row < tables.starts[one + 1]:
        loser = consider(tables, kept, row) if admitted(tables, row) else row
        if loser != row:
            won[one] = row
            if loser == NONE:
                return
            one = tables.owners[loser]
            won[one] = NONE
        row = loser + 1


@innermost
def consider(tables: Tables, kept: Heaps, row: int) -> int:
    """Keep the proposal if there is room or it outranks the worst one kept; return the row rejected, or NONE."""
    place = tables.rows[row, OFFER]
    held = kept.sizes[place]
    if held < tables.offers[place, SUPPLY]:
        push(tables, kept, WORST, place, row)
        return NONE
    if held == 0 or outranks(tables, kept.rows[kept.firsts[place]], row):
        return row
    return swap_top(tables, kept, WORST, place, row)


@innermost
def shed(tables: Tables, kept: Heaps, won: IntArray) -> None:
    """Reject the worst of what types keep beyond their supply."""
    for place in range(len(tables.offers)):
        while kept.sizes[place] > max(0, tables.offers[place, SUPPLY]):
            row = pop(tables, kept, WORST, place)
            one = tables.owners[row]
            won[one] = NONE
            propose(tables, kept, won, one, row + 1)
