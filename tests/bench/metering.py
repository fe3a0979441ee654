"""Billing 10,000 leases at once and a sixtieth of them a second, and watching over the budgets of as many jobs.

The floor is planted by a few statements: the meter needs leases, quotes, bids and holds, and no host.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from django.db import connection, transaction

from laissez import clock
from laissez.events import Outbox, transact
from markets.services import batches, budgets, metering
from tenants.models import Account, Tenant
from tenants.services import accounts
from tests.bench.figures import Figure, Run
from workers.models import Cluster

LEASES = 10_000
PAST_CHARGES = 100_000
TENANTS = 50
TYPES = 20
STEADY_SECONDS = 10
ROUNDS = 5

TYPES_AND_QUOTES = """
    WITH kind AS (
        INSERT INTO workers_acceleratortype
            (cluster_id, slug, name, position, base_price_per_hour, cap_price_per_hour, version)
        SELECT %(cluster)s, 'kind-' || n, 'kind ' || n, n, 300000, 2000000, 1 FROM generate_series(1, %(types)s) AS n
        RETURNING id
    )
    INSERT INTO markets_quote
        (type_id, during, price_per_hour, lease_price_per_hour, base_price_per_hour, cap_price_per_hour, supply, cause)
    SELECT kind.id,
           tstzrange(now() - (11 - n) * interval '20 seconds',
                     CASE WHEN n < 10 THEN now() - (10 - n) * interval '20 seconds' END),
           800000 + 10000 * n, 800000 + 10000 * n, 300000, 2000000, 500, 'bids'
    FROM kind, generate_series(1, 10) AS n
"""
HOSTS = """
    INSERT INTO workers_host (public_id, cluster_id, name, state, isolation, software_version, key_digest, enrolled_at,
                              last_heard_at, last_sequence, last_report, state_before_loss, refusals)
    SELECT 'hst_' || %(cluster)s || '_' || n, %(cluster)s, 'host ' || n, 'ready', 'none', '',
           md5(%(cluster)s || '_' || n), now(), now(), 0, 0, '', 0
    FROM generate_series(1, %(leases)s / 8 + 1) AS n
"""
DEVICES = """
    INSERT INTO workers_accelerator (public_id, host_id, type_id, index, emulated, healthy, fence)
    SELECT 'acc_' || host.id || '_' || n, host.id, kind.ids[1 + (host.id * 8 + n) %% cardinality(kind.ids)], n,
           true, true, 1
    FROM workers_host AS host, generate_series(0, 7) AS n,
         (SELECT array_agg(id ORDER BY id) AS ids FROM workers_acceleratortype WHERE cluster_id = %(cluster)s) AS kind
    WHERE host.cluster_id = %(cluster)s
"""
JOBS = """
    INSERT INTO workers_job (public_id, tenant_id, cluster_id, name, spec, state, reason, reason_detail, upgrade,
        migration_mode, policy, policy_params, seek_seconds, budget_microdollars, submitted_at, queued_at,
        queue_timeout_seconds, queue_deadline, attempts, max_attempts, moves, leave_moment, ask_number, ask_cause,
        answered_number, agent_cursor, progress, version)
    SELECT 'job_' || %(cluster)s || '_' || %(state)s || n,
           (%(tenants)s::bigint[])[1 + n %% cardinality(%(tenants)s::bigint[])], %(cluster)s,
           'job ' || n, '{}', %(state)s, 'handed_over', '', 'never',
           CASE WHEN n %% 3 = 0 THEN 'overlap' ELSE 'stop_and_copy' END, '', '{}', 300,
           CASE WHEN n %% 2 = 0 THEN 1000000000 END, now() - interval '1 hour', now() - interval '1 hour', 3600,
           CASE WHEN %(state)s = 'queued' THEN now() + interval '1 hour' END, 0, 3, 0, '', 0, '', 0, 0, 0, 1
    FROM generate_series(1, %(count)s) AS n
