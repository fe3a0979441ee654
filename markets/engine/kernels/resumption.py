"""Deferred acceptance that starts from the result of a former book, with the result of a start from nothing.

What deferred acceptance returns is the stable assignment that is best for every participant at once: stable means that
whoever gets a row below another has been outranked there by everybody who was given that type, and the type is full.
The way from a former book's result to that of the present one:

1. *Carry over.* A participant stays if its table and what it holds are the same in both books, everybody else is taken
   out. Nobody who stays would displace another who stays, for neither their wishes nor their ranks have changed; but
   there may be vacancies that somebody wants. Supply counts as the larger of the former and the present one.
2. *Fill vacancies.* While a type has a free unit, the best ranked of those who want it moves up to it, and leaves a
   vacancy behind if it had something. It is the best of those who want it, so still nobody would displace another;
   everybody only moves up, so this ends, and then the assignment is stable.
3. *Rotate.* Draw an arrow from each type to the one that the best ranked of those who want it, its suitor, was given,
   and none if there is no such participant or it was given nothing. Along a cycle of arrows every suitor moves up at
   once. The assignment stays stable: a type on the cycle loses one and gains the best of those who wanted it, and who
   wants what has only become less. Once there is no cycle the assignment is the best one.
   Proof: let M be stable and B the best stable assignment, not M. Both serve the same participants, and give as many
   units of each type (known of stable assignments). Let D be those for whom B is better; each has something in M. Take
   a type t that somebody d of D is given in B. As d wants t in M, M has no unit of t free, and t has a suitor q, ranked
   d or higher. Were q not in D, then q is not d, is given the same in B as in M, wants t in B too and outranks d, who
   is given it: B would not be stable. So q is in D, has something in M, of a type s, and leaves it in B; as B gives as
   many units of s as M does, somebody takes that place in B who had another in M: it is in D. So from every type that
   D takes an arrow leads to another such, and there is a cycle.
4. *Go on.* That is where deferred acceptance stands once those who stay have proposed, with everything above what each
   was given rejected. Types that keep more than the present supply reject the worst, and whoever was taken out or is
   new begins at the top of its table. The order of proposals means nothing to the result (a unit of supply less is a
   last proposal that outranks all), so it is that of a start from nothing.
"""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.heaps import BEST, WORST, Heaps, append, heaps_with_room, order, order_all, pop
from markets.engine.kernels.launch_table import empty_desks, propose, rows_for, shed
from markets.engine.kernels.tables import (
    ACCEPTED_AT,
    BASE,
    BID,
    HOLDS,
    ID,
    JOB,
    OFFER,
    SUPPLY,
    Tables,
    admitted,
)

UNSEEN, ON_PATH, DONE = 0, 1, 2


class Carried(NamedTuple):
    """won (P,): the row each who stays was given, or NONE. fresh (P,): 1 for whoever does not. left: how many went."""

    won: IntArray
    fresh: IntArray
    left: int


class Wanting(NamedTuple):
    """The rows that want a unit of each type, above what their owners were given.

    near: the better ones, as heaps with the best on top. far: how many more there are, in any order at the end of the
    type's share of near.rows; all of them are worse, and few are ever asked for.
    """

    near: Heaps
    far: IntArray


@compiled
def resumed_acceptance(tables: Tables, former: Tables, former_assigned: IntArray) -> IntArray:
    """Return what `deferred_acceptance` would: the row that each participant gets, or NONE.

    former: a book with the same types, base and cap prices; former_assigned: the offer that each participant of that
    book got by this rule.
    """
    carried = carry_over(tables, former, former_assigned)
    won = carried.won
    supply = np.maximum(tables.offers[:, SUPPLY], former.offers[:, SUPPLY])
    rows = rows_for(tables)
    if carried.left > 0 or np.any(supply > former.offers[:, SUPPLY]):
        wanting = wanting_rows(tables, carried, rows)
        fill_vacancies(tables, wanting, won, supply)
        rotate(tables, wanting, won)
    if carried.fresh.any() or np.any(supply > tables.offers[:, SUPPLY]):
        go_on(tables, won, carried.fresh, empty_desks(rows, supply))
    return won


@innermost
def go_on(tables: Tables, won: IntArray, fresh: IntArray, kept: Heaps) -> None:
    """Reject what types keep beyond their supply, and let the fresh propose; kept: empty, with room for all."""
    for one in range(len(won)):
        if won[one] != NONE:
            append(kept, tables.rows[won[one], OFFER], won[one])
    order_all(tables, kept, WORST)
    shed(tables, kept, won)
    for one in range(len(won)):
        if fresh[one]:
            propose(tables, kept, won, one, tables.starts[one])


@compiled
def carry_over(tables: Tables, former: Tables, former_assigned: IntArray) -> Carried:
    """Find those who stay, by one walk along both books."""
    people = len(tables.participants)
    won, fresh = np.full(people, NONE), np.ones(people, np.int64)
    staying = _let_stay(tables, former, former_assigned, won, fresh)
    return Carried(won, fresh, len(former.participants) - staying)


@innermost
def _let_stay(tables: Tables, former: Tables, former_assigned: IntArray, won: IntArray, fresh: IntArray) -> int:
    """Fill in what those who stay were given, and return how many they are."""
    before, staying = 0, 0
    for one in range(len(won)):
        while before < len(former.participants) and former.participants[before, ID] < tables.participants[one, ID]:
            before += 1
        if before < len(former.participants) and _same(tables, one, former, before):
            staying += 1
            fresh[one] = 0
            if former_assigned[before] != NONE:
                row = tables.starts[one]
                while tables.rows[row, OFFER] != former_assigned[before]:
                    row += 1
                won[one] = row
    return staying


