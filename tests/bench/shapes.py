"""Books of fixed shapes, seeded, made by array operations: what the clearing is measured on."""

from dataclasses import replace

import numpy as np

from markets.engine.book import NONE, OFFER, PARTICIPANT, ROW, Book, IntArray
from markets.engine.clearing import clear

BASE, CAP = 300_000, 2_000_000
TENANTS = 50
SERVED = 0.5
INCUMBENTS = 0.6
TIES = 0.05
TIED_BIDS = 40


def market(jobs: int, *, seed: int, types: int = 20, rows: int = 5) -> Book:
    """A book in which half of the jobs are served, 60 % of those hold what they are served with, and 5 % of bids tie.

    Every job bids on so many types in an order of its own; there are fifty tenants.
    """
    chance = np.random.default_rng(seed)
    book = Book(
        offers=_records(OFFER, np.arange(types), _supply(round(jobs * SERVED), types), BASE, CAP),
        participants=_records(
            PARTICIPANT, 2 * np.arange(jobs), np.arange(jobs), chance.integers(0, TENANTS, jobs), NONE, 0
        ),
        starts=np.arange(0, jobs * rows + 1, rows),
        rows=_records(ROW, _tables(chance, jobs, types, rows), *_bids(chance, jobs * rows)),
    )
    return with_incumbents(book, chance)


def with_incumbents(book: Book, chance: np.random.Generator) -> Book:
    """The book in which so many of those who are served hold it already."""
    assigned = clear(book).assigned
    participants = book.participants.copy()
    stays = (assigned != NONE) & (chance.random(len(assigned)) < INCUMBENTS)
    participants["holds"] = np.where(stays, assigned, NONE)
    return replace(book, participants=participants)


def changed(book: Book, share: float, *, seed: int) -> Book:
    """The book a moment later: so many of its bids have new values, and everything else stands."""
    chance = np.random.default_rng(seed)
    rows = book.rows.copy()
    picked = chance.choice(len(rows), max(1, round(share * len(rows))), replace=False)
    rows["bid"][picked], _ = _bids(chance, len(picked))
    rows["accepted_at"][picked] = 2 * len(rows)
    return replace(book, rows=rows)


def chain(jobs: int) -> Book:
    """A book in which the last job displaces one after the other: one unit each, and who loses one wants the next."""
    settled = jobs - 1
    wanted = np.column_stack((np.arange(settled), np.arange(1, settled + 1) % settled)).ravel()
    return Book(
        offers=_records(OFFER, np.arange(settled), 1, 1, 10_000_000),
        participants=_records(PARTICIPANT, 2 * np.arange(jobs), np.arange(jobs), np.arange(jobs), NONE, 0),
        starts=np.append(np.arange(0, 2 * settled + 1, 2), 2 * settled + 1),
        rows=_records(
            ROW,
            np.append(wanted, 0),
            np.append(np.tile([1_000, 2_000], settled), 3_000),
            np.append(np.ones(2 * settled, np.int64), 2),
        ),
    )


def _supply(units: int, types: int) -> IntArray:
    return np.full(types, units // types) + (np.arange(types) < units % types)


def _tables(chance: np.random.Generator, jobs: int, types: int, rows: int) -> IntArray:
    """Return for each job so many different types, in the order in which it wants them."""
    picked = np.empty((jobs, rows), np.int64)
    for first in range(0, jobs, 100_000):
        part = picked[first : first + 100_000]
        part[:] = chance.random((len(part), types)).argsort(axis=1)[:, :rows]
    return picked.ravel()


def _bids(chance: np.random.Generator, count: int) -> tuple[IntArray, IntArray]:
    """Return bids and the moments of their acceptance; so many of them are one of a few, at one moment."""
    bids = chance.integers(BASE, CAP, count)
    ties = chance.random(count) < TIES
    bids[ties] = BASE + (CAP - BASE) // TIED_BIDS * chance.integers(0, TIED_BIDS, np.count_nonzero(ties))
    accepted_at = 1 + chance.permutation(count)
    accepted_at[ties] = 0
    return bids, accepted_at


def _records(kind: "np.dtype[np.void]", *columns: IntArray | int) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    table = np.empty(max(np.size(column) for column in columns), kind)
    for name, column in zip(kind.names or (), columns, strict=True):
        table[name] = column
    return table