"""
BIDS = """
    INSERT INTO markets_bid (public_id, cluster_id, job_id, type_id, accelerator_count, position, max_price_per_hour,
                             origin, accepted_at, opened_at)
    SELECT 'bid_' || job.id || '_' || n, job.cluster_id, job.id,
           kind.ids[1 + (job.id + n) %% cardinality(kind.ids)], 1, n,
           CASE WHEN (job.id + n) %% 5 > 0 THEN 850000 + (job.id * 7919 + n * 104729) %% 900000 END,
           'tenant', now() - interval '1 hour', now() - interval '1 hour'
    FROM workers_job AS job, generate_series(0, %(rows)s - 1) AS n,
         (SELECT array_agg(id ORDER BY id) AS ids FROM workers_acceleratortype WHERE cluster_id = %(cluster)s) AS kind
    WHERE job.cluster_id = %(cluster)s AND job.state = %(state)s
"""
HELD = """
    INSERT INTO tenants_hold (account_id, reference, amount_microdollars, opened_at, renewed_at)
    SELECT account.id, job.public_id, 112000, now(), now()
    FROM workers_job AS job JOIN tenants_account AS account ON account.tenant_id = job.tenant_id
    WHERE job.cluster_id = %(cluster)s AND job.state = %(state)s
"""
HELD_IN_ALL = """
    UPDATE tenants_account AS account SET held_microdollars = hold.total
    FROM (SELECT account_id, sum(amount_microdollars) AS total FROM tenants_hold WHERE released_at IS NULL GROUP BY 1)
        AS hold
    WHERE account.id = hold.account_id
"""
LEASED = """
    WITH device AS (
        SELECT device.*, row_number() OVER (ORDER BY device.id) AS n
        FROM workers_accelerator AS device JOIN workers_host AS host ON host.id = device.host_id
        WHERE host.cluster_id = %(cluster)s
    ), job AS (
        SELECT id, row_number() OVER (ORDER BY id) AS n FROM workers_job
        WHERE cluster_id = %(cluster)s AND state = 'running'
    )
    INSERT INTO workers_lease (public_id, job_id, accelerator_id, host_id, type_id, accelerator_count, slot, fence,
        state, reason, ending, observed, during, primary_during, billed_during, handed_over_at, pending_deadline,
        expires_at, last_heard_at, active_at, metered_until, integral, billed_microdollars, waived_microdollars)
    SELECT 'lse_' || device.id, job.id, device.id, device.host_id, device.type_id, 1, 0, 1, 'active', '', '', 'running',
           tstzrange(since, NULL), tstzrange(since, NULL), tstzrange(since, NULL), since, since,
           now() + interval '1 day', now() + interval '1 day', since, since, 0, 0, 0
    FROM device JOIN job USING (n), LATERAL (
        SELECT now() - interval '60.5 seconds' + %(spread)s * (n %% 60) * interval '1 second' AS since
    ) AS start
"""


# Between two accounts of the house, which have no figures to follow.
HISTORY = """
    WITH made AS (
        INSERT INTO tenants_transfer (kind, at, reference, key)
        SELECT 'charge', now() - n * interval '1 second', 'lse_past', 'past:%(cluster)s:' || n
        FROM generate_series(1, %(past)s) AS n
        RETURNING id
    )
    INSERT INTO tenants_entry (transfer_id, account_id, amount_microdollars)
    SELECT made.id, account.id, CASE account.kind WHEN 'revenue' THEN 1 ELSE -1 END
    FROM made, tenants_account AS account WHERE account.tenant_id IS NULL
