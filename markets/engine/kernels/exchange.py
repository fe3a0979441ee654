"""Who would move from one type to another, and at which loss: the graph on which `vcg` improves an assignment.

The nodes are the offers and one more, the outside, for whoever gets nothing and for units that stay unsold. An arrow
from s to t costs what the value falls by if the participant at s that loses least by it moves to t; an unsold unit
may be moved between its type and the outside too, at its base price. Values are taken above `origin`, the prices at
which the graph was drawn, and `lift` is by how much prices have risen since: a participant sits where it gains most
exactly if no arrow costs less than lift[s] - lift[t].
"""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.tables import BASE, OFFER, Tables, value

FAR = 2**62
USED, HIDDEN, FULL = 0, 1, 2


class Exchange(NamedTuple):
    """The state of an assignment on its way, and the arrows between nodes; N is the count of offers, the outside.

    at (P,): the row that each participant has, or NONE. locked (P,): 1 for whoever may not move any more.
    origin (N,), lift (N + 1,): see above. load (N,), unsold (N,): units given to participants, units set aside.
    roots (N + 1, N + 1): for each arrow the heap of those who would move along it, least loss first, or NONE. Heaps
    are skew heaps in the columns loss, who, row, left and right; entries of participants who have moved since are
    dropped when they come to the top. marks: how many entries are used, whether some were left out for their loss, and
    whether some did not fit in. limit: the loss up to which entries are kept.
    """

    at: IntArray
    locked: IntArray
    origin: IntArray
    lift: IntArray
    load: IntArray
    unsold: IntArray
    roots: IntArray
    loss: IntArray
    who: IntArray
    row: IntArray
    left: IntArray
    right: IntArray
    marks: IntArray
    limit: int


class Search(NamedTuple):
    """A search for a shortest path: where it starts and ends, and for each node its distance and how it was reached.

    via: the entry that moves along the arrow from `parent`, NONE for an unsold unit.
    """

    starts: IntArray
    ends: IntArray
    distance: IntArray
    parent: IntArray
    via: IntArray
    done: IntArray


@compiled
def exchange_of(
    tables: Tables, members: IntArray, at: IntArray, unsold: IntArray, prices: IntArray, limit: int
) -> Exchange:
    """Draw the graph of these participants at these prices, with entries up to a loss."""
    nodes = len(tables.offers) + 1
    room = 2 * nodes * nodes + 2 * len(members) + 1024
    while True:
        exchange = _empty(at, unsold, prices, limit, room)
        for one in members:
            if at[one] != NONE:
                exchange.load[tables.rows[at[one], OFFER]] += 1
            enter(tables, exchange, one)
        if not exchange.marks[FULL] and has_room(exchange):
            return exchange
        room *= 2


@compiled
def _empty(at: IntArray, unsold: IntArray, prices: IntArray, limit: int, room: int) -> Exchange:
    offers = len(prices)
    return Exchange(
        at,
        np.zeros(len(at), np.int64),
        prices.copy(),
        np.zeros(offers + 1, np.int64),
        np.zeros(offers, np.int64),
        unsold,
        np.full((offers + 1, offers + 1), NONE),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.zeros(3, np.int64),
        limit,
    )


@compiled
def search_of(offers: int) -> Search:
    """Return the room for searches among so many offers."""
    nodes = offers + 1
    return Search(
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
    )


@innermost
def enter(tables: Tables, exchange: Exchange, one: int) -> None:
    """Add the entries of a participant, from where it is to wherever else it could be."""
    own, outside = exchange.at[one], len(exchange.origin)
    place, gain = outside, 0
    if own != NONE:
        place = tables.rows[own, OFFER]
        gain = value(tables, own) - exchange.origin[place]
        _add(exchange, place, outside, gain, one, NONE)
    for row in range(tables.starts[one], tables.starts[one + 1]):
        bid = value(tables, row)
        if bid != NONE and row != own:
            other = tables.rows[row, OFFER]
            _add(exchange, place, other, gain - bid + exchange.origin[other], one, row)


