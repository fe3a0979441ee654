"""One pass over the queue: nobody is evicted, and free units go to whoever asked first."""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled
from markets.engine.kernels.tables import ACCEPTED_AT, HOLDS, OFFER, SUPPLY, WAITS, Tables, admitted


@compiled
def arrivals(tables: Tables) -> IntArray:
    """Return the instant of each participant's earliest bid, 0 where it has none."""
    earliest = np.zeros(len(tables.participants), np.int64)
    for one in range(len(tables.participants)):
        for row in range(tables.starts[one], tables.starts[one + 1]):
            since = tables.rows[row, ACCEPTED_AT]
            if row == tables.starts[one] or since < earliest[one]:
                earliest[one] = since
    return earliest


@compiled
def first_come(tables: Tables, queue: IntArray) -> IntArray:
    """Return the offer that each participant gets, or NONE; queue: the participants' places, first come first."""
    free = tables.offers[:, SUPPLY].copy()
    assigned = np.full(len(tables.participants), NONE)
    for waits in range(2):
        for one in queue:
            place = tables.participants[one, HOLDS]
            if tables.participants[one, WAITS] == waits and place != NONE and free[place] > 0:
                free[place] -= 1
                assigned[one] = place
    for one in queue:
        own = assigned[one]
        for row in range(tables.starts[one], tables.starts[one + 1]):
            place = tables.rows[row, OFFER]
            if place == own:
                break
            if admitted(tables, row) and free[place] > 0:
                free[place] -= 1
                if own != NONE:
                    free[own] += 1
                assigned[one] = place
                break
    return assigned


@compiled
def passed_over(tables: Tables, assigned: IntArray) -> IntArray:
    """Return (T, 2) how many participants got each offer, and how many rows for it stand above what their owner got."""
    counts = np.zeros((len(tables.offers), 2), np.int64)
    for one in range(len(assigned)):
        if assigned[one] != NONE:
            counts[assigned[one], 0] += 1
        for row in range(tables.starts[one], tables.starts[one + 1]):
            if tables.rows[row, OFFER] == assigned[one]:
                break
            counts[tables.rows[row, OFFER], 1] += 1
    return counts
