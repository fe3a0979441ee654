"""A tenant's jobs by their public ids, locked: what nobody else may find, in the order in which everybody locks."""

from collections.abc import Iterable

from laissez.prepared import run
from laissez.records import columns, instance, width
from tenants.models import Tenant
from workers.models import Cluster, Job


def lock(tenant: Tenant, public_ids: Iterable[str]) -> dict[str, Job]:
    """Lock those of these jobs that are the tenant's, by one statement, as `jobs.lock` does; each with its cluster.

    Returns:
        The jobs by their public ids; somebody else's is not among them, like one that is not there.
    """
    names = [name for name in set(public_ids) if "\x00" not in name]
    rows = run(
        f"SELECT {columns(Job, 'job')}, {columns(Cluster, 'cluster')}"  # noqa: S608 - names of our own columns
        " FROM workers_job AS job JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id"
        " WHERE job.tenant_id = %s AND job.public_id = ANY(%s::text[]) ORDER BY job.id FOR NO KEY UPDATE OF job",
        [tenant.pk, names],
    )
    split, clusters, found = width(Job), dict[int, Cluster](), {}
    for row in rows:
        job = instance(Job, row[:split])
        if job.cluster_id not in clusters:
            clusters[job.cluster_id] = instance(Cluster, row[split:])
        job.tenant, job.cluster = tenant, clusters[job.cluster_id]
        found[job.public_id] = job
    return found
