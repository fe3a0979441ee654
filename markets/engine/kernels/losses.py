"""How many bids lost at each type, by how far below its price they are."""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.tables import OFFER, Tables, value


@compiled
def losses(tables: Tables, assigned: IntArray, edges: IntArray, spares_winners: bool) -> IntArray:
    """Return (T, E + 1) how many rows above what their owners were assigned are below so many of the edges.

    edges (T, E): a hundred times the bids. spares_winners: whether only the rows of those who got nothing count.
    """
    counts = np.zeros((len(edges), edges.shape[1] + 1), np.int64)
    _count(tables, assigned, edges, spares_winners, counts)
    return counts


@innermost
def _count(tables: Tables, assigned: IntArray, edges: IntArray, spares_winners: bool, counts: IntArray) -> None:
    for one in range(len(assigned)):
        if spares_winners and assigned[one] != NONE:
            continue
        for row in range(tables.starts[one], tables.starts[one + 1]):
            place = tables.rows[row, OFFER]
            if place == assigned[one]:
                break
            bid = value(tables, row)
            if bid != NONE:
                below = 0
                for edge in range(edges.shape[1]):
                    below += 100 * bid < edges[place, edge]
                counts[place, below] += 1
