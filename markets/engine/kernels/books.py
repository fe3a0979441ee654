"""One walk along the jobs of a floor writes its book: who takes part, and with which bids."""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.tables import ACCEPTED_AT, BID, CAP, HOLDS, ID, JOB, OFFER, TENANT, WAITS

ON, TO, AWARD, SEEKS = 0, 1, 2, 3
TYPE, MAX_PRICE, KEEP_PRICE, SINCE = 0, 1, 2, 3
FIRST_PART = 2


class Parts(NamedTuple):
    """What a book is made of, as matrices of the records that `book_from` in markets.engine.roles takes.

    people (J, 4): id and tenant of each job, and the ids of its two parts. columns: those of rows that are their types,
    max prices, keep prices and moments of acceptance.
    """

    offers: IntArray
    people: IntArray
    starts: IntArray
    rows: IntArray
    roles: IntArray
    closed: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    columns: IntArray


@compiled
def written(parts: Parts) -> tuple[IntArray, IntArray, IntArray]:
    """Return participants (P, 5), starts (P + 1,) and rows (R, 3) of the book; empty starts for unsound parts.

    Behind the rows may be room for more: the last of starts says how many there are.
    """
    starts = np.zeros(0, np.int64)
    participants, rows = np.empty((0, 5), np.int64), np.empty((0, 3), np.int64)
    if _are_sound(parts):
        people = _count(parts)
        starts = np.zeros(people + 1, np.int64)
        participants, rows = np.empty((people, 5), np.int64), np.empty((len(parts.rows) + people, 3), np.int64)
        if not _write(parts, participants, starts, rows):
            starts = starts[:0]
    return participants, starts, rows


@innermost
def _are_sound(parts: Parts) -> bool:
    """Return whether every job has a role and a run of rows, and every row a mark."""
    jobs, starts, rows = len(parts.people), parts.starts, len(parts.rows)
    if len(starts) != jobs + 1 or len(parts.roles) != jobs or len(parts.closed) != rows:
        return False
    for job in range(jobs):
        if starts[job] > starts[job + 1]:
            return False
    return bool(starts[0] >= 0 and starts[jobs] <= rows)


@innermost
def _count(parts: Parts) -> int:
    people = 0
    for job in range(len(parts.people)):
        people += _parts_of(parts, job)
    return people


@innermost
def _write(parts: Parts, participants: IntArray, starts: IntArray, rows: IntArray) -> bool:
    """Fill in the book; return False at a row whose type is not offered."""
    one, bids = 0, 0
    for job in range(len(parts.people)):
        for part in range(_parts_of(parts, job)):
            holds = _holds(parts, job, part)
            held = _held(parts, job, holds)
            participants[one, ID] = parts.people[job, FIRST_PART + part]
            participants[one, JOB], participants[one, TENANT] = parts.people[job, 0], parts.people[job, 1]
            participants[one, HOLDS], participants[one, WAITS] = holds, parts.roles[job, AWARD] != NONE
            first, end = _span(parts, job, held)
            for row in range(first, end):
                if not parts.closed[row]:
                    kind = parts.rows[row, parts.columns[TYPE]]
                    if not 0 <= kind < len(parts.offers):
                        return False
                    rows[bids, OFFER] = kind
                    rows[bids, BID] = _stated(parts, row, held)
                    rows[bids, ACCEPTED_AT] = parts.rows[row, parts.columns[SINCE]]
                    bids += 1
            one += 1
            starts[one] = bids
    return True


@innermost
def _parts_of(parts: Parts, job: int) -> int:
    """Return in how many parts a job takes part: in two where it is on two units."""
    return 2 if parts.roles[job, ON] != NONE and parts.roles[job, TO] != NONE else 1


@innermost
def _holds(parts: Parts, job: int, part: int) -> int:
    """Return the type of which one part of a job has a unit or an award; the second is the unit that it moves from."""
    if part == 0 and parts.roles[job, TO] != NONE:
        return int(parts.roles[job, TO])
    award = parts.roles[job, AWARD]
    return int(award if award != NONE else parts.roles[job, ON])


@innermost
def _held(parts: Parts, job: int, holds: int) -> int:
    """Return the row of the unit that a part sits on; NONE where it sits on none or has no such row."""
    found = NONE
    if holds != NONE and parts.roles[job, AWARD] == NONE:
        for row in range(parts.starts[job], parts.starts[job + 1]):
            if parts.rows[row, parts.columns[TYPE]] == holds:
                found = row
    return found


@innermost
def _span(parts: Parts, job: int, held: int) -> tuple[int, int]:
    """Return where the rows begin and end that a part of a job bids by.

    A job on two units bids for each of them alone. Any other bids from the row that it holds downwards, for the rows
    above too if it seeks, and for all of them if it holds none.
    """
    if parts.roles[job, TO] != NONE:
        return (0, 0) if held == NONE else (held, held + 1)
    is_settled = held != NONE and parts.roles[job, SEEKS] != 1
    return held if is_settled else int(parts.starts[job]), int(parts.starts[job + 1])


@innermost
def _stated(parts: Parts, row: int, held: int) -> int:
    """Return what a row bids: its max price, or its keep price where that is held and more (see `stated`)."""
    bid = parts.rows[row, parts.columns[MAX_PRICE]]
    if bid == NONE:
        return int(parts.offers[parts.rows[row, parts.columns[TYPE]], CAP])
    return int(max(bid, parts.rows[row, parts.columns[KEEP_PRICE]]) if row == held else bid)
