"""How deep the losing side of a book is, in a handful of counts that name nobody.

A row above the one a participant was assigned has lost, if it reached the base price. By the vcg rule, for which a
table has no order, only the rows of those who got nothing have lost: what a winner did not get it did not want more.
What winners bid on the rows that they won, and on those below, does not enter.
"""

from collections.abc import Mapping

import numpy as np

from markets.engine.clearing import Clearing
from markets.engine.kernels.losses import losses
from markets.engine.kernels.tables import matrices_of, still

EDGES_PERCENT = (1, 5, 10, 25)
"""A bucket ends this far below the public price; the last one has no end."""


def depth(clearing: Clearing) -> Mapping[int, tuple[int, ...]]:
    """Return how many bids lost at each type, by their distance from its public price.

    Five counts: within 1, 5, 10 and 25 % below it, and further below. A bid at the price, or above a posted one, is
    within 1 %.
    """
    book, kinds = clearing.book, clearing.book.offers["type"].tolist()
    public = np.array([clearing.prices[kind].public for kind in kinds], dtype=np.int64)
    edges = np.outer(public, 100 - np.array(EDGES_PERCENT))
    counts = losses(matrices_of(book), still(clearing.assigned), still(edges), clearing.rule == "vcg")
    return dict(zip(kinds, map(tuple, counts.tolist()), strict=True))
