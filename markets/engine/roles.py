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
from markets.engine.places import BoolArray, offsets, on_usable_unit, row_for, rows_above, spans

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
    """
    twice = (roles.jobs["on"] != NONE) & (roles.jobs["to"] != NONE)
    owners = np.repeat(np.arange(len(jobs)), 1 + twice)
    participants = _participants(jobs, roles.jobs, owners)
    held = _held(starts, rows, participants, owners)
    places, own_starts = _tables(starts, roles, owners, held)
    kept = np.zeros(len(rows), dtype=np.bool_)
    kept[held[held != NONE]] = True
    bids = np.empty(len(places), dtype=ROW)
    bids["offer"] = rows["type"][places]
    bids["bid"] = stated(offers, rows, places, np.flatnonzero(kept[places]))
    bids["accepted_at"] = rows["accepted_at"][places]
    return Book(offers, participants, own_starts, bids)


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


def _participants(jobs: Records, roles: Records, owners: IntArray) -> Records:
    """Return the participants of the jobs that own them; the second one of an owner is the unit that it moves from."""
    second = np.zeros(len(owners), dtype=np.bool_)
    second[1:] = owners[1:] == owners[:-1]
    ids, to, award = jobs["id"][owners], roles["to"][owners], roles["award"][owners]
    participants = np.empty(len(owners), dtype=PARTICIPANT)
    participants["id"] = np.where(second, source_participant_of(ids), participant_of(ids))
    participants["job"], participants["tenant"] = ids, jobs["tenant"][owners]
    participants["holds"], participants["waits"] = roles["on"][owners], award != NONE
    waiting, moving = np.flatnonzero(award != NONE), np.flatnonzero((to != NONE) & ~second)
    participants["holds"][waiting], participants["holds"][moving] = award[waiting], to[moving]
    return participants


def _held(starts: IntArray, rows: Records, participants: Records, owners: IntArray) -> IntArray:
    """Return the row of the unit that each participant sits on; NONE where it sits on none or has no such row."""
    held = np.full(len(participants), NONE)
    seated = np.flatnonzero((participants["holds"] != NONE) & (participants["waits"] == 0))
    held[seated] = row_for(starts, rows, owners[seated], participants["holds"][seated])
    return held


def _tables(starts: IntArray, roles: Roles, owners: IntArray, held: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of every participant, places in the jobs' rows, and where each one's begin.

    A job on two units bids for each of them alone. Any other bids from the row that it holds downwards, for the rows
    above too if it seeks, and for all of them if it holds none.
    """
    alone, seeks = roles.jobs["to"][owners] != NONE, roles.jobs["seeks"][owners] == 1
    firsts = np.where(alone | ((held != NONE) & ~seeks), held, starts[owners])
    ends = np.where(alone, np.where(held == NONE, NONE, held + 1), starts[owners + 1])
    places = spans(firsts, ends - firsts)
    own_starts = offsets(ends - firsts)
    if not roles.closed.any():
        return places, own_starts
    awake = ~roles.closed[places]
    return places[awake], offsets(awake)[own_starts]
