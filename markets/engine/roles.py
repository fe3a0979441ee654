"""What jobs are in the book besides their bids: where they sit, what they move to or wait for, which rows are awake.

Bids change often and have a history of their own; roles change rarely. The two together are the whole book, so that a
receipt keeps the roles and finds the bids (MECHANISM section 3).
"""

from dataclasses import dataclass

import numpy as np

from markets.engine.book import (
    NONE,
    PARTICIPANT,
    ROW,
    Book,
    IntArray,
    Records,
    participant_of,
    record,
    source_participant_of,
)
from markets.engine.floor import Floor
from markets.engine.kernels.books import Parts, written
from markets.engine.kernels.tables import matrix, still
from markets.engine.places import BoolArray, on_usable_unit, row_for, rows_above

ROLE = record("on", "to", "award", "seeks")
"""What does not matter to the book is left at NONE or 0, so that equal roles are equal. Types are places.

on: the type it runs on, where its unit is usable. to: the type it is moving to. award: the type it waits for, of a job
that has no usable unit and moves nowhere. seeks: 1 where a running job's rows above its own are awake, but for those
closed; never of a job that is moving.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """The roles of some jobs with their launch tables.

    closed: which rows are in a cool-down, all of them above the one that their seeking job runs on.
    Shapes: jobs (J,) of ROLE, in the order of the jobs; closed (R,), in the order of their rows.
    """

    jobs: Records
    closed: BoolArray


def roles_as_they_stand(floor: Floor) -> Roles:
    """Return the roles of the jobs of a floor on which every tenure counts."""
    jobs, types = floor.jobs, floor.tenures["type"]
    sitting = np.flatnonzero(jobs["source"] != NONE)
    sitting = sitting[on_usable_unit(floor, jobs["source"][sitting])]
    moving = np.flatnonzero(jobs["destination"] != NONE)
    roles = np.empty(len(jobs), dtype=ROLE)
    roles["on"], roles["to"], roles["award"], roles["seeks"] = NONE, NONE, jobs["award_type"], 0
    roles["on"][sitting] = types[jobs["source"][sitting]]
    roles["seeks"][sitting] = jobs["seeking"][sitting]
    roles["to"][moving] = types[jobs["destination"][moving]]
    roles["seeks"][moving] = 0
    roles["award"][sitting] = roles["award"][moving] = NONE
    return Roles(roles, _closed(floor, roles))


def _closed(floor: Floor, roles: Records) -> BoolArray:
    """Return which rows seeking jobs leave out for their cool-down."""
    closed = np.zeros(len(floor.rows), dtype=np.bool_)
    seekers = np.flatnonzero(roles["seeks"])
    held = row_for(floor.starts, floor.rows, seekers, roles["on"][seekers])
    above, _ = rows_above(floor.starts, seekers, held)
    closed[above] = floor.rows["closed_until"][above] > floor.now
    return closed


def book_from(offers: Records, jobs: Records, starts: IntArray, rows: Records, roles: Roles) -> Book:
    """Return the book of these jobs, each in its role: one participant, or two where it is on two units.

    Args:
        offers: OFFER (T,), in the order of the types that rows and roles name.
        jobs: records (J,) with at least the fields id and tenant, by id.
        starts: (J + 1,), job i has rows[starts[i] : starts[i + 1]].
        rows: records (R,) with at least the fields type, max_price, keep_price and accepted_at of TABLE_ROW.
        roles: those of exactly these jobs and rows.

    Raises:
        ValueError: starts or roles are not of these jobs and rows, or a row's type is no place in offers.
    """
    ids = jobs["id"]
    parts = Parts(
        matrix(offers),
        still(np.column_stack((ids, jobs["tenant"], participant_of(ids), source_participant_of(ids)))),
        still(np.ascontiguousarray(starts)),
        matrix(rows),
        matrix(roles.jobs),
        still(np.ascontiguousarray(roles.closed)),
        _columns(rows, "type", "max_price", "keep_price", "accepted_at"),
    )
    participants, own_starts, bids = written(parts)
    if not len(own_starts):
        raise ValueError("a job has no role or no run of rows, or a row names no offer")
    return Book(offers, participants.view(PARTICIPANT)[:, 0], own_starts, bids[: own_starts[-1]].view(ROW)[:, 0])


def _columns(records: Records, *names: str) -> IntArray:
    """Return which fields of the records these are."""
    fields = records.dtype.names or ()
    return still(np.array([fields.index(name) for name in names], dtype=np.int64))


def is_source(participants: Records) -> BoolArray:
    """Return which participants stand for the unit that their job is moving away from."""
    found: BoolArray = participants["id"] == source_participant_of(participants["job"])
    return found


def stated(types: Records, rows: Records, places: IntArray, kept: IntArray) -> IntArray:
    """Return what the rows at these places bid: their max price, but those at places[kept] their keep price.

    A keep price counts as at least the max price: an agent may raise a max price above it, and a job that bid less to
    stay than to come would never rest.
    """
    bids: IntArray = rows["max_price"][places]
    capped = np.flatnonzero(bids == NONE)
    bids[kept] = np.maximum(bids[kept], rows["keep_price"][places[kept]])
    bids[capped] = types["cap"][rows["type"][places[capped]]]
    return bids
