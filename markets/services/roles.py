"""Keeping what a receipt needs besides the bids: every job's role at every recorded clearing, a row for each change.

Roles change when something moves, bids far more often; so a clearing costs as many rows here as jobs have changed
their role since the last recorded one, whatever happened in between, and any clearing's roles are those in force at
its number.
"""

from collections.abc import Mapping

from markets.engine.roles import Role as EngineRole
from markets.models import Role
from markets.selectors.receipts import terms_of
from workers.models import Cluster


def keep(cluster: Cluster, number: int, roles: Mapping[int, EngineRole]) -> None:
    """Bring the kept roles to those of the clearing with this number. The cluster's lock is held."""
    present = {
        job: (pk, terms)
        for pk, job, terms in Role.objects.filter(cluster=cluster, until_number=None).values_list("pk", "job", "terms")
    }
    wanted = {job: terms_of(role) for job, role in roles.items()}
    ended = [pk for job, (pk, terms) in present.items() if wanted.get(job) != terms]
    Role.objects.filter(pk__in=ended).update(until_number=number)
    Role.objects.bulk_create(
        Role(cluster=cluster, job_id=job, from_number=number, terms=terms)
        for job, terms in wanted.items()
        if job not in present or present[job][1] != terms
    )
