"""Deferred acceptance that starts from a guess of what it rejects, with the result of a start from nothing.

What deferred acceptance returns is the stable assignment that is best for every participant at once: stable means that
whoever gets a row below another has been outranked there by everybody who was given that type, and the type is full.
The guess is a mark at each type, some place in the order of its ranks: a former clearing's best rejected row. It
decides how long the way takes and nothing else:

1. *Take.* Everybody takes the first row of its table that ranks above the mark of its type. Who was given a type is
   above its mark, who wants it more than what it was given is not: nobody would displace another. But a type may have
   vacancies that somebody wants, or have given more than its supply.
2. *Fill vacancies.* While a type has a free unit, the best ranked of those who want it moves up to it, and leaves its
   former place, which is a vacancy where the type is not over its supply. It is the best of those who want it, so still
   nobody would displace another; everybody only moves up, so this ends. Then the assignment is stable for a supply of
   as much as is given where that is more than there is.
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
4. *Shed.* That is where deferred acceptance stands, for that supply, once everything above what each was given has been
   rejected. Types that keep more than the present supply reject the worst, who propose further down. The order of
   proposals means nothing to the result (a unit of supply less is a last proposal that outranks all), so it is that of
   a start from nothing.
"""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.heaps import BEST, Heaps, append, heaps_with_room, order, order_all, pop
from markets.engine.kernels.shedding import shed
from markets.engine.kernels.tables import ACCEPTED_AT, BASE, CAP, ID, JOB, OFFER, SUPPLY, Tables, comes_first

STANDING, MARKED_SINCE, MARKED_JOB, MARKED_ID = 0, 1, 2, 3
SHARE = 64
UNSEEN, ON_PATH, DONE = 0, 1, 2


class Wanting(NamedTuple):
    """The rows that want a unit of each type, above what their owners were given.

    near: the better ones, as heaps with the best on top. far: how many more there are, in any order at the end of the
    type's share of near.rows; all of them are worse, and few are ever asked for.
    """

    near: Heaps
    far: IntArray


@compiled
def marks_of(tables: Tables, rows: IntArray) -> IntArray:
    """Return marks (T, 4) at these rows, one of each type, or below all where it is NONE: standing, moment, job, id."""
    marks = np.full((len(rows), 4), NONE)
    for place in range(len(rows)):
        row = rows[place]
        if row != NONE:
            one = tables.owners[row]
            marks[place, STANDING], marks[place, MARKED_SINCE] = tables.standings[row], tables.rows[row, ACCEPTED_AT]
            marks[place, MARKED_JOB], marks[place, MARKED_ID] = (
                tables.participants[one, JOB],
                tables.participants[one, ID],
            )
    return marks


@compiled
def resumed_acceptance(tables: Tables, marks: IntArray) -> IntArray:
    """Return what `deferred_acceptance` would: the row that each participant gets, or NONE.

    marks (T, 4): any; the fewer are outranked by them or outrank them wrongly, the faster.
    """
    won, vacant = np.full(len(tables.participants), NONE), np.maximum(0, tables.offers[:, SUPPLY])
    wanting = Wanting(heaps_with_room(tables.asked), np.zeros(len(vacant), np.int64))
    take(tables, marks, wanting, won, vacant)
    fill_vacancies(tables, wanting, won, vacant)
    rotate(tables, wanting, won)
    if np.any(vacant < 0):
        mark, highest = marks[:, STANDING], 2 * tables.offers[:, CAP] + 1
        bounds = mark + (highest - np.maximum(mark, 2 * tables.offers[:, BASE])) // SHARE
        shed(tables, won, np.maximum(0, tables.offers[:, SUPPLY]) - vacant, bounds)
    return won


@compiled
def take(tables: Tables, marks: IntArray, wanting: Wanting, won: IntArray, vacant: IntArray) -> None:
    """Let everybody take its first row above the marks, note the rows that it wants more, and count what is left.

    Near are rows whose standing is less than so large a share of the way from the mark to the base below it.
    """
    standing = marks[:, STANDING]
    near_from = standing - (standing - 2 * tables.offers[:, BASE]) // SHARE
    _take(tables, marks, wanting, near_from, won, vacant)


@innermost
def _take(
    tables: Tables, marks: IntArray, wanting: Wanting, near_from: IntArray, won: IntArray, vacant: IntArray
) -> None:
    near, far = wanting.near, wanting.far
    for one in range(len(won)):
        for row in range(tables.starts[one], tables.starts[one + 1]):
            standing = tables.standings[row]
            if standing == NONE:
                continue
            place = tables.rows[row, OFFER]
            mark = marks[place, STANDING]
            if standing > mark or (standing == mark and _precedes(tables, one, row, marks, place)):
                won[one] = row
                vacant[place] -= 1
                break
            if standing >= near_from[place]:
                append(near, place, row)
            else:
                far[place] += 1
                near.rows[near.firsts[place + 1] - far[place]] = row
    order_all(tables, near, BEST)


@innermost
def _precedes(tables: Tables, one: int, row: int, marks: IntArray, place: int) -> bool:
    """Return whether a row ranks above the mark that has its standing."""
    return comes_first(
        tables.rows[row, ACCEPTED_AT],
        tables.participants[one, JOB],
        tables.participants[one, ID],
        marks[place, MARKED_SINCE],
        marks[place, MARKED_JOB],
        marks[place, MARKED_ID],
    )


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
def fill_vacancies(tables: Tables, wanting: Wanting, won: IntArray, vacant: IntArray) -> None:
    """Let the best of those who want a vacant unit move up, until nobody does; vacant (T,): below 0 where over."""
    _fill(tables, wanting, won, vacant, np.arange(len(vacant)), np.ones(len(vacant), np.int64))


@innermost
def _fill(
    tables: Tables, wanting: Wanting, won: IntArray, vacant: IntArray, stack: IntArray, stacked: IntArray
) -> None:
    """Do so; all types are stacked, to be looked at."""
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
