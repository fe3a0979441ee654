"""What jobs may still spend: holds renewed after a charge, notice where that fails or a budget is spent, holds freed.

Who is concerned is found by queries that compare figures of all jobs of a cluster; whoever is found is looked at again,
exactly and under its lock, some hundred jobs a transaction.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import connection
from django.db.models import Q

from laissez.events import Outbox
from markets.models import Award, Bid, Notice
from markets.services import actions, batches, costing, funds, notices
from tenants.models import Tenant
from tenants.services import ledger
from workers.models import Job, Lease
from workers.services import jobs, leases

JOBS_PER_TRANSACTION = 200
FAILED = "the funds of job %s could not be settled; it is tried again by the next meter"

TO_SETTLE = """
    SELECT job.id
    FROM workers_job AS job
    WHERE job.cluster_id = %(cluster)s AND job.state NOT IN ('queued', 'running') AND job.settled_at IS NULL
      AND NOT EXISTS (
          SELECT FROM workers_lease AS lease
          WHERE lease.job_id = job.id
            AND (lease.state <> 'closed' OR lease.is_owing)
          OFFSET 0  -- one job's few leases at a time, by their index
      )
    ORDER BY job.id
"""
# `funds.needed_for`, except that a half is rounded up: never less, so nobody is missed. Both subqueries find their
# few rows by an index; a join would read the bids and holds of the whole queue.
SHORT = """
    SELECT id, held FROM (
        SELECT job.id, job.migration_mode, cluster.notice_seconds,
               coalesce((
                   SELECT amount_microdollars FROM tenants_hold
                   WHERE reference = job.public_id AND released_at IS NULL
               ), 0) AS held,
               (
                   SELECT max(CASE WHEN bid.max_price_per_hour IS NULL THEN type.cap_price_per_hour ELSE
                       least(type.cap_price_per_hour, greatest(bid.max_price_per_hour, bid.keep_price_per_hour))
                   END)
                   FROM markets_bid AS bid JOIN workers_acceleratortype AS type ON type.id = bid.type_id
                   WHERE bid.job_id = job.id AND bid.closed_at IS NULL
               ) AS dearest
        FROM workers_job AS job JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
        WHERE job.cluster_id = %(cluster)s AND job.state = 'running' AND NOT EXISTS (
            SELECT FROM markets_notice AS notice
            WHERE notice.job_id = job.id AND notice.state = 'open' AND notice.reason = 'budget'
        )
    ) AS watched
    WHERE held < CASE WHEN migration_mode = 'overlap' THEN 2 ELSE 1 END * round(
        dearest::numeric * (notice_seconds + %(seconds)s) * %(speedup)s / 3600
    )
    ORDER BY id
"""
# Not less than `costing.cost_of`: what is not billed yet counts at the dearest price that its type has had meanwhile.
SPENT = """
    WITH used AS MATERIALIZED (
        SELECT job.id, job.budget_microdollars, lease.*
        FROM workers_job AS job CROSS JOIN LATERAL (
            SELECT type_id, billed_microdollars + waived_microdollars AS settled, metered_until AS since,
                   least(%(now)s, upper(billed_during)) AS until
            FROM workers_lease WHERE job_id = job.id AND billed_during IS NOT NULL
            OFFSET 0  -- one job's few leases at a time, by their index
        ) AS lease
        WHERE job.cluster_id = %(cluster)s AND job.state = 'running' AND job.budget_microdollars IS NOT NULL
          AND NOT EXISTS (
              SELECT FROM markets_notice AS notice
              WHERE notice.job_id = job.id AND notice.state = 'open' AND notice.reason = 'budget'
          )
    ), unbilled AS MATERIALIZED (
        SELECT tstzrange(min(since), %(now)s) AS time FROM used WHERE until > since HAVING count(*) > 0
    ), dearest AS (
        SELECT type.id AS type_id, (
            SELECT max(lease_price_per_hour) FROM markets_quote
            WHERE markets_quoted(type_id, during, type.id, unbilled.time)
        ) AS price
        FROM unbilled CROSS JOIN workers_acceleratortype AS type
        WHERE type.cluster_id = %(cluster)s
    )
    SELECT used.id
    FROM used LEFT JOIN dearest ON dearest.type_id = used.type_id
    GROUP BY used.id, used.budget_microdollars
    HAVING sum(settled + CASE WHEN until > since THEN
               1 + ceil(extract(epoch FROM until - since) * coalesce(dearest.price, 0) * %(speedup)s / 3600)
           ELSE 0 END) >= used.budget_microdollars
    ORDER BY used.id
