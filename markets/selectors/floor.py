"""The floor of a cluster as arrays: what one tick reads, in one statement, under the cluster's lock.

One statement reads one snapshot of the database, so whatever is true of the floor was true at one instant, and its
watermark is that of the very bids beside it. What there is much of (jobs, bids, leases, units) may be taken from a
former snapshot where the log of changes says that it is what it was; the result is the same.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from laissez.bulk import Instant, Integer, Table, fetch_one
from laissez.clock import microseconds
from markets.engine.book import NONE, IntArray, Records
from markets.engine.floor import ACTIVE, CLOSING, JOB, NOTICE_REASONS, PENDING, TABLE_ROW, TENURE, TYPE, UNIT, Floor
from workers.models import Cluster

MOVES_WINDOW = timedelta(hours=1)

_TYPES = Table(
    Integer("id", "it.id"), Integer("base", "it.base_price_per_hour"), Integer("cap", "it.cap_price_per_hour")
)
_UNITS = Table(
    Integer("id", "unit.id"),
    Integer("type", "unit.type_id"),
    Integer("usable", "(unit.healthy AND host.state = 'ready')::int"),
)
_LEASES = Table(
    Integer("job", "it.job_id"),
    Integer("id", "it.id"),
    Integer("unit", "it.accelerator_id"),
    Integer("type", "it.type_id"),
    Integer("state", f"CASE it.state WHEN 'pending' THEN {PENDING} WHEN 'active' THEN {ACTIVE} ELSE {CLOSING} END"),
    Integer("primary", "coalesce(upper_inf(it.primary_during), false)::int"),
    Instant("since", "it.handed_over_at"),
)
_JOBS = Table(
    Integer("id", "it.id"),
    Integer("tenant", "it.tenant_id"),
    Integer("seeks", "(it.upgrade <> 'never')::int"),
    Integer("leaving", "(it.leaving_since IS NOT NULL)::int"),
)
BIDS = Table(
    Integer("job", "it.job_id"),
    Integer("position", "it.position"),
    Integer("type", "it.type_id"),
    Integer("max_price", "it.max_price_per_hour"),
    Integer("keep_price", "it.keep_price_per_hour"),
    Instant("accepted_at", "it.accepted_at"),
)
_NOTICES = Table(
    Integer("lease", "it.lease_id"),
    Integer("id", "it.id"),
    Integer("reason", f"array_position(ARRAY{list(NOTICE_REASONS)}::text[], it.reason::text) - 1"),
    Instant("deadline", "it.deadline"),
)
_AWARDS = Table(
    Integer("job", "it.job_id"),
    Integer("id", "it.id"),
    Integer("type", "it.type_id"),
    Instant("since", "it.since"),
)
_MOVES = Table(Integer("job", "it.job_id"), Instant("deadline", "it.deadline"))
_TIRED = Table(Integer("job", "it.job_id"), Instant("until", "it.until"))
_RESTS = Table(Integer("job", "it.job_id"), Integer("type", "it.type_id"), Instant("until", "it.until"))
_DUE = Table(Instant("at", "it.at"))
_LATE = Table(Integer("job", "it.job_id"))


def _of_jobs(table: str, where: str) -> str:
    """FROM a table whose rows, called `it`, name a job of the cluster."""
    return (
        f"FROM {table} AS it JOIN workers_job AS job ON job.id = it.job_id"
        f" WHERE job.cluster_id = %(cluster)s AND {where}"
    )


_THE_UNITS = """
    FROM workers_accelerator AS unit JOIN workers_host AS host ON host.id = unit.host_id
    WHERE host.cluster_id = %(cluster)s AND host.state <> 'retired'
"""
_OPEN_LEASES = """
    FROM workers_lease AS it JOIN workers_host AS host ON host.id = it.host_id
    WHERE host.cluster_id = %(cluster)s AND it.state <> 'closed'
