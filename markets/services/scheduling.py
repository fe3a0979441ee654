"""One tick of one cluster: the price setter clears the book, the work scheduler moves awards, notices and leases.

One lock (the cluster's), one snapshot, one transaction. The engine decides on values; here its actions are carried
out on rows, each re-checked under the job's lock and dropped when it has gone stale: the next tick asks again.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from laissez.clock import microseconds, rfc3339
from laissez.events import Outbox, touch, transact
from markets.engine.dynamics import Plan, next_deadline, plan
from markets.engine.floor import Floor
from markets.models import Award, Notice
from markets.selectors import floor as floors
from markets.services import actions, announcing, awards, moments, notices, pricing
from workers.models import Cluster, Job
from workers.services import jobs, leases

ASK_THRESHOLD_PER_MILLE = 5


class Outcome(StrEnum):
    """What a tick came to."""

    BUSY = "busy"  # another tick of this cluster is running
    UNCHANGED = "unchanged"  # nothing in the book has changed and nothing is due
    CLEARED = "cleared"


def tick(cluster_id: int) -> Outcome:
    """Run one tick. Safe to run twice, late, or never: what it finds decides what it does."""
    return transact(partial(_tick, cluster_id))


def _tick(cluster_id: int, outbox: Outbox) -> Outcome:
    cluster = Cluster.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=cluster_id).first()
    if cluster is None:
        return Outcome.BUSY
    now = outbox.now()
    announcing.put_due_in_force(cluster, outbox)
    snapshot = floors.read(cluster, now=now)
    overdue = _overdue(cluster, now)
    ready = moments.due(snapshot.floor, now=now)
    fingerprint = snapshot.fingerprint()
    lapsing = awards.overdue(cluster, now)
    spent = _with_spent_notices(cluster)
    quiet = not (overdue or ready or lapsing or spent) and fingerprint == cluster.book_fingerprint
    if quiet and (cluster.next_due_at is None or now < cluster.next_due_at):
        _stamp(cluster, now)
        return Outcome.UNCHANGED
    acted = _clear(cluster, snapshot, overdue, ready, lapsing, spent, outbox)
    # What was acted upon may be undone before the next tick; the same floor then has to be acted upon again.
    cluster.book_fingerprint = "" if acted else fingerprint
    cluster.next_due_at = _next_due(snapshot.floor, now)
    _stamp(cluster, now)
    return Outcome.CLEARED


def _overdue(cluster: Cluster, now: datetime) -> set[int]:
    rows = Job.objects.filter(cluster=cluster, state=Job.State.QUEUED, queue_deadline__lte=now)
    return set(rows.values_list("pk", flat=True))


def _with_spent_notices(cluster: Cluster) -> set[int]:
    """Jobs with an open notice about a lease that is leaving or gone."""
    rows = Notice.objects.filter(job__cluster=cluster, state=Notice.State.OPEN)
    return set(rows.exclude(lease__state__in=leases.LIVE_STATES).values_list("job_id", flat=True))


def _clear(
    cluster: Cluster,
    snapshot: floors.Snapshot,
    overdue: set[int],
    ready: set[int],
    lapsing: Mapping[int, Award],
    spent: set[int],
    outbox: Outbox,
) -> bool:
    """Clear and act.

    Returns:
        Whether any action of the plan was carried out.
    """
    now = outbox.now()
    decided = plan(snapshot.floor, cluster.rule)
    moved_prices = pricing.moved(cluster, decided.clearing, ASK_THRESHOLD_PER_MILLE)
    concerned = _watching(snapshot.floor, moved_prices)
    locked = jobs.lock(overdue | ready | concerned | spent | lapsing.keys() | _acted_on(decided))
    applier = actions.Applier(cluster=cluster, clearing=decided.clearing, jobs=locked, now=now, outbox=outbox)
    notices.close_spent([locked[job_id] for job_id in sorted(spent & locked.keys())], now=now, outbox=outbox)
    applier.apply_all(decided.actions)
    awards.lapse(list(lapsing.values()), cluster=cluster, now=now, outbox=outbox)
    for job_id in sorted(ready & locked.keys()):
        moments.leave(locked[job_id], now=now, outbox=outbox)
    for job_id in sorted(overdue & locked.keys()):
        if jobs.expire(locked[job_id], now=now, outbox=outbox):
            actions.retire(locked[job_id], now=now, outbox=outbox)
    jobs.ask_agents_of(concerned & locked.keys(), "price", now=now)
    pricing.write(cluster, snapshot, decided, acted=bool(applier.applied), outbox=outbox)
    return bool(applier.applied)


def _acted_on(decided: Plan) -> set[int]:
    return {action.job for action in decided.actions}


def _watching(floor: Floor, types: Iterable[int]) -> set[int]:
    """Running jobs with a row on a type whose price has moved noticeably: their agents are asked."""
    wanted = set(types)
    return {job.id for job in floor.jobs if job.source is not None and any(row.type in wanted for row in job.rows)}


def _next_due(floor: Floor, now: datetime) -> datetime | None:
    due = next_deadline(floor)
    return None if due is None else now + timedelta(microseconds=max(0, due - microseconds(now)))


def _stamp(cluster: Cluster, now: datetime) -> None:
    cluster.last_tick_at = now
    cluster.tick_number += 1
    cluster.save(update_fields=["last_tick_at", "tick_number", "book_fingerprint", "next_due_at"])
    touch(f"market:{cluster.slug}", as_of=rfc3339(now))
