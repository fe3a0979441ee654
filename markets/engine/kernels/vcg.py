"""The assignment of the highest value and its lowest prices, by shortest paths over as many nodes as there are types.

Prices are guessed, from a former clearing or from a sample of the participants, and everybody is put where it gains
most at them. What is then missing or too much at some type moves along shortest paths, which change the prices with it
(successive shortest paths). The guess decides how long that takes and nothing else: the highest value has one set of
lowest prices, and ties are broken by a rule of their own once those are known.
"""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.exchange import (
    FAR,
    HIDDEN,
    Exchange,
    Search,
    exchange_of,
    find,
    has_room,
    move,
    search_of,
)
from markets.engine.kernels.prices import ACCEPTED, PUBLIC, REJECTED, SETTER, base_prices
from markets.engine.kernels.tables import ACCEPTED_AT, BASE, HOLDS, OFFER, SUPPLY, Tables, admitted, counted, outranks

SMALLEST_SAMPLE, SHARE = 400, 8
FINISHED, REDRAW, WIDEN = 0, 1, 2


@compiled
def highest_value(tables: Tables, guess: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the row of each participant (P,), unsold units (T,) and the lowest prices (T,) of an assignment.

    guess: prices to start from, or none, for a start from samples. Which of several assignments of the highest value it
    is depends on the guess.
    """
    people = len(tables.participants)
    everybody = np.arange(people)
    prices = tables.offers[:, BASE].copy()
    spread = _spread(tables)
    limit = spread // 64
    if len(guess) == len(prices):
        prices = np.maximum(prices, guess)
    else:
        limit = spread
        size = people
        while size > SMALLEST_SAMPLE:
            size //= SHARE
        while 0 < size < people:
            members = _sample(people, size)
            supply = (tables.offers[:, SUPPLY] * len(members) + people // 2) // people
            _repair(tables, members, supply, prices, limit)
            limit = int(spread * np.sqrt(len(prices) / len(members)))
            size *= SHARE
    at, unsold = _repair(tables, everybody, np.maximum(0, tables.offers[:, SUPPLY]), prices, limit)
    return at, unsold, _lowest(tables, at, unsold, prices)


@compiled
def _sample(people: int, size: int) -> IntArray:
    """Return about so many places, spread over all of them without a period."""
    scattered = (np.arange(people) * 2654435761) % 2**32
    return np.flatnonzero(scattered * people < size * 2**32)


@compiled
def _spread(tables: Tables) -> int:
    """Return twice the mean by which bids are above the base price."""
    total, count = 0, 0
    for row in range(len(tables.rows)):
        if admitted(tables, row):
            total += counted(tables, row) - tables.offers[tables.rows[row, OFFER], BASE]
            count += 1
    return 2 * total // max(1, count) + 1


@compiled
def _repair(
    tables: Tables, members: IntArray, supply: IntArray, prices: IntArray, limit: int
) -> tuple[IntArray, IntArray]:
    """Find an assignment of the highest value among these, starting at the prices; leave prices that support it there."""
    at = np.full(len(tables.participants), NONE)
    for one in members:
        at[one] = _best(tables, prices, one)
    unsold = np.zeros(len(supply), np.int64)
    search = search_of(len(supply))
    while True:
        exchange = exchange_of(tables, members, at, unsold, prices, limit)
        outcome = _even_out(tables, exchange, search, supply)
        prices[:] += exchange.lift[:-1]
        if outcome == FINISHED:
            return at, unsold
        if outcome == WIDEN:
            limit = 2 * limit + 1


@innermost
def _best(tables: Tables, prices: IntArray, one: int) -> int:
    """Return the row by which a participant gains most at these prices, NONE if it would lose by each."""
    best, gain = NONE, -1
    for row in range(tables.starts[one], tables.starts[one + 1]):
        if admitted(tables, row):
            value = counted(tables, row) - prices[tables.rows[row, OFFER]]
            if value > gain:
                best, gain = row, value
    return best


@innermost
def _even_out(tables: Tables, exchange: Exchange, search: Search, supply: IntArray) -> int:
    """Move along shortest paths until no type is over or, above its base price, under its supply.

    REDRAW: the graph has to be drawn at the prices reached. WIDEN: with entries of larger losses too.
    """
    while True:
        if not _find_uneven(tables, exchange, search, supply):
            return FINISHED
        end = find(tables, exchange, search)
        lifted = exchange.lift.max() - exchange.lift.min()
        if end == NONE or (exchange.marks[HIDDEN] and search.distance[end] + lifted > exchange.limit):
            return REDRAW if lifted > 0 else WIDEN
        if not has_room(exchange):
            return REDRAW
        far, outside = search.distance[end], len(supply)
        fall = far if search.starts[outside] else 0
        for node in range(outside + 1):
            exchange.lift[node] += max(0, far - search.distance[node]) - fall
        move(tables, exchange, search, end)


@innermost
def _find_uneven(tables: Tables, exchange: Exchange, search: Search, supply: IntArray) -> bool:
    """Say where paths start and end: from types with too many to the outside or too few; then from the outside."""
    outside = len(supply)
    over, under = 0, 0
    for place in range(outside):
        if exchange.origin[place] + exchange.lift[place] == tables.offers[place, BASE]:
            exchange.unsold[place] = max(0, supply[place] - exchange.load[place])
        missing = supply[place] - exchange.load[place] - exchange.unsold[place]
        search.starts[place], search.ends[place] = missing < 0, missing > 0
        over += missing < 0
        under += missing > 0
    search.starts[outside] = over == 0
    search.ends[outside] = over > 0
    return bool(over > 0 or under > 0)


@compiled
def _lowest(tables: Tables, at: IntArray, unsold: IntArray, prices: IntArray) -> IntArray:
    """Return the lowest prices that support an assignment which these support: less the distance from the outside."""
    offers = len(prices)
    slack = np.full((offers + 1, offers + 1), FAR)
    for place in range(offers):
        slack[offers, place] = prices[place] - tables.offers[place, BASE]
        if unsold[place] > 0:
            slack[place, offers] = 0
    for one in range(len(at)):
        own = at[one]
        place, gain = offers, 0
        if own != NONE:
            place = tables.rows[own, OFFER]
            gain = counted(tables, own) - prices[place]
            slack[place, offers] = min(slack[place, offers], gain)
        for row in range(tables.starts[one], tables.starts[one + 1]):
            if row != own and admitted(tables, row):
                other = tables.rows[row, OFFER]
                slack[place, other] = min(slack[place, other], gain - counted(tables, row) + prices[other])
    distance, done = slack[offers].copy(), np.zeros(offers + 1, np.int64)
    done[offers] = 1
    for _ in range(offers):
        node = NONE
        for other in range(offers):
            if not done[other] and (node == NONE or distance[other] < distance[node]):
                node = other
        done[node] = 1
        for other in range(offers):
            if slack[node, other] < FAR:
                distance[other] = min(distance[other], distance[node] + slack[node, other])
    return prices - distance[:offers]


@compiled
def undecided(tables: Tables, prices: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return who gains equally by several rows, or by one and by none.

    With it for each: 1 if it holds what one of these bids is for, and the earliest moment of these bids.
    """
    found = np.empty((3, len(tables.participants)), np.int64)
    count = 0
    for one in range(len(tables.participants)):
        best = _best(tables, prices, one)
        if best == NONE:
            continue
        gain = counted(tables, best) - prices[tables.rows[best, OFFER]]
        choices, holds, earliest = int(gain == 0), 0, tables.rows[best, ACCEPTED_AT]
        for row in range(tables.starts[one], tables.starts[one + 1]):
            if _equal(tables, prices, row, gain):
                choices += 1
                holds |= tables.rows[row, OFFER] == tables.participants[one, HOLDS]
                earliest = min(earliest, tables.rows[row, ACCEPTED_AT])
        if choices > 1:
            found[0, count], found[1, count], found[2, count] = one, holds, earliest
            count += 1
    return found[0, :count], found[1, :count], found[2, :count]


@innermost
def _equal(tables: Tables, prices: IntArray, row: int, gain: int) -> bool:
    return admitted(tables, row) and bool(counted(tables, row) - prices[tables.rows[row, OFFER]] == gain)


@compiled
def decide(tables: Tables, at: IntArray, unsold: IntArray, prices: IntArray, queue: IntArray) -> None:
    """Let those who are undecided choose one after the other, as far as the value stays the highest.

    Each takes the row it holds if it gains as much by it as by any other, else the first of its table, and nothing
    last. What one has chosen stays; others who are undecided make room for it.
    """
    search = search_of(len(prices))
    exchange = exchange_of(tables, queue, at, unsold, prices, 0)
    for one in queue:
        if not has_room(exchange):
            locked = exchange.locked
            exchange = exchange_of(tables, queue, at, unsold, prices, 0)
            exchange.locked[:] = locked
        exchange.locked[one] = 1
        _choose(tables, exchange, search, one)


@innermost
def _choose(tables: Tables, exchange: Exchange, search: Search, one: int) -> None:
    own = exchange.at[one]
    gain = 0 if own == NONE else counted(tables, own) - exchange.origin[tables.rows[own, OFFER]]
    for held in (True, False):
        for row in range(tables.starts[one], tables.starts[one + 1]):
            holds = tables.rows[row, OFFER] == tables.participants[one, HOLDS]
            if (holds or not held) and _equal(tables, exchange.origin, row, gain):
                if row == own or _make_room(tables, exchange, search, one, row):
                    return


@innermost
def _make_room(tables: Tables, exchange: Exchange, search: Search, one: int, row: int) -> bool:
    """Move a participant to a row, others along a path of equal value back to where it was; False if there is none."""
    outside, own = len(exchange.origin), exchange.at[one]
    start, end = tables.rows[row, OFFER], outside if own == NONE else tables.rows[own, OFFER]
    search.starts[:], search.ends[:] = 0, 0
    search.starts[start], search.ends[end] = 1, 1
    if find(tables, exchange, search) == NONE or search.distance[end] > 0:
        return False
    move(tables, exchange, search, end)
    exchange.at[one] = row
    return True


@compiled
def value_prices(tables: Tables, at: IntArray, lowest: IntArray) -> IntArray:
    """Return the table of prices (T, 5); rejected are the rows of those who got nothing.

    The setter is the best ranked of them who bid exactly the price, where that is above the base price.
    """
    prices = base_prices(tables)
    best = np.full(len(lowest), NONE)
    for one in range(len(at)):
        if at[one] != NONE:
            prices[tables.rows[at[one], OFFER], ACCEPTED] += 1
            continue
        for row in range(tables.starts[one], tables.starts[one + 1]):
            place = tables.rows[row, OFFER]
            if admitted(tables, row):
                prices[place, REJECTED] += 1
                if counted(tables, row) == lowest[place] and (
                    best[place] == NONE or outranks(tables, row, best[place])
                ):
                    best[place] = row
    for place in range(len(lowest)):
        prices[place, PUBLIC] = prices[place, PUBLIC + 1] = lowest[place]
        if lowest[place] > tables.offers[place, BASE] and best[place] != NONE:
            prices[place, SETTER] = tables.owners[best[place]]
    return prices
