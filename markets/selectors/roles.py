"""Roles as a receipt keeps them: what jobs were in a book besides their bids, and what of it has to be written down.

A job with open bids that was plainly queued needs no row. Rows name jobs that ran, moved or waited for a unit that
they had won, those that were in the book without any bid, and those (`absent`) that were not, though they had bids.
"""

from dataclasses import dataclass

import numpy as np

from laissez.bulk import Integer, Table, fetch_one
from markets.engine.book import NONE, IntArray, Records, record
from markets.engine.floor import Floor
from markets.engine.roles import Roles
from markets.selectors.floor import places_of

KEPT = record("job", "on", "to", "award", "seeks", "absent")
"""One job's role, types by id; NONE and 0 where something does not apply."""

_TERMS = Table(
    Integer("job", "it.job_id"),
    Integer("on", "it.on_type"),
    Integer("to", "it.to_type"),
    Integer("award", "it.award_type"),
    Integer("seeks", "it.seeks::int"),
    Integer("absent", "it.absent::int"),
)
_CLOSED = Table(Integer("job", "it.job_id"), Integer("type", "closed.type"))
_PRESENT = "FROM markets_role AS it {more} WHERE it.cluster_id = %(cluster)s AND it.until_number IS NULL"
_FORMER = """
    FROM markets_role AS it {more} WHERE it.cluster_id = %(cluster)s
    AND it.from_number <= %(number)s AND (it.until_number IS NULL OR it.until_number > %(number)s)
"""
_EACH_CLOSED = "CROSS JOIN unnest(it.closed_types) AS closed(type)"


@dataclass(frozen=True, slots=True, eq=False)
class KeptRoles:
    """terms: of KEPT, by job; closed: pairs of job and type."""

    terms: Records
    closed: frozenset[tuple[int, int]]


def in_force(cluster_id: int, number: int | None = None) -> KeptRoles:
    """The roles as they were at the clearing with this number, or as they are kept now."""
    rest = _PRESENT if number is None else _FORMER
    terms, closed = (_TERMS.select(rest.format(more="")), _CLOSED.select(rest.format(more=_EACH_CLOSED)))
    found = fetch_one(f"SELECT {terms}, {closed}", {"cluster": cluster_id, "number": number})
    rows = _TERMS.records(found[0])
    rows = rows[np.argsort(rows["job"], kind="stable")]
    return KeptRoles(rows.view(KEPT), frozenset(_CLOSED.records(found[1]).tolist()))


def to_keep(floor: Floor, absent: IntArray, roles: Roles) -> KeptRoles:
    """What has to be known of the roles of a floor's jobs, and of jobs that have open bids and are not on it."""
    terms = roles.jobs
    told = (terms["on"] != NONE) | (terms["to"] != NONE) | (terms["award"] != NONE) | (terms["seeks"] == 1)
    told |= np.diff(floor.starts) == 0
    types = np.append(floor.types["id"], NONE)
    kept = np.full(int(told.sum()) + len(absent), NONE, dtype=KEPT)
    kept["job"] = np.concatenate((floor.jobs["id"][told], absent))
    there = slice(0, int(told.sum()))
    for name in ("on", "to", "award"):
        kept[name][there] = types[terms[name][told]]
    kept["seeks"], kept["absent"] = 0, 1
    kept["seeks"][there], kept["absent"][there] = terms["seeks"][told], 0
    rows = np.flatnonzero(roles.closed)
    owners = np.searchsorted(floor.starts, rows, side="right") - 1
    pairs = zip(floor.jobs["id"][owners].tolist(), types[floor.rows["type"][rows]].tolist(), strict=True)
    return KeptRoles(kept[np.argsort(kept["job"], kind="stable")], frozenset(pairs))


def differences(present: KeptRoles, wanted: KeptRoles) -> tuple[list[int], Records]:
    """The jobs whose role is not what it was any more, and the roles that are new."""
    places = places_of(wanted.terms["job"], present.terms["job"])
    same = places != NONE
    same[same] = present.terms[places[same]] == wanted.terms[same]
    reopened = {job for job, _ in present.closed ^ wanted.closed}
    if reopened:
        same &= ~np.isin(wanted.terms["job"], list(reopened))
    stays = np.zeros(len(present.terms), dtype=np.bool_)
    stays[places[same]] = True
    return present.terms["job"][~stays].tolist(), wanted.terms[~same]
