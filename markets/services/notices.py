"""The life of a notice: opened about a live lease, then answered, withdrawn or executed, as many at once as need be.

Callers hold the locks of the jobs named here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection

from laissez.bulk import copy_instances
from laissez.events import Outbox
from markets.models import Bid, Notice
from markets.selectors import rows
from markets.services import funds
from workers.models import Job, Lease
from workers.services import jobs, leases

PARTS = ("lease", "lease__type")
"""What is told of a notice besides its own columns and its job."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A notice to be opened: to whom, about which of its leases, why, and the public price that led to it."""

    job: Job
    lease: Lease
    reason: Notice.Reason
    price_per_hour: int | None


@dataclass(frozen=True, slots=True)
class Ending:
    """What becomes of an open notice; only an answered one has an answer."""

    notice: Notice
    state: Notice.State
    answer: Notice.Answer | None = None


def open_all(openings: Sequence[Opening], *, seconds: float, now: datetime, outbox: Outbox) -> list[Notice]:
    """Warn jobs about one lease each, and have their agents asked. The leases have no open notice."""
    bids = open_bids(opening.job.pk for opening in openings)
    own = [bids.get((opening.job.pk, opening.lease.type_id)) for opening in openings]
    opened = [
        Notice(
            job=opening.job,
            lease=opening.lease,
            reason=opening.reason,
            price_per_hour=opening.price_per_hour,
            bid_per_hour=None if bid is None else bid.counted,
            opened_at=now,
            deadline=now + timedelta(seconds=seconds),
        )
        for opening, bid in zip(openings, own, strict=True)
    ]
    copy_instances(opened)
    _tell(opened, "opened", outbox)
    jobs.ask_agents([notice.job for notice in opened], "notice", now=now)
    return opened


_CLOSE = """
    UPDATE markets_notice AS notice SET state = ending.state, answer = ending.answer, closed_at = %s
    FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS ending(id, state, answer)
    WHERE notice.id = ending.id AND notice.state = %s
    RETURNING notice.id
"""


def close_all(endings: Sequence[Ending], *, now: datetime, outbox: Outbox) -> list[Notice]:
    """End notices, and return those that were still open."""
    if not endings:
        return []
    ids = [ending.notice.pk for ending in endings]
    states = [str(ending.state) for ending in endings]
    answers = [str(ending.answer or "") for ending in endings]
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, [now, ids, states, answers, Notice.State.OPEN])
        closed = {pk for (pk,) in cursor.fetchall()}
    ended = [ending for ending in endings if ending.notice.pk in closed]
    for ending in ended:
        notice = ending.notice
        notice.state, notice.answer, notice.closed_at = ending.state, ending.answer or "", now
        _tell([notice], str(ending.state), outbox)
    return [ending.notice for ending in ended]


def close_spent(owners: Sequence[Job], *, now: datetime, outbox: Outbox) -> list[Notice]:
    """A notice ends with its lease: whoever is leaving has answered it, by moving or by leaving."""
    if not owners:
        return []
    live = Lease.objects.filter(job__in=[job.pk for job in owners], state__in=leases.LIVE_STATES)
    staying = set(live.values_list("job_id", flat=True))
    spent = [notice for notice in open_of(owners) if notice.lease.state not in leases.LIVE_STATES]
    endings = [
        Ending(
            notice,
            Notice.State.ANSWERED,
            Notice.Answer.MIGRATED if notice.job_id in staying else Notice.Answer.LEFT,
        )
        for notice in spent
    ]
    return close_all(endings, now=now, outbox=outbox)


def leave_all(owners: Sequence[Job], *, now: datetime, outbox: Outbox) -> list[Notice]:
    """Jobs that leave the market have answered their notices."""
    endings = [Ending(notice, Notice.State.ANSWERED, Notice.Answer.LEFT) for notice in open_of(owners)]
    return close_all(endings, now=now, outbox=outbox)


def open_of(owners: Sequence[Job]) -> list[Notice]:
    """The open notices of jobs, the earliest first."""
    given = {job.pk: job for job in owners}
    found = Notice.objects.filter(job_id__among=given, state=Notice.State.OPEN).prefetch_related(*PARTS).order_by("id")
    notices = list(found)
    for notice in notices:
        notice.job = notice.lease.job = given[notice.job_id]
    return notices


class OpenBid(NamedTuple):
    """What one open bid says. Prices in micro-dollars per hour; `highest` None bids the cap."""

    job_id: int
    type_id: int
    highest: int | None
    keep: int | None
    cap: int
    accepted_at: datetime

    @property
    def counted(self) -> int:
        """What it bids for a unit that its job holds."""
        return funds.counted(self.highest, self.keep, self.cap)


def open_bids(job_ids: Iterable[int]) -> dict[tuple[int, int], OpenBid]:
    """The open bids of jobs by job and type."""
    found = Bid.objects.filter(job_id__among=set(job_ids), closed_at=None).values_list(
        "job_id", "type_id", "max_price_per_hour", "keep_price_per_hour", "type__cap_price_per_hour", "accepted_at"
    )
    return {row[:2]: OpenBid(*row) for row in found}


def counted(bid: Bid) -> int:
    """What a held row bids: its keep price where it has one, at most the cap."""
    return funds.counted(bid.max_price_per_hour, bid.keep_price_per_hour, bid.type.cap_price_per_hour)


def _tell(notices: Iterable[Notice], change: str, outbox: Outbox) -> None:
    type_ = f"org.laissez.market.notice.{change}.v1"
    for notice in notices:
        outbox.add(f"job:{notice.job.public_id}", type_, notice.public_id, rows.notice(notice))
