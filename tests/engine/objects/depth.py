"""How deep the losing side of a book is, in a handful of counts that name nobody.

Pure and the same for every rule: a row above the one a participant was assigned has lost, if it reached the base price.
What winners bid on the rows that they won, and on those below, does not enter.
"""

from collections.abc import Mapping

from tests.engine.objects.book import Book
from tests.engine.objects.clearing import Clearing

EDGES_PERCENT = (1, 5, 10, 25)
"""A bucket ends this far below the public price; the last one has no end."""


def losing_bids(book: Book, clearing: Clearing) -> dict[int, tuple[int, ...]]:
    """Return the counted bids that lost at each offered type, the highest first."""
    offers = {offer.type: offer for offer in book.offers}
    lost: dict[int, list[int]] = {type_id: [] for type_id in offers}
    for participant in book.participants:
        assigned = clearing.assignment[participant.id]
        for row in participant.rows:
            if row.type == assigned:
                break
            offer = offers.get(row.type)
            if offer is not None and (counted := min(offer.cap, row.bid)) >= offer.base:
                lost[row.type].append(counted)
    return {type_id: tuple(sorted(bids, reverse=True)) for type_id, bids in lost.items()}


def depth(book: Book, clearing: Clearing) -> Mapping[int, tuple[int, ...]]:
    """Return how many bids lost at each type, by their distance from its public price.

    Five counts: within 1, 5, 10 and 25 % below it, and further below. A bid at the price, or above a posted one, is
    within 1 %.
    """
    return {
        type_id: _buckets(bids, clearing.prices[type_id].public)
        for type_id, bids in losing_bids(book, clearing).items()
    }


def _buckets(bids: tuple[int, ...], price: int) -> tuple[int, ...]:
    counts = [0] * (len(EDGES_PERCENT) + 1)
    for bid in bids:
        below = 100 * (price - bid)
        counts[sum(below > edge * price for edge in EDGES_PERCENT)] += 1
    return tuple(counts)
