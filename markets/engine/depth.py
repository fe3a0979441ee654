"""How deep the losing side of a book is, in a handful of counts that name nobody.

A row above the one a participant was assigned has lost, if it reached the base price. By the vcg rule, for which a
table has no order, only the rows of those who got nothing have lost: what a winner did not get it did not want more.
What winners bid on the rows that they won, and on those below, does not enter.
"""

from collections.abc import Mapping

import numpy as np

from markets.engine.book import NONE, Book, IntArray
from markets.engine.clearing import Clearing

EDGES_PERCENT = (1, 5, 10, 25)
"""A bucket ends this far below the public price; the last one has no end."""


def depth(clearing: Clearing) -> Mapping[int, tuple[int, ...]]:
    """Return how many bids lost at each type, by their distance from its public price.

    Five counts: within 1, 5, 10 and 25 % below it, and further below. A bid at the price, or above a posted one, is
    within 1 %.
    """
    places, bids = losing_bids(clearing)
    types = clearing.book.offers["type"].tolist()
    public = np.array([clearing.prices[type_id].public for type_id in types], dtype=np.int64)[places]
    buckets = np.zeros(len(bids), dtype=np.int64)
    for edge in EDGES_PERCENT:
        buckets += 100 * (public - bids) > edge * public
    kinds = len(EDGES_PERCENT) + 1
    counts = np.bincount(places * kinds + buckets, minlength=len(types) * kinds).reshape(len(types), kinds)
    return dict(zip(types, map(tuple, counts.tolist()), strict=True))


def losing_bids(clearing: Clearing) -> tuple[IntArray, IntArray]:
    """Return the place in book.offers and the counted bid of every row that lost, in the order of the book's rows."""
    book = clearing.book
    rows, offers = book.rows, book.offers
    counted = np.minimum(rows["bid"], offers["cap"][rows["offer"]])
    lost = above_assigned(book, clearing.assigned) & (counted >= offers["base"][rows["offer"]])
    if clearing.rule == "vcg":
        lost &= np.repeat(clearing.assigned == NONE, np.diff(book.starts))
    return rows["offer"][lost], counted[lost]


def above_assigned(book: Book, assigned: IntArray) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return for each row whether it stands above the one that its participant was assigned; all do if none was."""
    lengths = np.diff(book.starts)
    won = book.rows["offer"] == np.repeat(assigned, lengths)
    end = np.where(assigned == NONE, book.starts[1:], NONE)
    end[np.repeat(np.arange(len(assigned)), lengths)[won]] = np.flatnonzero(won)
    return np.arange(len(book.rows)) < np.repeat(end, lengths)
