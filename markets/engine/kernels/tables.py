"""Whole books as matrices of integers, and the questions that all rules ask of them.

The columns are those of the records in markets.engine.book. Every loop takes the tables as they are, read-only and in
C order, so that each is compiled once.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np

from markets.engine.book import NONE, Book, IntArray, Records
from markets.engine.kernels.compiled import compiled, innermost

Array = TypeVar("Array", bound="np.ndarray[Any, Any]")

SUPPLY, BASE, CAP = 1, 2, 3
ID, JOB, TENANT, HOLDS, WAITS = 0, 1, 2, 3, 4
OFFER, BID, ACCEPTED_AT = 0, 1, 2
UNSOUND = "participants are not in the order of their ids, or rows or holdings name no offer"


class Tables(NamedTuple):
    """offers (T, 4), participants (P, 5), starts (P + 1,), rows (R, 3).

    owners (R,): the place of each row's participant. standings (R,): twice the counted bid, and one more for a holder
    of the row's type, so that most ranks are told by one comparison; NONE where the row is below the base price.
    asked (T,): how many rows there are for each offer.
    """

    offers: IntArray
    participants: IntArray
    starts: IntArray
    rows: IntArray
    owners: IntArray
    standings: IntArray
    asked: IntArray


def tables_of(book: Book) -> Tables:
    """Return the book as matrices, without copying it. ValueError where a loop would read or write beside them."""
    tables = matrices_of(book)
    if not _has_sound_participants(tables):
        raise ValueError(UNSOUND)
    owners, standings, asked, is_sound = _whose_and_how_high(tables)
    if not is_sound:
        raise ValueError(UNSOUND)
    return tables._replace(owners=still(owners), standings=still(standings), asked=still(asked))


def plain_tables_of(book: Book) -> Tables:
    """Return the same without what is told of rows, for loops that do not rank them. ValueError as above."""
    tables = matrices_of(book)
    if not _has_sound_participants(tables) or not _has_sound_rows(tables):
        raise ValueError(UNSOUND)
    return tables


def matrices_of(book: Book) -> Tables:
    """Return the same of a book that has been cleared, and so is sound."""
    offers, participants, rows = (matrix(records) for records in (book.offers, book.participants, book.rows))
    starts = still(np.ascontiguousarray(book.starts))
    return Tables(offers, participants, starts, rows, starts[:0], starts[:0], starts[:0])


def matrix(records: Records) -> IntArray:
    """Return records of integers as a matrix with a column for each field, without copying them."""
    names = records.dtype.names or ()
    return still(np.ascontiguousarray(records).view(np.int64).reshape(len(records), len(names)))


def still(array: Array) -> Array:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@innermost
def _has_sound_participants(tables: Tables) -> bool:
    starts, people, offers = tables.starts, len(tables.participants), len(tables.offers)
    if len(starts) != people + 1 or starts[0] != 0 or starts[people] != len(tables.rows):
        return False
    for one in range(people):
        if starts[one] > starts[one + 1] or not NONE <= tables.participants[one, HOLDS] < offers:
            return False
        if one > 0 and tables.participants[one - 1, ID] >= tables.participants[one, ID]:
            return False
    return True


@innermost
def _has_sound_rows(tables: Tables) -> bool:
    lowest, highest = 0, NONE
    for row in range(len(tables.rows)):
        lowest, highest = min(lowest, tables.rows[row, OFFER]), max(highest, tables.rows[row, OFFER])
    return bool(lowest == 0 and highest < len(tables.offers))


@compiled
def _whose_and_how_high(tables: Tables) -> tuple[IntArray, IntArray, IntArray, bool]:
    """Return owners, standings, how many rows there are for each offer, and whether all rows name one."""
    owners, standings = np.empty(len(tables.rows), np.int64), np.empty(len(tables.rows), np.int64)
    asked = np.zeros(len(tables.offers), np.int64)
    is_sound = _tell(tables, owners, standings, asked)
    return owners, standings, asked, is_sound


@innermost
def _tell(tables: Tables, owners: IntArray, standings: IntArray, asked: IntArray) -> bool:
    """Fill in the columns; return False at a row that names no offer."""
    offers = len(tables.offers)
    for one in range(len(tables.participants)):
        holds = tables.participants[one, HOLDS]
        for row in range(tables.starts[one], tables.starts[one + 1]):
            place = tables.rows[row, OFFER]
            if not 0 <= place < offers:
                return False
            bid = min(tables.rows[row, BID], tables.offers[place, CAP])
            owners[row] = one
            standings[row] = 2 * bid + (place == holds) if bid >= tables.offers[place, BASE] else NONE
            asked[place] += 1
    return True


@compiled
def offers_of(tables: Tables, won: IntArray) -> IntArray:
    """Return the places of the offers that rows are for, NONE for none."""
    places = np.empty(len(won), np.int64)
    for one in range(len(won)):
        row = won[one]
        places[one] = NONE if row == NONE else tables.rows[row, OFFER]
    return places


@innermost
def counted(tables: Tables, row: int) -> int:
    """Return the bid of an admitted row as it counts: at most the cap."""
    return int(tables.standings[row] >> 1)


@innermost
def admitted(tables: Tables, row: int) -> bool:
    """Return whether the row's counted bid reaches the base price."""
    return bool(tables.standings[row] != NONE)


@innermost
def outranks(tables: Tables, row: int, other: int) -> bool:
    """Return whether an admitted row stands above another of the same type.

    By counted bid, then holders, then the earlier acceptance, then the lower job, then the lower participant.
    """
    standing, other_standing = tables.standings[row], tables.standings[other]
    if standing != other_standing:
        return bool(standing > other_standing)
    return is_earlier(tables, tables.owners[row], row, tables.owners[other], other)


@innermost
def is_earlier(tables: Tables, one: int, row: int, other_one: int, other: int) -> bool:
    """Return whether a participant's row was accepted before another's, or at once with it and has the lower ids."""
    return comes_first(
        tables.rows[row, ACCEPTED_AT],
        tables.participants[one, JOB],
        tables.participants[one, ID],
        tables.rows[other, ACCEPTED_AT],
        tables.participants[other_one, JOB],
        tables.participants[other_one, ID],
    )


@innermost
def comes_first(since: int, job: int, number: int, other_since: int, other_job: int, other_number: int) -> bool:
    """Return whether one of two equal bids ranks above the other: by acceptance, then job, then participant."""
    if since != other_since:
        return since < other_since
    return job < other_job if job != other_job else number < other_number


@innermost
def value(tables: Tables, row: int) -> int:
    """Return the bid of any row as it counts, NONE below the base price; for tables without standings."""
    place = tables.rows[row, OFFER]
    bid = int(min(tables.rows[row, BID], tables.offers[place, CAP]))
    return bid if bid >= tables.offers[place, BASE] else NONE
