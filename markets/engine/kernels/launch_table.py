"""Deferred acceptance over heaps: everybody proposes down its table, every type keeps its best.

The state is the row that each participant has won so far, NONE if none, and one heap per type of the rows it keeps.
"""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.heaps import WORST, Heaps, heaps_with_room, push, swap_top
from markets.engine.kernels.tables import OFFER, SUPPLY, Tables, admitted, outranks


@compiled
def deferred_acceptance(tables: Tables) -> IntArray:
    """Return the row that each participant gets, or NONE."""
    kept = heaps_with_room(np.minimum(tables.asked, np.maximum(0, tables.offers[:, SUPPLY])))
    won = np.full(len(tables.participants), NONE)
    for one in range(len(tables.participants)):
        propose(tables, kept, won, one, tables.starts[one])
    return won


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
