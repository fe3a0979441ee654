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
    USED,
    Exchange,
    Search,
    exchange_of,
    find,
    has_room,
    move,
    search_of,
)
from markets.engine.kernels.prices import ACCEPTED, LEASE, PUBLIC, REJECTED, SETTER, base_prices
from markets.engine.kernels.tables import ACCEPTED_AT, BASE, HOLDS, OFFER, SUPPLY, Tables, is_earlier, value

SMALLEST_SAMPLE, SHARE = 400, 8
FINISHED, REDRAW, WIDEN = 0, 1, 2


@compiled
def highest_value(tables: Tables, guess: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return an assignment as the row of each participant (P,) and unsold units (T,), and the lowest prices (T,) of it.

    guess: prices to start from, or none, for a start from samples. Which of several assignments of the highest value it
    is depends on the guess. The fourth array says who could have something else just as well.
    """
    people = len(tables.participants)
    everybody = np.arange(people)
    prices = tables.offers[:, BASE].copy()
    spread = _spread(tables)
    limit = spread // 64
    if len(guess) == len(prices):
        prices = np.maximum(prices, guess)
    else:
        limit, share = spread, 1
        while people // share > SMALLEST_SAMPLE:
            share *= SHARE
        while share > 1:
            members = _sample(people, people // share)
            supply = (tables.offers[:, SUPPLY] * len(members) + people // 2) // people
            _repair(tables, members, supply, prices, limit)
            limit = int(spread * np.sqrt(len(prices) / max(1, len(members)))) // 8
            share //= SHARE
    at, unsold, ties = _repair(tables, everybody, np.maximum(0, tables.offers[:, SUPPLY]), prices, limit)
    return at, unsold, prices, ties


@compiled
def _sample(people: int, size: int) -> IntArray:
    """Return about so many places, spread over all of them without a period."""
    scattered = (np.arange(people) * 2654435761) % 2**32
    return np.flatnonzero(scattered * people < size * 2**32)


@compiled
def _spread(tables: Tables) -> int:
    """Return twice the mean by which some bids are above the base price."""
    total, count = 0, 0
    for row in range(0, len(tables.rows), max(1, len(tables.rows) // 4096)):
        bid = value(tables, row)
        if bid != NONE:
            total += bid - tables.offers[tables.rows[row, OFFER], BASE]
            count += 1
    return int(2 * total // max(1, count)) + 1


@compiled
def _repair(
    tables: Tables, members: IntArray, supply: IntArray, prices: IntArray, limit: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return an assignment of the highest value among these, and who has ties; leave the lowest prices in `prices`."""
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
            return at, unsold, indifferent(tables, exchange)
        if outcome == WIDEN:
            limit = 2 * limit + 1


@innermost
def _best(tables: Tables, prices: IntArray, one: int) -> int:
    """Return the row by which a participant gains most at these prices, NONE if it would lose by each."""
    best, gain = NONE, -1
    for row in range(tables.starts[one], tables.starts[one + 1]):
        bid = value(tables, row)
        if bid != NONE and bid - prices[tables.rows[row, OFFER]] > gain:
            best, gain = row, bid - prices[tables.rows[row, OFFER]]
    return best


@innermost
def _even_out(tables: Tables, exchange: Exchange, search: Search, supply: IntArray) -> int:
    """Move along shortest paths until no type is over or, above its base price, under its supply; then lower prices.

    The lowest prices are those in force less the distances from the outside. REDRAW: the graph has to be drawn at the
    prices reached. WIDEN: with entries of larger losses too, which could be on a path now.
    """
    outside = len(supply)
    while True:
        uneven = _find_uneven(tables, exchange, search, supply)
        end = find(tables, exchange, search)
        far = _ends(search.distance)[1] if not uneven else FAR if end == NONE else search.distance[end]
        least, most = _ends(exchange.lift)
        lifted = most - least
        if far == FAR or (exchange.marks[HIDDEN] and far + lifted > exchange.limit):
            return REDRAW if lifted > 0 else WIDEN
        if uneven and not has_room(exchange):
            return REDRAW
        fall = far if search.starts[outside] else 0
        for node in range(outside + 1):
            exchange.lift[node] += max(0, far - search.distance[node]) - fall
        if not uneven:
            return FINISHED
        move(tables, exchange, search, end)


@innermost
def _ends(numbers: IntArray) -> tuple[int, int]:
    """Return the least and the most of some numbers; the methods of arrays make arrays."""
    least = most = numbers[0]
    for number in range(1, len(numbers)):
        least, most = min(least, numbers[number]), max(most, numbers[number])
    return least, most


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
    search.starts[outside], search.ends[outside] = over == 0, over > 0
    return bool(over > 0 or under > 0)


@compiled
def indifferent(tables: Tables, exchange: Exchange) -> IntArray:
    """Return who would lose nothing by a move, in the order of their places."""
    found = np.zeros(len(exchange.at), np.bool_)
    for entry in range(exchange.marks[USED]):
        one, row, own = exchange.who[entry], exchange.row[entry], exchange.at[exchange.who[entry]]
        outside = len(exchange.origin)
        if row != own:
            place = outside if own == NONE else tables.rows[own, OFFER]
            gain = 0 if own == NONE else value(tables, own) - exchange.origin[place] - exchange.lift[place]
            other = outside if row == NONE else tables.rows[row, OFFER]
            other_gain = 0 if row == NONE else value(tables, row) - exchange.origin[other] - exchange.lift[other]
            found[one] |= gain == other_gain
    return np.flatnonzero(found)


@compiled
def choices(tables: Tables, at: IntArray, prices: IntArray, ones: IntArray) -> tuple[IntArray, IntArray]:
    """Return of each of those who are indifferent what its turn depends on.

    1 if it holds what one of its equally good bids is for, and the earliest moment of these bids.
    """
    holds, since = np.zeros(len(ones), np.int64), np.empty(len(ones), np.int64)
    for number, one in enumerate(ones):
        gain = 0 if at[one] == NONE else value(tables, at[one]) - prices[tables.rows[at[one], OFFER]]
        earliest = FAR
        for row in range(tables.starts[one], tables.starts[one + 1]):
            if _equal(tables, prices, row, gain):
                holds[number] |= tables.rows[row, OFFER] == tables.participants[one, HOLDS]
                earliest = min(earliest, tables.rows[row, ACCEPTED_AT])
        since[number] = earliest
    return holds, since


@innermost
def _equal(tables: Tables, prices: IntArray, row: int, gain: int) -> bool:
    bid = value(tables, row)
    return bool(bid != NONE and bid - prices[tables.rows[row, OFFER]] == gain)


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
    gain = 0 if own == NONE else value(tables, own) - exchange.origin[tables.rows[own, OFFER]]
    for held in (True, False):
        for row in range(tables.starts[one], tables.starts[one + 1]):
            holds = tables.rows[row, OFFER] == tables.participants[one, HOLDS]
            if holds < held or not _equal(tables, exchange.origin, row, gain):
                continue
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
    _count_losers(tables, at, lowest, prices, np.full(len(lowest), NONE))
    for place in range(len(lowest)):
        prices[place, PUBLIC] = prices[place, LEASE] = lowest[place]
        if lowest[place] == tables.offers[place, BASE]:
            prices[place, SETTER] = NONE
    return prices


@innermost
def _count_losers(tables: Tables, at: IntArray, lowest: IntArray, prices: IntArray, setting: IntArray) -> None:
    """Fill in setters and counts; setting (T,) holds the setters' rows."""
    for one in range(len(at)):
        if at[one] != NONE:
            prices[tables.rows[at[one], OFFER], ACCEPTED] += 1
            continue
        for row in range(tables.starts[one], tables.starts[one + 1]):
            place, bid = tables.rows[row, OFFER], value(tables, row)
            prices[place, REJECTED] += bid != NONE
            if bid == lowest[place] and _sets_rather(tables, one, row, prices[place, SETTER], setting[place]):
                setting[place], prices[place, SETTER] = row, one


@innermost
def _sets_rather(tables: Tables, one: int, row: int, other_one: int, other: int) -> bool:
    """Return whether of two equal losing bids for a type this one ranks higher; any does against none."""
    if other == NONE:
        return True
    place = tables.rows[row, OFFER]
    holds, other_holds = tables.participants[one, HOLDS] == place, tables.participants[other_one, HOLDS] == place
    return bool(holds) if holds != other_holds else is_earlier(tables, one, row, other_one, other)
