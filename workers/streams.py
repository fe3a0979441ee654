"""The streams of the floor: what a tenant hears of all its jobs, and what operators hear of hosts."""

from laissez.errors import NotFound
from laissez.feed.folding import Entities
from laissez.feed.streams import Reader, StreamKind, register
from workers.models import Job
from workers.selectors import rows


def admit_tenant(reader: Reader, name: str) -> None:
    """Its own stream, for whoever may read its jobs and its money: both are told there."""
    reader.needs("jobs:read")
    if name != f"tenant:{reader.tenant}":
        raise NotFound("stream")
    reader.needs("billing:read")


def tenant_snapshot(name: str) -> Entities:
    """Every job that the tenant ever had."""
    found = Job.objects.filter(tenant__public_id=name.partition(":")[2]).select_related("cluster")
    return {"job": {row.public_id: rows.job(row) for row in found}}


def admit_operators(reader: Reader, name: str) -> None:
    """Operators only; to everybody else there is no such stream."""
    if not reader.is_operator:
        raise NotFound("stream")


def no_rows(name: str) -> Entities:
    """What happened, and nothing that stays."""
    return {}


register(
    [
        StreamKind("tenant:", admit=admit_tenant, snapshot=tenant_snapshot),
        StreamKind("ops", admit=admit_operators, snapshot=no_rows),
    ]
)
