"""Launch tables of many jobs, read by one statement each as small records: for those who write them.

A model instance per row, and a query built per job, would cost more than the change itself.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from laissez.prepared import run
from laissez.records import columns, instance, width
from workers.models import AcceleratorType, Job


class OpenRow(NamedTuple):
    """An open bid. The names are those of its model, so that both look alike to whoever shows them."""

    id: int | None
    public_id: str
    type: AcceleratorType
    position: int
    max_price_per_hour: int | None
    keep_price_per_hour: int | None
    origin: str
    accepted_at: datetime


_OPEN = """
    SELECT job_id, type_id, id, public_id, position, max_price_per_hour, keep_price_per_hour, origin, accepted_at
    FROM markets_bid WHERE job_id = ANY(%s::bigint[]) AND closed_at IS NULL ORDER BY job_id, position
"""
_AROUND = f"""
    SELECT clock_timestamp(),
           (SELECT amount_microdollars FROM tenants_hold WHERE reference = %s AND released_at IS NULL),
           {columns(AcceleratorType, "type")},
           type.id = ANY (ARRAY(SELECT type_id FROM workers_lease WHERE job_id = %s AND state <> 'closed')),
           bid.id, bid.public_id, bid.position, bid.max_price_per_hour, bid.keep_price_per_hour, bid.origin,
           bid.accepted_at
    FROM workers_acceleratortype AS type
    LEFT JOIN markets_bid AS bid ON bid.job_id = %s AND bid.type_id = type.id AND bid.closed_at IS NULL
    WHERE type.cluster_id = %s ORDER BY type."position", type.id
"""  # noqa: S608 - names of our own columns


def types_in(clusters: Iterable[int]) -> dict[int, AcceleratorType]:
    """The accelerator types of some clusters by id."""
    found = run(
        f"SELECT {columns(AcceleratorType, 'type')}"  # noqa: S608 - names of our own columns
        ' FROM workers_acceleratortype AS type WHERE cluster_id = ANY(%s::bigint[]) ORDER BY "position", id',
        [list(clusters)],
    )
    rows = [instance(AcceleratorType, row) for row in found]
    return {row.pk: row for row in rows}


def open_rows(jobs: Iterable[int], types: Mapping[int, AcceleratorType]) -> dict[int, list[OpenRow]]:
    """The launch tables of jobs by the job's id, in order. `types` holds those of the jobs' clusters."""
    tables: dict[int, list[OpenRow]] = defaultdict(list)
    for job, kind, pk, public_id, *figures in run(_OPEN, [list(jobs)]):
        tables[job].append(OpenRow(pk, public_id, types[kind], *figures))
    return tables


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a change of one launch table is judged by, and when it was read, by the database's clock.

    Its cluster's types by id; the table as it is; the types of which its job occupies a device; the micro-dollars that
    are held for it, None where nothing is.
    """

    now: datetime | None
    reserved: int | None
    types: Mapping[int, AcceleratorType]
    present: Sequence[OpenRow]
    held: Collection[int]


def around(job: Job) -> Surroundings:
    """The surroundings of a job's launch table, in one statement."""
    rows = run(_AROUND, [job.public_id, job.pk, job.pk, job.cluster_id])
    now, reserved = rows[0][:2] if rows else (None, None)
    types, present, held, split = {}, [], set[int](), width(AcceleratorType)
    for _, _, *row in rows:
        kind = types[row[0]] = instance(AcceleratorType, row[:split])
        is_held, pk, public_id, *figures = row[split:]
        if is_held:
            held.add(kind.pk)
        if pk is not None:
            present.append(OpenRow(pk, public_id, kind, *figures))
    return Surroundings(now, reserved, types, sorted(present, key=attrgetter("position")), held)
