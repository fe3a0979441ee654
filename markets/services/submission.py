"""A tenant's acts on a job: submit, change its bids, move it, stop, resume and cancel it.

Submitting is one transaction: the job, its launch table as its policy would have it now, and the funds behind it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from laissez.errors import Conflict, Fault, Invalid, NotFound
from laissez.events import Outbox
from markets.models import Bid
from markets.selectors import tables
from markets.selectors.tables import Surroundings
from markets.services import actions, advising, bids, funds, rebidding
from markets.services.bids import Rewrite, Written
from markets.services.rebidding import Wish
from tenants.models import Tenant
from workers.models import AcceleratorType, Artifact, Cluster, Job
from workers.services import announce, artifacts, jobs, migrations, owned, specs

MAX_OPEN_JOBS = 10_000


def submit(tenant: Tenant, body: object, *, outbox: Outbox) -> Job:
    """Queue a job.

    Args:
        body: the submission as JSON: `cluster` and the fields of a job.

    Raises:
        Invalid: with every fault of the body; nothing is written.
        Refused: `insufficient_funds` when the tenant cannot back its dearest row.
    """
    spec, faults = _parsed(body)
    cluster = Cluster.objects.filter(slug=spec.cluster).first() if spec else None
    if spec and cluster is None:
        known = ", ".join(Cluster.objects.order_by("slug").values_list("slug", flat=True)) or "none yet"
        faults.append(
            Fault("unknown_cluster", f"There is no cluster {spec.cluster!r}; there are: {known}.", "/cluster")
        )
    table = _table(body, cluster, faults)
    artifact = _artifact(tenant, spec, faults)
    _check_row_artifacts(tenant, spec.document["rows"] if spec else [], faults)
    if faults or spec is None or cluster is None:
        raise Invalid(faults)
    _check_room(tenant)
    now = outbox.now()
    job = _create(tenant, cluster, spec, artifact, now)
    announce.job(job, outbox)
    bids.replace_table(job, table, origin=Bid.Origin.TENANT, outbox=outbox)
    advising.advise(job, cause="submitted", outbox=outbox)
    funds.reserve(job, outbox)
    return job


def _parsed(body: object) -> tuple[specs.Spec | None, list[Fault]]:
    try:
        return specs.parse(body), []
    except Invalid as invalid:
        return None, list(invalid.faults)


def _table(body: object, cluster: Cluster | None, faults: list[Fault]) -> list[bids.TableRow]:
    """The launch table, whose faults are shown together with the others' where the cluster is known."""
    if not isinstance(body, dict):
        return []
    if cluster is None:
        slug = body.get("cluster")
        cluster = Cluster.objects.filter(slug=slug).first() if isinstance(slug, str) else None
    if cluster is None:
        if not body.get("rows"):
            faults.append(Fault("empty_table", "The launch table has no row; give at least one.", "/rows"))
        return []
    try:
        return bids.parse_table(body.get("rows"), cluster)
    except Invalid as invalid:
        faults.extend(invalid.faults)
        return []


def _artifact(tenant: Tenant, spec: specs.Spec | None, faults: list[Fault]) -> Artifact | None:
    if spec is None or spec.artifact is None:
        return None
    found = artifacts.of_tenant(tenant, spec.artifact)
    if found is None:
        detail = f"There is no artefact {spec.artifact!r}; upload the directory first and give the id it got."
        faults.append(Fault("unknown_artifact", detail, "/artifact"))
    return found


def _check_row_artifacts(tenant: Tenant, rows: object, faults: list[Fault]) -> None:
    """That the artefacts which rows bring of their own are there. Rows of another form have their faults by now."""
    for place, row in enumerate(rows if isinstance(rows, list) else []):
        named = row.get("artifact") if isinstance(row, dict) else None
        if isinstance(named, str) and artifacts.of_tenant(tenant, named) is None:
            detail = f"Row {place + 1}: there is no artefact {named!r}; upload its directory first."
            faults.append(Fault("unknown_artifact", detail, f"/rows/{place}/artifact"))


def _check_room(tenant: Tenant) -> None:
    if Job.objects.filter(tenant=tenant, state__in=jobs.OPEN_JOB_STATES).count() >= MAX_OPEN_JOBS:
        raise Conflict("too_many_jobs", f"{MAX_OPEN_JOBS} jobs are open; cancel some or wait until some have ended.")


def _create(tenant: Tenant, cluster: Cluster, spec: specs.Spec, artifact: Artifact | None, now: datetime) -> Job:
    document = spec.document
    return Job.objects.create(
        tenant=tenant,
        cluster=cluster,
        artifact=artifact,
        name=spec.name,
        spec=dict(document),
        reason="submitted",
        upgrade=document["upgrade"],
        migration_mode=document["migration"],
        policy=spec.policy,
        policy_params=dict(spec.policy_params),
        seek_seconds=document["seek_seconds"],
        budget_microdollars=spec.budget_microdollars,
        submitted_at=now,
        queued_at=now,
        queue_timeout_seconds=document["queue_timeout_seconds"],
        queue_deadline=now + timedelta(seconds=document["queue_timeout_seconds"]),
        max_attempts=document["max_attempts"],
    )