@innermost
def _same(tables: Tables, one: int, former: Tables, before: int) -> bool:
    """Return whether a participant of this book and one of the former are one, with all that the rule looks at."""
    for column in (ID, JOB, HOLDS):
        if tables.participants[one, column] != former.participants[before, column]:
            return False
    first, before_first = tables.starts[one], former.starts[before]
    count = tables.starts[one + 1] - first
    if former.starts[before + 1] - before_first != count:
        return False
    for row in range(count):
        for column in (OFFER, BID, ACCEPTED_AT):
            if tables.rows[first + row, column] != former.rows[before_first + row, column]:
                return False
    return True


@compiled
def wanting_rows(tables: Tables, carried: Carried, rows: IntArray) -> Wanting:
    """Return for each type, of so many rows, those of who stays that stand above what their owner was given."""
    wanting = Wanting(heaps_with_room(rows), np.zeros(len(tables.offers), np.int64))
    _gather(tables, wanting, carried.won, carried.fresh, _near_from(tables, carried.won))
    return wanting


@innermost
def _gather(tables: Tables, wanting: Wanting, won: IntArray, fresh: IntArray, near_from: IntArray) -> None:
    near, far = wanting.near, wanting.far
    for one in range(len(won)):
        if fresh[one]:
            continue
        end = won[one] if won[one] != NONE else tables.starts[one + 1]
        for row in range(tables.starts[one], end):
            if admitted(tables, row):
                place = tables.rows[row, OFFER]
                if tables.standings[row] >= near_from[place]:
                    append(near, place, row)
                else:
                    far[place] += 1
                    near.rows[near.firsts[place + 1] - far[place]] = row
    order_all(tables, near, BEST)


@compiled
def _near_from(tables: Tables, won: IntArray) -> IntArray:
    """Return the standing from which on rows are near: an eighth of the way from the worst one given to the base."""
    lowest = np.full(len(tables.offers), NONE)
    _lower(tables, won, lowest)
    return lowest - (lowest - 2 * tables.offers[:, BASE]) // 8


@innermost
def _lower(tables: Tables, won: IntArray, lowest: IntArray) -> None:
    """Fill in the lowest standing of a row given of each type."""
    for one in range(len(won)):
        row = won[one]
        if row != NONE:
            place = tables.rows[row, OFFER]
            if lowest[place] == NONE or tables.standings[row] < lowest[place]:
                lowest[place] = tables.standings[row]


@innermost
def suitor(tables: Tables, wanting: Wanting, won: IntArray, place: int) -> int:
    """Return the best row that wants a unit of the type, or NONE, and drop those whose owner has moved further up."""
    near, far = wanting.near, wanting.far
    while near.sizes[place] > 0 or far[place] > 0:
        if near.sizes[place] == 0:
            first, end = near.firsts[place], near.firsts[place + 1]
            for number in range(far[place]):
                near.rows[first + number] = near.rows[end - far[place] + number]
            near.sizes[place], far[place] = far[place], 0
            order(tables, near, BEST, place)
        row = int(near.rows[near.firsts[place]])
        own = won[tables.owners[row]]
        if own == NONE or row < own:
            return row
        pop(tables, near, BEST, place)
    return NONE


@compiled
def fill_vacancies(tables: Tables, wanting: Wanting, won: IntArray, supply: IntArray) -> None:
    """Let the best of those who want a vacant unit move up, until nobody does."""
    _fill(tables, wanting, won, supply.copy(), np.arange(len(supply)), np.ones(len(supply), np.int64))


@innermost
def _fill(
    tables: Tables, wanting: Wanting, won: IntArray, vacant: IntArray, stack: IntArray, stacked: IntArray
) -> None:
    """Do so; vacant (T,) is the supply, and all types are stacked, to be looked at."""
    for one in range(len(won)):
        if won[one] != NONE:
            vacant[tables.rows[won[one], OFFER]] -= 1
    depth = len(stack)
    while depth > 0:
        depth -= 1
        place = stack[depth]
        stacked[place] = 0
        while vacant[place] > 0:
            row = suitor(tables, wanting, won, place)
            if row == NONE:
                break
            one = tables.owners[row]
            left, won[one] = won[one], row
            vacant[place] -= 1
            if left != NONE:
                behind = tables.rows[left, OFFER]
                vacant[behind] += 1
                if not stacked[behind]:
                    stack[depth], stacked[behind] = behind, 1
                    depth += 1


@compiled
def rotate(tables: Tables, wanting: Wanting, won: IntArray) -> None:
    """Move the suitors along every cycle of arrows up, until there is none."""
    offers = len(tables.offers)
    seen, path = np.full(offers, UNSEEN), np.empty(offers, np.int64)
    for start in range(offers):
        length = 0
        while seen[start] != DONE:
            if length == 0:
                path[0], length, seen[start] = start, 1, ON_PATH
            place = path[length - 1]
            row = suitor(tables, wanting, won, place)
            own = NONE if row == NONE else won[tables.owners[row]]
            behind = NONE if own == NONE else tables.rows[own, OFFER]
            if behind == NONE or seen[behind] == DONE:
                seen[place] = DONE
                length -= 1
            elif seen[behind] == UNSEEN:
                path[length], seen[behind] = behind, ON_PATH
                length += 1
            else:
                length = _move_up(tables, wanting, won, seen, path[:length], behind)


@compiled
def _move_up(tables: Tables, wanting: Wanting, won: IntArray, seen: IntArray, path: IntArray, first: int) -> int:
    """Move the suitors along the cycle at the path's end up, from its first type on; return the length of the rest."""
    for length in range(len(path) - 1, -1, -1):
        row = wanting.near.rows[wanting.near.firsts[path[length]]]
        won[tables.owners[row]] = row
        seen[path[length]] = UNSEEN
        if path[length] == first:
            return length
    return 0