"""


def settle(cluster_id: int) -> None:
    """Free the holds of jobs that are over or stopped, once all their leases are closed and billed; once for each."""
    settled = [row[0] for row in _rows(TO_SETTLE, cluster=cluster_id)]
    for job_ids in batches.of(settled, JOBS_PER_TRANSACTION):
        batches.apply(_release, job_ids, failed=FAILED)


def watch(cluster_id: int, now: datetime) -> None:
    """Renew the holds of running jobs that are too small; where that fails, or a budget is spent, give notice."""
    concerned = sorted({*_short(cluster_id), *_spent(cluster_id, now)})
    for job_ids in batches.of(concerned, JOBS_PER_TRANSACTION):
        batches.apply(_renew_or_warn, job_ids, failed=FAILED)


def _rows(statement: str, **values: int | datetime) -> list[tuple[int, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def _release(job_ids: Sequence[int], outbox: Outbox) -> int:
    locked = jobs.lock(job_ids)
    done = {pk: job for pk, job in locked.items() if job.state not in jobs.OPEN_JOB_STATES}
    for pk in _still_owing(done):
        del done[pk]
    ledger.lock_accounts(Tenant.objects.filter(pk__in={job.tenant_id for job in done.values()}))
    for pk in sorted(_still_in_the_market(done)):
        actions.retire(done[pk], now=outbox.now(), outbox=outbox)
    funds.release_many(done.values(), outbox)
    Job.objects.filter(pk__in=list(done)).update(settled_at=outbox.now())
    return len(done)


def _still_owing(job_ids: Iterable[int]) -> set[int]:
    """Those that have been resumed meanwhile, got a device and ended again."""
    rows = Lease.objects.filter(~Q(state=Lease.State.CLOSED) | Q(is_owing=True), job_id__in=list(job_ids))
    return set(rows.values_list("job_id", flat=True))


def _still_in_the_market(job_ids: Iterable[int]) -> set[int]:
    wanted = list(job_ids)
    found = (
        Bid.objects.filter(job_id__in=wanted, closed_at=None),
        Award.objects.filter(job_id__in=wanted, state=Award.State.WAITING),
        Notice.objects.filter(job_id__in=wanted, state=Notice.State.OPEN),
    )
    return {pk for rows in found for pk in rows.values_list("job_id", flat=True)}


def _short(cluster_id: int) -> set[int]:
    """Running jobs whose holds do not cover their dearest bids."""
    found = _rows(SHORT, cluster=cluster_id, seconds=funds.seconds_held(0), speedup=funds.speedup())
    held = {row[0]: row[1] for row in found}
    needed = funds.needed_for_many(list(Job.objects.filter(pk__in=list(held)).only("migration_mode")))
    return {pk for pk, amount in needed.items() if held[pk] < amount}


def _spent(cluster_id: int, now: datetime) -> set[int]:
    """Running jobs that have cost their budgets by now."""
    candidates = [row[0] for row in _rows(SPENT, cluster=cluster_id, now=now, speedup=funds.speedup())]
    return _have_spent(Job.objects.filter(pk__in=candidates).only("budget_microdollars"), now)


def _have_spent(rows: Iterable[Job], now: datetime) -> set[int]:
    budgets = {job.pk: job.budget_microdollars for job in rows if job.budget_microdollars is not None}
    return {pk for pk, cost in costing.costs_of(budgets, now).items() if cost >= budgets[pk]} if budgets else set()


def _renew_or_warn(job_ids: Sequence[int], outbox: Outbox) -> int:
    """Renew holds. A job for which that fails, or whose budget is spent, gets notice: state saved, then stopped."""
    running = {pk: job for pk, job in jobs.lock(job_ids).items() if job.state == Job.State.RUNNING}
    now = outbox.now()
    spent = _have_spent(running.values(), now)
    uncovered = funds.renew_many([job for pk, job in running.items() if pk not in spent], outbox)
    for pk in sorted(spent | uncovered):
        _give_notice(running[pk], now, outbox)
    return len(running)


def _give_notice(job: Job, now: datetime, outbox: Outbox) -> None:
    for lease in leases.open_leases(job):
        if lease.state not in leases.LIVE_STATES or not leases.is_primary(lease):
            continue
        superseded = [notice for notice in notices.open_of([job]) if notice.lease_id == lease.pk]
        endings = [notices.Ending(notice, Notice.State.WITHDRAWN) for notice in superseded]
        notices.close_all(endings, now=now, outbox=outbox)
        opening = notices.Opening(job, lease, Notice.Reason.BUDGET, price_per_hour=None)
        notices.open_all([opening], seconds=job.cluster.notice_seconds, now=now, outbox=outbox)