"""
# Jobs that have moved as often as the cluster allows in an hour seek nothing until the move that makes it so many is
# an hour ago.
_TIRED_JOBS = f"""
    FROM (
        SELECT it.job_id, it.closed_at + %(window)s AS until,
               row_number() OVER (PARTITION BY it.job_id ORDER BY it.closed_at DESC) AS place
        {_of_jobs("workers_migration", "it.state = 'done' AND it.closed_at > %(since)s")}
    ) AS it WHERE it.place = greatest(%(most_moves)s, 1)
"""
_OPEN_JOBS = "FROM workers_job AS it WHERE it.cluster_id = %(cluster)s AND it.state IN ('queued', 'running')"
_OPEN_BIDS = "FROM markets_bid AS it WHERE it.cluster_id = %(cluster)s AND it.closed_at IS NULL"

# The next moments that come by themselves and that no part of the floor tells of.
_DEADLINES = f"""
    FROM (
        SELECT min(it.queue_deadline) AS at FROM workers_job AS it
        WHERE it.cluster_id = %(cluster)s AND it.state = 'queued' AND it.queue_deadline > %(now)s
        UNION ALL
        SELECT min(it.deadline) AS at
        {_of_jobs("markets_award", "it.state = 'waiting' AND it.deadline > %(now)s")}
    ) AS it WHERE it.at IS NOT NULL
"""  # noqa: S608  (nothing but this module's own words)

# What has changed since the log was taken, as far as this very statement sees it, is read with the rest, or what is
# kept of it would not be of the same snapshot. The notes of it stay for the next tick.
_CHANGED_LATE = """
    WITH late AS MATERIALIZED (SELECT DISTINCT job_id FROM markets_changes_noted(%(cluster)s) AS noted(job_id))
"""
_NAMED = "ANY(%(changed)s::bigint[] || ARRAY(SELECT job_id FROM late WHERE job_id IS NOT NULL))"
_OTHERS = "(%(others)s OR EXISTS (SELECT FROM late WHERE job_id IS NULL))"

_FLOOR = ", ".join(
    (
        "pg_current_snapshot()::text",
        _TYPES.select("FROM workers_acceleratortype AS it WHERE it.cluster_id = %(cluster)s"),
        _NOTICES.select(_of_jobs("markets_notice", "it.state = 'open'")),
        _AWARDS.select(_of_jobs("markets_award", "it.state = 'waiting'")),
        _MOVES.select(_of_jobs("workers_migration", "it.state = 'awarded'")),
        _TIRED.select(_TIRED_JOBS),
        _RESTS.select(_of_jobs("markets_cooldown", "it.until > %(now)s")),
        _DUE.select(_DEADLINES),
    )
)
_ALL = ", ".join(
    (
        f"SELECT {_FLOOR}",
        _UNITS.select(_THE_UNITS),
        _LEASES.select(_OPEN_LEASES),
        _JOBS.select(_OPEN_JOBS),
        BIDS.select(_OPEN_BIDS),
    )
)
_CHANGED = ", ".join(
    (
        f"{_CHANGED_LATE} SELECT {_FLOOR}",
        _UNITS.select(f"{_THE_UNITS} AND {_OTHERS}"),
        _LEASES.select(f"{_OPEN_LEASES} AND it.job_id = {_NAMED}"),
        _JOBS.select(f"{_OPEN_JOBS} AND it.id = {_NAMED}"),
        BIDS.select(f"{_OPEN_BIDS} AND it.job_id = {_NAMED}"),
        _LATE.select("FROM late AS it WHERE it.job_id IS NOT NULL"),
        _OTHERS,
    )
)
_MOST_CHANGED = 20_000
"""With more changed jobs than this, reading all of them is the faster way."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A floor, and what is to be known of the database snapshot in which it was read.

    watermark: that snapshot. absent: jobs that are not on the floor, though their bids are still open. due_at: the next
    instant at which the queue time or an award of some job ends, or one that has moved too often may seek again; NONE
    without any. read_in: the transaction that read it. units, leases, jobs and bids: all of them as they were read, by
    id, by job, by id, and by job and place in the launch table.
    """

    floor: Floor
    watermark: str
    absent: IntArray
    due_at: int
    read_in: int
    units: Records
    leases: Records
    jobs: Records
    bids: Records


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What has changed on a floor since it was read.

    jobs: the ids of all jobs of which anything has, in order. others: whether anything has that is of no job: types,
    units, hosts, terms of the cluster.
    """

    jobs: IntArray
    others: bool


