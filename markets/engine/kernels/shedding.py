"""Deferred acceptance that goes on from types which keep more than their supply, where few are rejected.

Of what a type keeps only the rows with a low standing are in a heap, the others are counted. Should they be asked for,
the heaps are made anew with everything in them.
"""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.heaps import WORST, Heaps, append, heaps_with_room, order_all, pop, push
from markets.engine.kernels.tables import OFFER, SUPPLY, Tables, admitted, outranks


class Kept(NamedTuple):
    """What types keep. low: the rows up to these standings, the worst on top. bounds (T,): the standings.

    above (T,): how many more there are.
    """

    low: Heaps
    bounds: IntArray
    above: IntArray


@compiled
def shed(tables: Tables, won: IntArray, given: IntArray, bounds: IntArray) -> None:
    """Reject the worst of what types keep beyond their supply, and let whoever is rejected propose further down.

    won (P,): the row that each participant was given, or NONE. given (T,): how many that are. bounds (T,): any
    standings; the fewer rows are up to them, the faster, as long as no type has to look beyond.
    """
    room = np.maximum(given, np.minimum(tables.asked, tables.offers[:, SUPPLY]))
    kept = Kept(heaps_with_room(room), bounds.copy(), np.zeros(len(given), np.int64))
    _lay_out(tables, won, kept)
    _shed(tables, won, kept)


@innermost
def _lay_out(tables: Tables, won: IntArray, kept: Kept) -> None:
    for place in range(len(kept.bounds)):
        kept.low.sizes[place] = kept.above[place] = 0
    for one in range(len(won)):
        row = won[one]
        if row != NONE:
            place = tables.rows[row, OFFER]
            if tables.standings[row] <= kept.bounds[place]:
                append(kept.low, place, row)
            else:
                kept.above[place] += 1
    order_all(tables, kept.low, WORST)


@innermost
def _shed(tables: Tables, won: IntArray, kept: Kept) -> None:
    for place in range(len(kept.bounds)):
        while kept.low.sizes[place] + kept.above[place] > max(0, tables.offers[place, SUPPLY]):
            row = _worst(tables, won, kept, place)
            pop(tables, kept.low, WORST, place)
            _propose_below(tables, won, kept, row)


@innermost
def _worst(tables: Tables, won: IntArray, kept: Kept, place: int) -> int:
    """Return the worst row of a type that keeps some."""
    if kept.low.sizes[place] == 0:
        for row in won:
            if row != NONE:
                other = tables.rows[row, OFFER]
                kept.bounds[other] = max(kept.bounds[other], tables.standings[row])
        _lay_out(tables, won, kept)
    return int(kept.low.rows[kept.low.firsts[place]])


@innermost
def _propose_below(tables: Tables, won: IntArray, kept: Kept, row: int) -> None:
    """Let the owner of a rejected row propose to those below it, and whoever is rejected by that, until nobody is."""
    one = tables.owners[row]
    won[one] = NONE
    row += 1
    while row < tables.starts[one + 1]:
        loser = _consider(tables, won, kept, row) if admitted(tables, row) else row
        if loser != row:
            won[one] = row
            if loser == NONE:
                return
            one = tables.owners[loser]
            won[one] = NONE
        row = loser + 1


@innermost
def _consider(tables: Tables, won: IntArray, kept: Kept, row: int) -> int:
    """Keep the proposal if there is room or it outranks the worst one kept; return the row rejected, or NONE."""
    place = tables.rows[row, OFFER]
    count, loser = kept.low.sizes[place] + kept.above[place], NONE
    if count >= tables.offers[place, SUPPLY]:
        loser = _worst(tables, won, kept, place) if count > 0 else row
        if loser == row or outranks(tables, loser, row):
            return row
        pop(tables, kept.low, WORST, place)
    if tables.standings[row] <= kept.bounds[place]:
        push(tables, kept.low, WORST, place, row)
    else:
        kept.above[place] += 1
    return int(loser)