def change_table(job: Job, rows: object, *, expected_version: int | None, outbox: Outbox) -> Job:
    """Replace a job's launch table by hand; see `change_table_of`."""
    return change_table_of(job.tenant, job.public_id, rows, expected_version=expected_version, outbox=outbox).job


def change_table_of(
    tenant: Tenant, public_id: str, rows: object, *, expected_version: int | None, outbox: Outbox
) -> Written:
    """Replace the launch table of one of a tenant's jobs by hand; the hold follows.

    Raises:
        NotFound: the tenant has no such job.
        Conflict: `version_conflict` when somebody else has changed it since `expected_version`; `job_over`.
        Invalid: the table's faults; also a table that drops the row the job runs on.
        Refused: `insufficient_funds`.
    """
    job = owned.lock(tenant, [public_id]).get(public_id)
    if job is None:
        raise NotFound("job")
    rebidding.check(job, expected_version)
    around = tables.around(job)
    if around.now is not None:
        outbox.learn(around.now)
    table = _new_table(job, rows, {kind.slug: kind for kind in around.types.values()})
    _keep_held_rows(table, around)
    wish = Wish(Rewrite(job, around.present, table), _merged_rows(job.spec["rows"], rows))
    reserved = {} if around.reserved is None else {public_id: around.reserved}
    outcome = rebidding.put(tenant, [wish], outbox, held=reserved)
    for refusal in outcome.refused.values():
        raise refusal
    return outcome.written[public_id]


def _new_table(job: Job, rows: object, types: Mapping[str, AcceleratorType]) -> list[bids.TableRow]:
    """The launch table as submitting would have checked it, since hosts and agents read its rows too."""
    faults = specs.row_faults(rows)
    _check_row_artifacts(job.tenant, rows, faults)
    try:
        table = bids.parse_table(rows, job.cluster, types=types)
    except Invalid as invalid:
        faults.extend(invalid.faults)
    if faults:
        raise Invalid(faults)
    return table


def _keep_held_rows(table: list[bids.TableRow], around: Surroundings) -> None:
    missing = set(around.held) - {row.type.pk for row in table}
    if missing:
        names = ", ".join(around.types[type_id].slug for type_id in sorted(missing))
        detail = f"The job runs on {names}; keep that row, or stop or move the job first."
        raise Invalid([Fault("held_row_missing", detail, "/rows")])


def _merged_rows(former: list[dict[str, Any]], rows: object) -> list[dict[str, Any]]:
    """The rows of the document with new prices; hours, commands and artefacts of known types stay unless given."""
    known = {row["accelerator_type"]: row for row in former}
    given = rows if isinstance(rows, list) else []
    return [known.get(row["accelerator_type"], {}) | row for row in given]


def move(job: Job, *, moment: str, outbox: Outbox) -> Job:
    """Ask a running job to move to what it has won, now or at its next checkpoint."""
    if moment not in ("now", "checkpoint"):
        raise Invalid([Fault("bad_value", f"moment is {moment!r}; it must be now or checkpoint.", "/moment")])
    job = _open(job)
    if job.state != Job.State.RUNNING:
        raise Conflict("not_running", f"The job is {job.state}; only a running job can move.")
    now = outbox.now()
    jobs.want_to_leave(job, moment=moment, now=now, outbox=outbox)
    if moment == "now":
        migrations.leave_now(job, now=now, outbox=outbox)
    return job


def checkpoint(job: Job, *, outbox: Outbox) -> Job:
    """Ask a running job for a checkpoint."""
    job = _open(job)
    if job.state != Job.State.RUNNING:
        raise Conflict("not_running", f"The job is {job.state}; only a running job can take a checkpoint.")
    jobs.request_checkpoint(job, now=outbox.now())
    return job


def stop(job: Job, *, outbox: Outbox) -> Job:
    """Save a job's state and take it out of the market; it can be resumed."""
    job = _open(job)
    now = outbox.now()
    jobs.stop(job, reason="stopped", now=now, outbox=outbox)
    actions.retire(job, now=now, outbox=outbox)
    return job


def resume(job: Job, *, outbox: Outbox) -> Job:
    """Queue a stopped job again with the launch table it was submitted with, or last given."""
    job = jobs.lock_one(job)
    now = outbox.now()
    jobs.resume(job, now=now, outbox=outbox)
    table = bids.parse_table(job.spec["rows"], job.cluster)
    bids.replace_table(job, table, origin=Bid.Origin.TENANT, outbox=outbox)
    advising.advise(job, cause="submitted", outbox=outbox)
    funds.reserve(job, outbox)
    return job


def cancel(job: Job, *, outbox: Outbox) -> Job:
    """End a job for good, in whatever state it is."""
    job = jobs.lock_one(job)
    now = outbox.now()
    jobs.cancel(job, now=now, outbox=outbox)
    actions.retire(job, now=now, outbox=outbox)
    return job


def _open(job: Job) -> Job:
    row = jobs.lock_one(job)
    if row.state not in jobs.OPEN_JOB_STATES:
        raise Conflict("job_over", f"The job is {row.state}; that can no longer be changed.")
    return row


def of_tenant(tenant: Tenant, public_id: str) -> Job:
    """A tenant's job by its id; somebody else's is no such job."""
    job = Job.objects.select_related("tenant", "cluster").filter(tenant=tenant, public_id=public_id).first()
    if job is None:
        raise NotFound("job")
    return job
