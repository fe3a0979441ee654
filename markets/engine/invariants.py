"""What must hold of a floor, checked without trusting whoever made it.

The check returns sentences, one per violation; an empty list is a clean bill.
"""

from collections.abc import Iterator

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.dynamics import LEASES_PER_JOB
from markets.engine.floor import Floor
from markets.engine.places import column, unit_of


def check_floor(floor: Floor) -> list[str]:
    """Return what is wrong with a floor: its tables' order, double occupation, I8 and I19 of RELIABILITY section 1."""
    return [*_order(floor), *_occupation(floor), *_jobs(floor), *_awards(floor)]


def _order(floor: Floor) -> Iterator[str]:
    """Yield tables that are not in the order in which they are looked up, and seats that are another job's."""
    for name, ids in (("types", floor.types["id"]), ("units", floor.units["id"]), ("jobs", floor.jobs["id"])):
        if (np.diff(ids) <= 0).any():
            yield f"{name}: not by id, or one twice"
    if (np.diff(floor.tenures["job"]) < 0).any():
        yield "tenures: not by job"
    if len(floor.starts) != len(floor.jobs) + 1 or (np.diff(floor.starts, prepend=0, append=len(floor.rows)) < 0).any():
        yield "starts: not the launch tables of these jobs"
    for name in ("source", "destination"):
        owners = column(floor.tenures, "job", floor.jobs[name])
        for job in floor.jobs["id"][(owners != NONE) & (owners != np.arange(len(floor.jobs)))].tolist():
            yield f"job {job}: its {name} is another job's lease"


def _occupation(floor: Floor) -> Iterator[str]:
    """Yield units and leases that disagree about who sits where."""
    tenures = floor.tenures
    units, counts = np.unique(tenures["unit"], return_counts=True)
    for unit, count in zip(units[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        yield f"unit {unit}: {count} leases at once"
    places = unit_of(floor, np.arange(len(tenures)))
    same_lease = column(floor.units, "lease", places) == tenures["lease"]
    same_type = column(floor.units, "type", places) == tenures["type"]
    for lease, unit in tenures[["lease", "unit"]][~(same_lease & same_type)].tolist():
        yield f"lease {lease}: unit {unit} does not carry it"


def _jobs(floor: Floor) -> Iterator[str]:
    """Yield what is wrong with single jobs' seats and awards."""
    jobs = floor.jobs
    counts = np.bincount(floor.tenures["job"], minlength=len(jobs))
    crowded = counts > LEASES_PER_JOB
    for job, count in zip(jobs["id"][crowded].tolist(), counts[crowded].tolist(), strict=True):
        yield f"job {job}: {count} leases at once"
    moves = jobs["destination"] != NONE
    for job in jobs["id"][moves & (jobs["source"] == NONE)].tolist():
        yield f"job {job}: a destination without a source"
    for job in jobs["id"][moves & (jobs["award"] != NONE)].tolist():
        yield f"job {job}: an award beside two leases"


def _awards(floor: Floor) -> Iterator[str]:
    """Yield types with more waiting awards than units that are unoccupied or leaving."""
    kinds, units = len(floor.types), floor.units
    backing = units["type"][(units["usable"] == 1) & ~np.isin(units["lease"], _staying(floor))]
    backed = np.bincount(backing, minlength=kinds)
    awards = np.bincount(floor.jobs["award_type"][floor.jobs["award"] != NONE], minlength=kinds)
    for place in np.flatnonzero(awards > backed).tolist():
        yield (
            f"type {floor.types['id'][place]}: {awards[place]} awards wait for {backed[place]} free or leaving units"
        )


def _staying(floor: Floor) -> IntArray:
    """Return the leases that are not on their way out: neither told to leave nor under notice."""
    sources = floor.tenures[floor.jobs["source"][floor.jobs["source"] != NONE]]
    destinations = floor.tenures[floor.jobs["destination"][floor.jobs["destination"] != NONE]]
    return np.concatenate((sources["lease"][sources["notice"] == NONE], destinations["lease"]))
