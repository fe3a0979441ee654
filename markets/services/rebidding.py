"""New launch tables put into force, one or many: the funds behind them, the bids, the jobs' versions and documents.

What is asked for has been checked by now, under the jobs' locks; what remains is whether the tenant can back it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from laissez.errors import Conflict, Refused
from laissez.events import Outbox
from laissez.prepared import run
from markets.models import Bid
from markets.services import bids, funds
from markets.services.bids import Rewrite, Written
from tenants.models import Tenant
from workers.models import Job
from workers.services import announce, jobs


@dataclass(frozen=True, slots=True)
class Wish:
    """A launch table that a tenant wants, and the rows of the job's document that go with it."""

    rewrite: Rewrite
    document: Sequence[Mapping[str, Any]]

    @property
    def job(self) -> Job:
        """Whose table it is."""
        return self.rewrite.job


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of wishes, by the public ids of their jobs: each is in one of the two."""

    written: Mapping[str, Written]
    refused: Mapping[str, Refused]


def check(job: Job, expected_version: int | None) -> None:
    """Refuse to change a job that is over, or that somebody else has changed since.

    Raises:
        Conflict: `job_over`, `version_conflict`.
    """
    if job.state not in jobs.OPEN_JOB_STATES:
        raise Conflict("job_over", f"The job is {job.state}; that can no longer be changed.")
    if expected_version is not None and expected_version != job.version:
        detail = f"The launch table is at version {job.version}, not {expected_version}; look at it again."
        raise Conflict("version_conflict", detail)


def put(tenant: Tenant, wishes: Sequence[Wish], outbox: Outbox, *, held: Mapping[str, int] | None = None) -> Outcome:
    """Put those of the wishes into force that the tenant's funds cover, in their order; no wish adds a statement.

    Of a wish that is refused nothing is written.

    Args:
        held: what is held for each job by its public id, read under the jobs' locks; None: to be read.
    """
    needed = {wish.job.public_id: _needed(wish) for wish in wishes}
    refused = funds.reserve_many(tenant, needed, outbox, held=held)
    granted = [wish for wish in wishes if wish.job.public_id not in refused]
    rewrites = [wish.rewrite for wish in granted]
    written = bids.replace_tables(rewrites, origin=Bid.Origin.TENANT, outbox=outbox)
    _note(granted)
    for wish in granted:
        announce.job(wish.job, outbox, "changed")
    return Outcome({each.job.public_id: each for each in written}, refused)


def _needed(wish: Wish) -> int:
    rows = ((row.type, row.max_price, row.keep_price) for row in wish.rewrite.wanted)
    return funds.needed_by(wish.job, rows)


_NOTE = """
    UPDATE workers_job AS job SET version = job.version + 1, spec = jsonb_set(job.spec, '{rows}', noted.rows)
    FROM jsonb_to_recordset(%s::jsonb) AS noted(id bigint, rows jsonb) WHERE job.id = noted.id
"""


def _note(wishes: Sequence[Wish]) -> None:
    """Count the jobs' versions up and keep the new rows in their documents, for when they are resumed."""
    if not wishes:
        return
    noted = json.dumps([{"id": wish.job.pk, "rows": wish.document} for wish in wishes])
    run(_NOTE, [noted])
    for wish in wishes:
        wish.job.version += 1
        wish.job.spec = wish.job.spec | {"rows": list(wish.document)}