NO_CHANGES = Changes(np.zeros(0, dtype=np.int64), others=False)


def read(cluster: Cluster, *, now: datetime, former: Snapshot | None = None, changed: Changes = NO_CHANGES) -> Snapshot:
    """Read the floor of one cluster. The caller holds the cluster's lock, so only hosts and tenants write meanwhile.

    Args:
        former: an earlier snapshot of the same cluster.
        changed: with it, everything that may have changed since that was read.
    """
    if former is None or len(changed.jobs) > _MOST_CHANGED:
        return _assembled(cluster, now, _Read.of(cluster, now, None))
    seen = _Read.of(cluster, now, changed)
    jobs = np.union1d(changed.jobs, seen.late["job"])
    whole = replace(
        seen,
        units=seen.units if seen.others else former.units,
        leases=_merged(former.leases, seen.leases, "job", jobs),
        jobs=_merged(former.jobs, seen.jobs, "id", jobs),
        bids=_merged(former.bids, seen.bids, "job", jobs),
    )
    return _assembled(cluster, now, whole)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What the statement has brought, each table by its first column, bids by their places in launch tables too.

    late: jobs that have changed since the log was taken. others: whether the units are there.
    """

    watermark: str
    read_in: int
    others: bool
    types: Records
    notices: Records
    awards: Records
    moves: Records
    tired: Records
    rests: Records
    due: Records
    units: Records
    leases: Records
    jobs: Records
    bids: Records
    late: Records

    @classmethod
    def of(cls, cluster: Cluster, now: datetime, changed: Changes | None) -> "_Read":
        """Run the statement, for everything or for what has changed."""
        parameters = {
            "cluster": cluster.pk,
            "now": now,
            "since": now - MOVES_WINDOW,
            "window": MOVES_WINDOW,
            "most_moves": cluster.max_moves_per_hour,
        }
        # In a statement of its own, without which the other one would have to do without parallel workers.
        own = int(fetch_one("SELECT pg_current_xact_id()::text::bigint", {})[0])
        if changed is None:
            row = (*fetch_one(_ALL, parameters), None, True)
        else:
            row = fetch_one(_CHANGED, parameters | {"changed": changed.jobs.tolist(), "others": changed.others})
        tables = (_TYPES, _NOTICES, _AWARDS, _MOVES, _TIRED, _RESTS, _DUE, _UNITS, _LEASES, _JOBS, BIDS, _LATE)
        found = [_in_order(table.records(value)) for table, value in zip(tables, row[1:-1], strict=True)]
        return cls(watermark_of(row[0], own=own), own, row[-1], *found)


def _in_order(rows: Records) -> Records:
    """The rows by their first columns: one, or two where the second is a place in a launch table."""
    names = rows.dtype.names or ()
    keys = rows[names[0]] * _PLACES + rows["position"] if "position" in names else rows[names[0]]
    return rows if np.all(keys[1:] >= keys[:-1]) else rows[np.argsort(keys, kind="stable")]


_PLACES = 1 << 15
"""More than a launch table has places: a smallint counts them."""


def _merged(former: Records, fresh: Records, key: str, changed: IntArray) -> Records:
    """The former rows with those of the changed keys replaced by the fresh ones, which have no others.

    All are in the order of the key.
    """
    keys, fresh_keys = np.ascontiguousarray(former[key]), np.ascontiguousarray(fresh[key])
    lows, lengths = _spans(keys, changed)
    fresh_lows, fresh_lengths = _spans(fresh_keys, changed)
    if np.array_equal(lengths, fresh_lengths):  # as nearly always: each row takes its former one's place
        merged = former.copy()
        merged[np.arange(len(fresh)) + np.repeat(lows - fresh_lows, lengths)] = fresh
        return merged
    stays = np.ones(len(former), dtype=np.bool_)
    stays[np.arange(lengths.sum()) + np.repeat(lows - np.cumsum(lengths) + lengths, lengths)] = False
    return np.insert(former[stays], np.searchsorted(keys[stays], fresh_keys), fresh)


def _spans(keys: IntArray, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """Where each wanted key begins among the keys, which are in order, and how many there are of it."""
    lows = np.searchsorted(keys, wanted, "left")
    return lows, np.searchsorted(keys, wanted, "right") - lows


def watermark_of(snapshot: str, *, own: int) -> str:
    """A snapshot as text with the reading transaction among those that were still running.

    A snapshot does not list its own transaction; here it must, because what this tick closes later was open when read.
    """
    lowest, highest, running = snapshot.split(":")
    if own >= int(highest):
        return snapshot
    others = [int(each) for each in running.split(",") if each]
    return f"{min(int(lowest), own)}:{highest}:{','.join(str(each) for each in sorted({*others, own}))}"


# From what was read to the floor


def _assembled(cluster: Cluster, now: datetime, seen: _Read) -> Snapshot:
    jobs, starts, rows, absent = _launch_tables(seen)
    tired = seen.tired[np.isin(seen.tired["job"], seen.jobs["id"])]
    floor = Floor(
        now=microseconds(now),
        notice_us=cluster.notice_seconds * 1_000_000,
        types=seen.types.view(TYPE),
        units=_units(seen),
        jobs=jobs,
        tenures=_tenures(seen, jobs),
        starts=starts,
        rows=rows,
    )
    return Snapshot(
        floor=floor,
        watermark=seen.watermark,
        absent=absent,
        due_at=min([*seen.due["at"].tolist(), *tired["until"].tolist()], default=NONE),
        read_in=seen.read_in,
        units=seen.units,
        leases=seen.leases,
        jobs=seen.jobs,
        bids=seen.bids,
    )


def _units(seen: _Read) -> Records:
    units = np.full(len(seen.units), NONE, dtype=UNIT)
    units["id"], units["usable"] = seen.units["id"], seen.units["usable"]
    units["type"] = np.searchsorted(seen.types["id"], seen.units["type"])
    places = places_of(seen.leases["unit"], units["id"])
    known = places != NONE
    units["lease"][places[known]] = seen.leases["id"][known]
    return units


def _launch_tables(seen: _Read) -> tuple[Records, IntArray, Records, IntArray]:
    """The jobs without their tenures, where the rows of each begin, the rows, and who has rows but is no open job."""
    ids = seen.jobs["id"]
    jobs = np.full(len(ids), NONE, dtype=JOB)
    jobs["id"], jobs["tenant"], jobs["leaving"] = ids, seen.jobs["tenant"], seen.jobs["leaving"]
    jobs["seeking"] = seen.jobs["seeks"] & ~np.isin(ids, seen.tired["job"])
    places = places_of(seen.awards["job"], ids)
    known = places != NONE
    jobs["award"][places[known]] = seen.awards["id"][known]
    jobs["award_type"][places[known]] = np.searchsorted(seen.types["id"], seen.awards["type"][known])
    jobs["award_since"][places[known]] = seen.awards["since"][known]
    bids, starts, absent = _bids_of(ids, seen.bids)
    rows = rows_of(bids, _places_among_few(bids["type"], seen.types["id"]))
    _close(rows, bids, seen.rests)
    return jobs, starts, rows, absent


def rows_of(bids: Records, types: IntArray) -> Records:
    """Bids, of BIDS, as rows of launch tables; `types` are the places of theirs."""
    rows = np.zeros(len(bids), dtype=TABLE_ROW)
    rows["type"] = types
    for name in ("max_price", "keep_price", "accepted_at"):
        rows[name] = bids[name]
    return rows


def _bids_of(ids: IntArray, bids: Records) -> tuple[Records, IntArray, IntArray]:
    """The bids of these jobs, where those of each begin, with the end, and the ids of other jobs that have some."""
    owners = np.ascontiguousarray(bids["job"])
    firsts = np.flatnonzero(np.diff(owners, prepend=NONE))
    bidders = owners[firsts]
    absent = bidders[places_of(bidders, ids) == NONE]
    if len(absent):
        present, starts, _ = _bids_of(ids, bids[~np.isin(owners, absent)])
        return present, starts, absent
    starts = np.append(firsts, len(bids))[np.searchsorted(bidders, np.append(ids, _LAST))]
    return bids, starts, absent


_LAST = np.iinfo(np.int64).max
"""More than any id."""


def _places_among_few(wanted: IntArray, ids: IntArray) -> IntArray:
    """Where each wanted id, all of which are there, stands among a few ids, which are in order."""
    if not len(ids) or ids[-1] - ids[0] > _FEW:
        return np.searchsorted(ids, wanted)
    places = np.zeros(ids[-1] - ids[0] + 1, dtype=np.int64)
    places[ids - ids[0]] = np.arange(len(ids))
    found: IntArray = places[wanted - ids[0]]
    return found


_FEW = 100_000


def _close(rows: Records, bids: Records, rests: Records) -> None:
    """Note how long rows are closed to their jobs."""
    for job, type_id, until in rests.tolist():
        low, high = np.searchsorted(bids["job"], (job, job + 1))
        rows["closed_until"][low:high][bids["type"][low:high] == type_id] = until


def _tenures(seen: _Read, jobs: Records) -> Records:
    """The leases of these jobs, each job's in order, noted in the jobs."""
    owners = places_of(seen.leases["job"], jobs["id"])
    closing = seen.leases["state"] == CLOSING
    order = np.lexsort((seen.leases["id"], 1 - seen.leases["primary"], closing, owners))
    order = order[owners[order] != NONE]
    leases, owners, live = seen.leases[order], owners[order], ~closing[order]
    tenures = np.full(len(leases), NONE, dtype=TENURE)
    tenures["lease"], tenures["job"] = leases["id"], owners
    for name in ("unit", "state", "since"):
        tenures[name] = leases[name]
    tenures["type"] = np.searchsorted(seen.types["id"], leases["type"])
    tenures["notice_answered"] = 0
    _give_notices(tenures, live, seen.notices)
    is_source = live & np.append(True, owners[1:] != owners[:-1])[: len(owners)]
    is_destination = live & np.append(False, is_source[:-1] & (owners[1:] == owners[:-1]))[: len(owners)]
    jobs["source"][owners[is_source]] = np.flatnonzero(is_source)
    jobs["destination"][owners[is_destination]] = np.flatnonzero(is_destination)
    movers = places_of(seen.moves["job"], jobs["id"])
    known = movers != NONE
    known[known] = jobs["destination"][movers[known]] != NONE
    jobs["seek_deadline"][movers[known]] = seen.moves["deadline"][known]
    return tenures


def _give_notices(tenures: Records, live: NDArray[np.bool_], notices: Records) -> None:
    places = places_of(tenures["lease"], notices["lease"])
    told = np.flatnonzero((places != NONE) & live)
    found = notices[places[told]]
    tenures["notice"][told] = found["id"]
    tenures["notice_reason"][told] = found["reason"]
    tenures["notice_deadline"][told] = found["deadline"]


def places_of(wanted: IntArray, ids: IntArray) -> IntArray:
    """Where each wanted id stands among the ids, which are in order; NONE where it does not."""
    if not len(ids):
        return np.full(len(wanted), NONE)
    places = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[places] == wanted, places, NONE)
