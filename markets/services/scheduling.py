"""One tick of one cluster: the price setter clears the book, the work scheduler moves awards, notices and leases.

One lock (the cluster's), one snapshot, one transaction. The engine decides on values; here its actions are carried
out on rows, each re-checked under the job's lock and dropped when it has gone stale: the next tick asks again.

A tick of a floor that has not changed and on which nothing is due does nothing. What a process remembers of a cluster
saves it reading and clearing anew what is as it was; it is used only by the tick that directly follows.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

import numpy as np
from django.db import connection

from laissez.clock import microseconds, rfc3339
from laissez.events import Outbox, touch, transact
from laissez.prepared import run
from markets.engine.book import NONE
from markets.engine.clearing import Clearing
from markets.engine.dynamics import Plan, next_deadline, plan
from markets.engine.floor import Floor
from markets.models import Award
from markets.selectors import dues
from markets.selectors import floor as floors
from markets.selectors.exchange import Parts
from markets.services import actions, announcing, awards, changes, moments, notices, pricing
from markets.services.pricing import Record
from workers.models import Cluster
from workers.services import jobs

ASK_THRESHOLD_PER_MILLE = 5


class Outcome(StrEnum):
    """What a tick came to."""

    BUSY = "busy"  # another tick of this cluster is running
    UNCHANGED = "unchanged"  # nothing in the book has changed and nothing is due
    CLEARED = "cleared"


def tick(cluster_id: int) -> Outcome:
    """Run one tick. Safe to run twice, late, or never: what it finds decides what it does."""
    return transact(partial(_tick, cluster_id))


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """What the last tick that read the floor has read, cleared and written."""

    snapshot: floors.Snapshot
    clearing: Clearing
    record: Record


_memories: dict[int, _Memory] = {}
"""By cluster. One counts only if the cluster's row names its transaction: one that was undone, or followed by another
process's, does not."""


def _tick(cluster_id: int, outbox: Outbox) -> Outcome:
    cluster = Cluster.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=cluster_id).first()
    if cluster is None:
        return Outcome.BUSY
    now = outbox.now()
    announcing.put_due_in_force(cluster, outbox)
    changed = changes.take(cluster)
    is_due = cluster.next_due_at is not None and cluster.next_due_at <= now
    if changed is None and not is_due:
        run("SET LOCAL synchronous_commit = off")  # nothing but the time of this tick could be lost
        _stamp(cluster, now)
        return Outcome.UNCHANGED
    memory = _memories.pop(cluster.pk, None)
    if memory is None or memory.snapshot.read_in != cluster.floor_read_in:
        snapshot, former, before = floors.read(cluster, now=now), None, Record(Parts.of(cluster), None)
    else:
        snapshot = floors.read(cluster, now=now, former=memory.snapshot, changed=changed or floors.NO_CHANGES)
        former, before = memory.clearing, memory.record.with_types_of(cluster)
    decided = plan(snapshot.floor, cluster.rule, former)
    due = _Dues.of(cluster, snapshot.floor, now)
    record = _clear(cluster, snapshot, decided, due, before, outbox)
    _memories[cluster.pk] = _Memory(snapshot, decided.clearing, record)
    cluster.floor_read_in = snapshot.read_in
    # What was to be done and was dropped is to be done still, although nothing may have changed.
    cluster.next_due_at = now if decided.actions or due.jobs else _next_due(snapshot, now)
    _stamp(cluster, now, "floor_read_in", "next_due_at")
    return Outcome.CLEARED


@dataclass(frozen=True, slots=True)
class _Dues:
    """What a tick does besides the plan, by job: see `dues.Due`, and the moments that have come."""

    overdue: Collection[int]
    spent: Collection[int]
    ready: Collection[int]
    lapsing: Mapping[int, Award]

    @classmethod
    def of(cls, cluster: Cluster, floor: Floor, now: datetime) -> "_Dues":
        """Look what is due now."""
        found = dues.of(cluster, now=now)
        return cls(found.overdue, found.spent, moments.due(floor), awards.told_of(found.lapsing))

    @property
    def jobs(self) -> set[int]:
        """All the jobs concerned."""
        return {*self.overdue, *self.ready, *self.spent, *self.lapsing}


def _clear(
    cluster: Cluster, snapshot: floors.Snapshot, decided: Plan, due: _Dues, before: Record, outbox: Outbox
) -> Record:
    """Carry out the plan and what is due, ask the agents whom the prices concern, and record the clearing."""
    now = outbox.now()
    moved = pricing.moved(before.exchange.quotes, decided.clearing, ASK_THRESHOLD_PER_MILLE)
    concerned = _watching(snapshot.floor, moved)
    acted_on = due.jobs | {action.job for action in decided.actions}
    if concerned:
        _lock(concerned | acted_on)
    locked = jobs.lock(acted_on)
    types = before.exchange.types
    applier = actions.Applier(
        cluster=cluster, types=types, clearing=decided.clearing, jobs=locked, now=now, outbox=outbox
    )
    notices.close_spent([locked[job_id] for job_id in sorted(locked.keys() & due.spent)], now=now, outbox=outbox)
    applier.apply_all(decided.actions)
    awards.lapse(list(due.lapsing.values()), cluster=cluster, now=now, outbox=outbox)
    for job_id in sorted(locked.keys() & due.ready):
        moments.leave(locked[job_id], now=now, outbox=outbox)
    for job_id in sorted(locked.keys() & due.overdue):
        if jobs.expire(locked[job_id], now=now, outbox=outbox):
            actions.retire(locked[job_id], now=now, outbox=outbox)
    jobs.ask_agents_of(concerned, "price", now=now)
    return pricing.write(cluster, snapshot, decided, before=before, applied=applier.applied, outbox=outbox)


def _lock(ids: set[int]) -> None:
    """Lock all jobs at once, in the order of their ids, without reading those that are only to be asked."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM workers_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE) AS locked",
            [sorted(ids)],
        )


def _watching(floor: Floor, types: Iterable[int]) -> set[int]:
    """Running jobs with a row on a type whose price has moved noticeably: their agents are asked."""
    wanted = np.isin(floor.types["id"], list(types))
    if not wanted.any():
        return set()
    owners = np.repeat(np.arange(len(floor.jobs)), np.diff(floor.starts))
    watching = np.unique(owners[wanted[floor.rows["type"]]])
    return set(floor.jobs["id"][watching[floor.jobs["source"][watching] != NONE]].tolist())


def _next_due(snapshot: floors.Snapshot, now: datetime) -> datetime | None:
    """When the passing of time alone will give a tick something to do."""
    instants = [next_deadline(snapshot.floor), snapshot.due_at]
    due = min((instant for instant in instants if instant is not None and instant != NONE), default=None)
    return None if due is None else now + timedelta(microseconds=max(0, due - microseconds(now)))


def _stamp(cluster: Cluster, now: datetime, *changed: str) -> None:
    cluster.last_tick_at = now
    cluster.tick_number += 1
    cluster.save(update_fields=["last_tick_at", "tick_number", *changed])
    touch(f"market:{cluster.slug}", as_of=rfc3339(now))
