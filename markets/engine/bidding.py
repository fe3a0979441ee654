"""From the floor to the book: what every job bids at this instant, and what it pays (MECHANISM section 2)."""

import numpy as np

from markets.engine.book import NONE, OFFER, Book, IntArray, Records
from markets.engine.clearing import Clearing
from markets.engine.floor import Floor
from markets.engine.places import row_for
from markets.engine.roles import Roles, book_from, stated


def book_as_it_stands(floor: Floor, roles: Roles) -> Book:
    """Return the book of a floor on which every tenure counts, its jobs in these roles."""
    return book_from(offers_of(floor), floor.jobs, floor.starts, floor.rows, roles)


def offers_of(floor: Floor) -> Records:
    """Return what the cluster offers of every type."""
    offers = np.empty(len(floor.types), dtype=OFFER)
    offers["type"], offers["base"], offers["cap"] = (floor.types[name] for name in ("id", "base", "cap"))
    usable = floor.units["type"][floor.units["usable"] == 1]
    offers["supply"] = np.bincount(usable, minlength=len(floor.types))
    return offers


def own_bids(floor: Floor, tenures: IntArray) -> IntArray:
    """Return the most that is paid for these tenures: the keep price, at most the cap; the base price without a row."""
    jobs, types = floor.tenures["job"][tenures], floor.tenures["type"][tenures]
    rows = row_for(floor.starts, floor.rows, jobs, types)
    bids: IntArray = floor.types["base"][types]
    there = np.flatnonzero(rows != NONE)
    keep = stated(floor.types, floor.rows, rows[there], np.arange(len(there)))
    bids[there] = np.minimum(floor.types["cap"][types[there]], keep)
    return bids


def prices_paid(floor: Floor, clearing: Clearing) -> IntArray:
    """Return what every tenure pays from now on: the lease price in force, never above its own bid there.

    Micro-dollars per hour (L,). Whether a lease is billed at all (only once active) is the applier's to know.
    """
    leases = np.array([clearing.prices[type_id].lease for type_id in floor.types["id"].tolist()], dtype=np.int64)
    paid: IntArray = np.minimum(leases[floor.tenures["type"]], own_bids(floor, np.arange(len(floor.tenures))))
    return paid
