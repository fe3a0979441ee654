"""Keeping what a receipt needs besides the bids: jobs' roles at every recorded clearing, a row for each change.

Roles change when something moves, bids far more often; so a clearing costs as many rows here as jobs have changed
their role since the last recorded one, whatever happened in between, and any clearing's roles are those in force at
its number.
"""

from collections import defaultdict

from laissez.bulk import copy_in
from markets.engine.book import NONE
from markets.models import Role
from markets.selectors import roles
from markets.selectors.roles import KeptRoles
from workers.models import Cluster

_NAMES = (
    "cluster_id",
    "job_id",
    "from_number",
    "on_type",
    "to_type",
    "award_type",
    "seeks",
    "absent",
    "closed_types",
)


def keep(cluster: Cluster, number: int, present: KeptRoles | None, wanted: KeptRoles) -> KeptRoles:
    """Bring the kept roles to those of the clearing with this number. The cluster's lock is held.

    Args:
        present: the roles in force, where they are known.

    Returns:
        Those in force now.
    """
    ended, fresh = roles.differences(present or roles.in_force(cluster.pk), wanted)
    if ended:
        Role.objects.filter(job_id__among=ended, until_number=None).update(until_number=number)
    closed: dict[int, list[int]] = defaultdict(list)
    for job, type_id in sorted(wanted.closed):
        closed[job].append(type_id)
    copy_in(
        Role,
        _NAMES,
        (
            (cluster.pk, job, number, *_types(on, to, award), bool(seeks), bool(absent), closed[job])
            for job, on, to, award, seeks, absent in fresh.tolist()
        ),
    )
    return wanted


def _types(*ids: int) -> tuple[int | None, ...]:
    return tuple(None if type_id == NONE else type_id for type_id in ids)
