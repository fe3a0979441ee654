"""Whole books as matrices of integers, and the questions that all rules ask of them.

The columns are those of the records in markets.engine.book. Every loop takes the tables as they are, read-only and in
C order, so that each is compiled once.
"""

from typing import NamedTuple

import numpy as np

from markets.engine.book import NONE, Book, IntArray, Records
from markets.engine.kernels.compiled import compiled

SUPPLY, BASE, CAP = 1, 2, 3
ID, JOB, TENANT, HOLDS, WAITS = 0, 1, 2, 3, 4
OFFER, BID, ACCEPTED_AT = 0, 1, 2


class Tables(NamedTuple):
    """offers (T, 4), participants (P, 5), starts (P + 1,), rows (R, 3), owners (R,): whose row each is."""

    offers: IntArray
    participants: IntArray
    starts: IntArray
    rows: IntArray
    owners: IntArray


def tables_of(book: Book) -> Tables:
    """Return the book as matrices, without copying it. ValueError where a loop would read or write beside them."""
    offers, participants, rows = (_matrix(records) for records in (book.offers, book.participants, book.rows))
    starts = _still(np.ascontiguousarray(book.starts))
    if not _sound(offers, participants, starts, rows):
        raise ValueError("participants are not in the order of their ids, or rows or holdings name no offer")
    return Tables(offers, participants, starts, rows, _owners(starts))


def _matrix(records: Records) -> IntArray:
    names = records.dtype.names or ()
    return _still(np.ascontiguousarray(records).view(np.int64).reshape(len(records), len(names)))


def _still(array: IntArray) -> IntArray:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@compiled
def _sound(offers: IntArray, participants: IntArray, starts: IntArray, rows: IntArray) -> bool:
    people = len(participants)
    if len(starts) != people + 1 or starts[0] != 0 or starts[people] != len(rows):
        return False
    for one in range(people):
        if starts[one] > starts[one + 1] or not NONE <= participants[one, HOLDS] < len(offers):
            return False
        if one > 0 and participants[one - 1, ID] >= participants[one, ID]:
            return False
    return len(rows) == 0 or (rows[:, OFFER].min() >= 0 and rows[:, OFFER].max() < len(offers))


@compiled
def _owners(starts: IntArray) -> IntArray:
    owners = np.empty(starts[-1], np.int64)
    for one in range(len(starts) - 1):
        owners[starts[one] : starts[one + 1]] = one
    return owners


@compiled
def counted(tables: Tables, row: int) -> int:
    """Return the bid of a row as it counts: at most the cap."""
    return int(min(tables.rows[row, BID], tables.offers[tables.rows[row, OFFER], CAP]))


@compiled
def admitted(tables: Tables, row: int) -> bool:
    """Return whether the row's counted bid reaches the base price."""
    return bool(counted(tables, row) >= tables.offers[tables.rows[row, OFFER], BASE])


@compiled
def outranks(tables: Tables, row: int, other: int) -> bool:
    """Return whether a row stands above another of the same type.

    By counted bid, then holders, then the earlier acceptance, then the lower job, then the lower participant.
    """
    bid, other_bid = counted(tables, row), counted(tables, other)
    if bid != other_bid:
        return bid > other_bid
    place = tables.rows[row, OFFER]
    one, two = tables.owners[row], tables.owners[other]
    holds, other_holds = tables.participants[one, HOLDS] == place, tables.participants[two, HOLDS] == place
    if holds != other_holds:
        return bool(holds)
    since, other_since = tables.rows[row, ACCEPTED_AT], tables.rows[other, ACCEPTED_AT]
    if since != other_since:
        return bool(since < other_since)
    job, other_job = tables.participants[one, JOB], tables.participants[two, JOB]
    if job != other_job:
        return bool(job < other_job)
    return bool(tables.participants[one, ID] < tables.participants[two, ID])
