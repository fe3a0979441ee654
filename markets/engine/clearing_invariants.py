"""What must hold of a clearing, checked without trusting whoever made it.

Each check returns sentences, one per violation; an empty list is a clean bill.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from markets.engine.book import NONE, Book, IntArray
from markets.engine.clearing import Clearing

Flags = NDArray[np.bool_]
NOWHERE = -(2**62)


class _Rows(NamedTuple):
    """Per row: the place of its offer, of its participant, its counted bid, whether that counts, and whether it won."""

    offer: IntArray
    owner: IntArray
    bid: IntArray
    counts: Flags
    won: Flags


def check_clearing(book: Book, clearing: Clearing) -> list[str]:
    """Return what is wrong with a clearing by the launch-table rule (MECHANISM section 1)."""
    rows = _rows(book, clearing)
    public, lease = _prices(book, clearing)
    rejected = above_assigned(book, clearing.assigned) & rows.counts
    return [
        *_seats(book, clearing),
        *_winners(book, clearing, rows, public),
        *_envy(book, rows, rejected & (rows.bid > public[rows.offer]), "where it bids {bid} above the price"),
        *_rejections(book, clearing, rows, rejected, public, lease),
        *_order_of_prices(book, public, lease),
    ]


def check_vcg(book: Book, clearing: Clearing) -> list[str]:
    """Return what is wrong with a clearing by the vcg rule: whether its prices support it (MECHANISM section 4).

    Prices at which everybody has what it gains most by, and which are at the base where units are left, belong to an
    assignment of the highest value; whether they are the lowest is not seen here.
    """
    rows = _rows(book, clearing)
    public, lease = _prices(book, clearing)
    gain = np.zeros(len(book.participants), dtype=np.int64)
    gain[rows.owner[rows.won]] = (rows.bid - public[rows.offer])[rows.won]
    better = rows.counts & (rows.bid - public[rows.offer] > gain[rows.owner])
    return [
        *_seats(book, clearing),
        *_winners(book, clearing, rows, public),
        *_envy(book, rows, better, "by which it gains more than by what it got"),
        *_unsold(book, clearing, public),
        *(f"type {kind}: the lease price is not the public price" for kind in book.offers["type"][public != lease]),
        *_order_of_prices(book, public, lease),
    ]


def above_assigned(book: Book, assigned: IntArray) -> Flags:
    """Return for each row whether it stands above the one that its participant was assigned; all do if none was."""
    lengths = np.diff(book.starts)
    won = book.rows["offer"] == np.repeat(assigned, lengths)
    end = np.where(assigned == NONE, book.starts[1:], NONE)
    end[np.repeat(np.arange(len(assigned)), lengths)[won]] = np.flatnonzero(won)
    return np.arange(len(book.rows)) < np.repeat(end, lengths)


def _rows(book: Book, clearing: Clearing) -> _Rows:
    offer, offers = book.rows["offer"], book.offers
    owner = np.repeat(np.arange(len(book.participants)), np.diff(book.starts))
    bid = np.minimum(book.rows["bid"], offers["cap"][offer])
    return _Rows(offer, owner, bid, bid >= offers["base"][offer], clearing.assigned[owner] == offer)


def _prices(book: Book, clearing: Clearing) -> tuple[IntArray, IntArray]:
    prices = [clearing.prices[type_id] for type_id in book.offers["type"].tolist()]
    public = np.array([price.public for price in prices], dtype=np.int64)
    return public, np.array([price.lease for price in prices], dtype=np.int64)


def _taken(book: Book, clearing: Clearing) -> IntArray:
    """Return how many units of each type somebody got."""
    return np.bincount(clearing.assigned[clearing.assigned != NONE], minlength=len(book.offers))


def _seats(book: Book, clearing: Clearing) -> Iterator[str]:
    """Yield types of which more is given than there is, or of which the count is wrong."""
    for (type_id, supply, _, _), winners in zip(book.offers.tolist(), _taken(book, clearing).tolist(), strict=True):
        accepted = clearing.prices[type_id].accepted
        if winners > supply:
            yield f"type {type_id}: {winners} winners for {supply} units"
        if winners != accepted:
            yield f"type {type_id}: {winners} winners, {accepted} accepted"


def _winners(book: Book, clearing: Clearing, rows: _Rows, public: IntArray) -> Iterator[str]:
    """Yield who won something that it has no counting bid for, or at a price above that bid."""
    bids = np.full(len(book.participants), NONE, dtype=np.int64)
    paid = rows.won & rows.counts
    bids[rows.owner[paid]] = rows.bid[paid]
    won = np.flatnonzero(clearing.assigned != NONE)
    for one in won[bids[won] == NONE].tolist():
        kind = book.offers["type"][clearing.assigned[one]]
        yield f"participant {book.participants['id'][one]}: assigned type {kind} without a bid that counts there"
    price = public[clearing.assigned[won]]
    for one in won[(bids[won] != NONE) & (price > bids[won])].tolist():
        place = clearing.assigned[one]
        kind = book.offers["type"][place]
        yield (
            f"participant {book.participants['id'][one]}: "
            f"the price {public[place]} of type {kind} is above its bid {bids[one]}"
        )


def _envy(book: Book, rows: _Rows, envied: Flags, why: str) -> Iterator[str]:
    for row in np.flatnonzero(envied).tolist():
        one, kind = book.participants["id"][rows.owner[row]], book.offers["type"][rows.offer[row]]
        yield f"participant {one}: envies type {kind}, {why.format(bid=rows.bid[row])}"


def _rejections(
    book: Book, clearing: Clearing, rows: _Rows, rejected: Flags, public: IntArray, lease: IntArray
) -> Iterator[str]:
    """Yield types whose prices are not what the rejected bids make them."""
    offer, bid, tenant = rows.offer[rejected], rows.bid[rejected], book.participants["tenant"][rows.owner[rejected]]
    made = book.offers["base"].copy()
    np.maximum.at(made, offer, bid)
    lowest, highest = _winning_tenants(book, clearing)
    rival = (lowest[offer] < highest[offer]) | ((lowest[offer] == highest[offer]) & (tenant != lowest[offer]))
    made_lease = book.offers["base"].copy()
    np.maximum.at(made_lease, offer[rival], bid[rival])
    for name, prices, right in (("public", public, made), ("lease", lease, made_lease)):
        for place in np.flatnonzero(prices != right).tolist():
            kind = book.offers["type"][place]
            yield f"type {kind}: the {name} price is {prices[place]}, the rejected bids make it {right[place]}"


def _winning_tenants(book: Book, clearing: Clearing) -> tuple[IntArray, IntArray]:
    """Return the lowest and highest id of a tenant that won a unit of each type; the wrong way round if none did."""
    won = clearing.assigned != NONE
    lowest = np.full(len(book.offers), -NOWHERE, dtype=np.int64)
    highest = np.full(len(book.offers), NOWHERE, dtype=np.int64)
    np.minimum.at(lowest, clearing.assigned[won], book.participants["tenant"][won])
    np.maximum.at(highest, clearing.assigned[won], book.participants["tenant"][won])
    return lowest, highest


def _unsold(book: Book, clearing: Clearing, public: IntArray) -> Iterator[str]:
    """Yield types of which units are left though the price is above the base."""
    left = book.offers["supply"] - _taken(book, clearing)
    for place in np.flatnonzero((left > 0) & (public > book.offers["base"])).tolist():
        kind, base = book.offers["type"][place], book.offers["base"][place]
        yield f"type {kind}: {left[place]} units are left at {public[place]}, above the base price {base}"


def _order_of_prices(book: Book, public: IntArray, lease: IntArray) -> Iterator[str]:
    base, cap = book.offers["base"], book.offers["cap"]
    for place in np.flatnonzero((base > lease) | (lease > public) | (public > cap)).tolist():
        between = f"{base[place]} <= {lease[place]} <= {public[place]} <= {cap[place]}"
        yield f"type {book.offers['type'][place]}: {between} does not hold"