@innermost
def _add(exchange: Exchange, place: int, other: int, loss: int, one: int, row: int) -> None:
    if loss > exchange.limit:
        exchange.marks[HIDDEN] = 1
        return
    entry = exchange.marks[USED]
    if entry == len(exchange.loss):
        exchange.marks[FULL] = 1
        return
    exchange.marks[USED] += 1
    exchange.loss[entry], exchange.who[entry], exchange.row[entry] = loss, one, row
    exchange.left[entry] = exchange.right[entry] = NONE
    exchange.roots[place, other] = _merge(exchange, exchange.roots[place, other], entry)


@innermost
def _merge(exchange: Exchange, heap: int, other: int) -> int:
    """Return the skew heap of two."""
    if heap == NONE:
        return other
    if other == NONE:
        return heap
    if exchange.loss[other] < exchange.loss[heap]:
        heap, other = other, heap
    node = heap
    while True:
        child = exchange.right[node]
        exchange.right[node] = exchange.left[node]
        if child == NONE:
            exchange.left[node] = other
            return heap
        if exchange.loss[other] < exchange.loss[child]:
            child, other = other, child
        exchange.left[node] = child
        node = child


@innermost
def _mover(tables: Tables, exchange: Exchange, place: int, other: int) -> int:
    """Return the entry of who loses least by moving along an arrow, or NONE."""
    entry = exchange.roots[place, other]
    while entry != NONE:
        one = exchange.who[entry]
        own = exchange.at[one]
        now = len(exchange.origin) if own == NONE else tables.rows[own, OFFER]
        if now == place and not exchange.locked[one]:
            break
        entry = _merge(exchange, exchange.left[entry], exchange.right[entry])
    exchange.roots[place, other] = entry
    return int(entry)


@innermost
def find(tables: Tables, exchange: Exchange, search: Search) -> int:
    """Return the end that is nearest to any start, or NONE, with the distances of all nearer nodes in `search`."""
    outside = len(exchange.origin)
    for node in range(outside + 1):
        search.distance[node] = 0 if search.starts[node] else FAR
        search.parent[node] = search.via[node] = NONE
        search.done[node] = 0
    while True:
        node = NONE
        for other in range(outside + 1):
            if not search.done[other] and (node == NONE or search.distance[other] < search.distance[node]):
                node = other
        if node == NONE or search.distance[node] == FAR:
            return NONE
        if search.ends[node]:
            return int(node)
        search.done[node] = 1
        for other in range(outside + 1):
            if not search.done[other]:
                _reach(tables, exchange, search, node, other)


@innermost
def _reach(tables: Tables, exchange: Exchange, search: Search, node: int, other: int) -> None:
    """Note the way to a node over the arrow from another if it is the shortest so far."""
    outside = len(exchange.origin)
    entry = _mover(tables, exchange, node, other)
    cost = FAR if entry == NONE else exchange.loss[entry]
    unsold = FAR
    if node == outside:
        unsold = exchange.origin[other] - tables.offers[other, BASE]
    elif other == outside and exchange.unsold[node] > 0:
        unsold = tables.offers[node, BASE] - exchange.origin[node]
    if unsold < cost:
        cost, entry = unsold, NONE
    if cost == FAR:
        return
    distance = search.distance[node] + cost - exchange.lift[node] + exchange.lift[other]
    if distance < search.distance[other]:
        search.distance[other], search.parent[other], search.via[other] = distance, node, entry


@innermost
def has_room(exchange: Exchange) -> bool:
    """Return whether the entries of all participants along any one path fit in."""
    nodes = len(exchange.lift)
    return bool(exchange.marks[USED] + nodes * nodes <= len(exchange.loss))


@innermost
def move(tables: Tables, exchange: Exchange, search: Search, end: int) -> None:
    """Move one participant, or unsold unit, along each arrow of the path that was found."""
    node, outside = end, len(exchange.origin)
    while search.parent[node] != NONE:
        before, entry = search.parent[node], search.via[node]
        if entry == NONE:
            if before == outside:
                exchange.unsold[node] += 1
            else:
                exchange.unsold[before] -= 1
        else:
            one = exchange.who[entry]
            exchange.at[one] = exchange.row[entry]
            if before != outside:
                exchange.load[before] -= 1
            if node != outside:
                exchange.load[node] += 1
            enter(tables, exchange, one)
        node = before
