"""Launch tables of many jobs, read by one statement each as small records: for those who write them.

A model instance per row, and a query built per job, would cost more than the change itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from laissez.prepared import run
from laissez.records import columns, instance
from workers.models import AcceleratorType, Job


@dataclass(frozen=True, slots=True)
class OpenRow:
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
_HELD = "SELECT DISTINCT type_id FROM workers_lease WHERE job_id = %s AND state <> 'closed'"


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


def held_types(job: Job) -> set[int]:
    """The types of which a job occupies a device."""
    return {kind for (kind,) in run(_HELD, [job.pk])}
