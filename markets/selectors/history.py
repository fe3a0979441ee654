"""What a job's page tells of its past: the agent's decisions, notices, and what its processes wrote.

Each function takes a job that a scoped selector has found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.db.models.functions import Right

from laissez.models import Event
from markets.models import Notice
from workers.models import Job, LogChunk

DECIDED = "org.laissez.market.agent.decided.v1"
FAILED = "org.laissez.market.agent.failed.v1"
MOST_DECISIONS = 20
MOST_NOTICES = 20
TAIL_CHUNKS = 100
TAIL_CHARACTERS = 16_000
TAIL_LINES = 200


@dataclass(frozen=True, slots=True)
class Decision:
    """What the job's agent said at one time, or how it failed to say anything, which is taken for "stay"."""

    at: datetime
    kind: str
    moment: str
    bids: Mapping[str, str]
    reason: str
    progress: float | None
    failed: bool


def decisions(job: Job) -> list[Decision]:
    """The agent's latest decisions and failures, newest first."""
    rows = Event.objects.filter(stream__name=f"job:{job.public_id}", type__in=(DECIDED, FAILED))
    return [_decision(row) for row in rows.order_by("-seq")[:MOST_DECISIONS]]


def _decision(event: Event) -> Decision:
    data = event.data
    failed = event.type == FAILED
    return Decision(
        at=event.at,
        kind=str(data.get("outcome" if failed else "kind", "")),
        moment=str(data.get("moment", "")),
        bids=data.get("bids") or {},
        reason=str(data.get("detail" if failed else "reason", "")),
        progress=data.get("progress"),
        failed=failed,
    )


def notices(job: Job) -> QuerySet[Notice]:
    """Its notices, newest first."""
    return Notice.objects.filter(job=job).select_related("lease__type").order_by("-id")[:MOST_NOTICES]


def log_tail(job: Job) -> str:
    """The last lines that its processes wrote, in the order in which they arrived."""
    newest = LogChunk.objects.filter(job=job).order_by("-id").annotate(tail=Right("text", TAIL_CHARACTERS))
    parts: list[str] = []
    left = TAIL_CHARACTERS
    for text in newest.values_list("tail", flat=True)[:TAIL_CHUNKS]:
        parts.append(text[-left:])
        left -= len(text)
        if left <= 0:
            break
    return "\n".join("".join(reversed(parts)).splitlines()[-TAIL_LINES:])