"""


def seed(slug: str, leases: int, *, spread_seconds: int, queued: int = 0) -> Cluster:
    """A cluster with running leases.

    Args:
        spread_seconds: 0: all leases are due at once; 1: a sixtieth of them each second.
    """
    cluster = Cluster.objects.create(slug=slug, name=slug)
    figures: dict[str, int | str | list[int]] = {
        "cluster": cluster.pk,
        "types": TYPES,
        "leases": leases,
        "tenants": [_tenant(f"{slug} {number}").pk for number in range(TENANTS)],
        "spread": spread_seconds,
        "rows": 3,
        "past": PAST_CHARGES,
    }
    Account.objects.get_or_create(kind=Account.Kind.REVENUE, tenant=None)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # the triggers would look at each row
        for statement in (HISTORY, TYPES_AND_QUOTES, HOSTS, DEVICES):
            cursor.execute(statement, figures)
        for state, count in (("running", leases), ("queued", queued)):
            for statement in (JOBS, BIDS, HELD):
                cursor.execute(statement, figures | {"state": state, "count": count})
        cursor.execute(LEASED, figures)
        cursor.execute(HELD_IN_ALL)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return cluster


def _tenant(name: str) -> Tenant:
    def work(outbox: Outbox) -> Tenant:
        tenant = accounts.create_tenant(name, actor="bench", outbox=outbox)
        accounts.grant(
            tenant, amount_microdollars=10**12, key=f"grant {name}", reason="bench", actor="bench", outbox=outbox
        )
        return tenant

    return transact(work)


def figures(run: Run) -> Iterator[Figure]:
    """What is due at once, what is due each second, and what looking costs when nothing is due."""
    leases = run.of(LEASES)
    yield from _at_once(seed("metered-at-once", leases, spread_seconds=0), leases)
    yield from _steady(seed("metered-steadily", leases, spread_seconds=1), leases)


def _at_once(cluster: Cluster, leases: int) -> Iterator[Figure]:
    took = []
    for _ in range(1 + leases // metering.SLICES_PER_RUN):
        until = metering.quoted_until(cluster.pk)
        assert until is not None
        for lease_ids in metering._batches(metering._due(cluster.pk, until)):
            meter = partial(metering.meter, until)
            took.append(_seconds(partial(batches.apply, meter, lease_ids, failed="lease %s was not billed")))
    detail = f"{leases:,} leases due at once, {len(took)} transactions, durable"
    yield Figure("metering.at_once", leases / sum(took), "leases/s", better="higher", goal=leases / 60, detail=detail)
    detail = f"median of those; longest {max(took) * 1e3:.0f}"
    yield Figure("metering.transaction", median(took) * 1e3, "ms", detail=detail)
    renewing = _seconds(lambda: budgets.watch(cluster.pk, clock.now()))
    yield Figure("metering.renewing", renewing * 1e3, "ms", detail="all holds that those charges have made too small")


def _steady(cluster: Cluster, leases: int) -> Iterator[Figure]:
    """The meter each second, as a sixtieth of all leases comes due."""
    metering.meter_cluster(cluster.pk)
    took, billed = [], 0
    for _ in range(STEADY_SECONDS):
        started = time.perf_counter()
        billed += metering.meter_cluster(cluster.pk)
        took.append(time.perf_counter() - started)
        time.sleep(max(0.0, 1 - took[-1]))
    detail = (
        f"{billed / STEADY_SECONDS:.0f} leases a second billed and their holds renewed; longest {max(took) * 1e3:.0f}"
    )
    yield Figure("metering.steady", median(took) * 1e3, "ms", goal=1000, detail=detail)
    watching: dict[str, Callable[[], object]] = {
        "due": lambda: metering._due(cluster.pk, clock.now()),
        "holds": lambda: budgets._short(cluster.pk),
        "budgets": lambda: budgets._spent(cluster.pk, clock.now()),
        "settled": lambda: budgets.settle(cluster.pk),
    }
    for name, look in watching.items():
        best = min(_seconds(look) for _ in range(ROUNDS))
        yield Figure(f"metering.look.{name}", best * 1e3, "ms", detail=f"{leases:,} running jobs, minimum of {ROUNDS}")


def _seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started
