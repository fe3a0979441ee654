"""What a job's page tells of its past: the agent's decisions, notices, events, progress, and what its processes wrote.

Each function takes a job that a scoped selector has found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, QuerySet
from django.db.models.functions import Right

from laissez.models import Event
from markets.models import Notice
from workers.models import Job, Lease, LogChunk, ProgressSample

DECIDED = "org.laissez.market.agent.decided.v1"
FAILED = "org.laissez.market.agent.failed.v1"
MOST_DECISIONS = 200
MOST_NOTICES = 20
MOST_EVENTS = 25
MOST_SAMPLES = 20_000
TAIL_CHUNKS = 100
TAIL_CHARACTERS = 16_000
TAIL_LINES = 200


@dataclass(frozen=True, slots=True)
class Decision:
    """What the job's agent said at one time, or how it failed to say anything, which is taken for "stay".

    `number`: the event's in the job's stream.
    """

    number: int
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
        number=event.seq,
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


def events(job: Job) -> list[Event]:
    """The latest events of its stream, newest first."""
    return list(Event.objects.filter(stream__name=f"job:{job.public_id}").order_by("-seq")[:MOST_EVENTS])


@dataclass(frozen=True, slots=True)
class Sample:
    """One report of a workload: when, under which lease, how far, and the loss where it told one."""

    at: datetime
    lease: int
    progress: float
    step: int | None
    loss: float | None


def samples(job: Job, *, most: int = MOST_SAMPLES) -> list[Sample]:
    """Its reports of progress, oldest first; of very many, the newest."""
    return [Sample(*row) for row in reversed(_reports(job).order_by("-id")[:most])]


@dataclass(frozen=True, slots=True)
class Reported:
    """All reports of a job in a few figures: how many, under how many leases, the first and the last, and losses.

    `here`: the first report under the lease that was asked for.
    """

    count: int
    leases: int
    first: Sample | None
    last: Sample | None
    first_loss: float | None
    lowest_loss: float | None
    here: Sample | None


def reported(job: Job, lease: Lease | None) -> Reported:
    """The figures of its reports, in a number of queries and rows that no report adds to."""
    rows = ProgressSample.objects.filter(job=job)
    figures = rows.aggregate(count=Count("id"), leases=Count("lease", distinct=True), lowest=Min("loss"))
    told = rows.filter(loss__isnull=False).order_by("id").values_list("loss", flat=True)
    return Reported(
        count=figures["count"],
        leases=figures["leases"],
        first=_sample(_reports(job).order_by("id").first()),
        last=_sample(_reports(job).order_by("-id").first()),
        first_loss=told.first(),
        lowest_loss=figures["lowest"],
        here=None if lease is None else _sample(_reports(job).filter(lease=lease).order_by("id").first()),
    )


def _reports(job: Job) -> "QuerySet[ProgressSample, tuple[Any, ...]]":
    rows = ProgressSample.objects.filter(job=job)
    return rows.values_list("received_at", "lease_id", "progress", "step", "loss")


def _sample(row: tuple[Any, ...] | None) -> Sample | None:
    return None if row is None else Sample(*row)


@dataclass(frozen=True, slots=True)
class LogTail:
    """Lines of a log, and the cursor after which what is still to come begins. `is_cut`: earlier lines are left out."""

    text: str
    cursor: int
    is_cut: bool


def log_tail(job: Job, *, after: int = 0) -> LogTail:
    """What its processes wrote last, in the order in which it arrived; `after` a cursor, only what came since.

    A job's chunks are stored under its lock, so that none appears later below a cursor that has been handed out.
    """
    rows = LogChunk.objects.filter(job=job, id__gt=after).order_by("-id").annotate(tail=Right("text", TAIL_CHARACTERS))
    newest = list(rows.values_list("id", "tail")[: TAIL_CHUNKS + 1])
    parts: list[str] = []
    left = TAIL_CHARACTERS
    for _, text in newest[:TAIL_CHUNKS]:
        if left <= 0:
            break
        parts.append(text[-left:])
        left -= len(text)
    text = "".join(reversed(parts))
    lines = text.splitlines(keepends=True)
    return LogTail(
        text="".join(lines[-TAIL_LINES:]),
        cursor=newest[0][0] if newest else after,
        is_cut=left <= 0 or len(newest) > TAIL_CHUNKS or len(lines) > TAIL_LINES,
    )
