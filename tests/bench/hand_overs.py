"""Durable hand-overs a second: whole ticks that give units to queued jobs, for a minute, and nobody holds twice.

Jobs and hosts are simulated with a few statements a round, and their time counts too: pending leases are confirmed and
end with their jobs, and as many new jobs come. Everything that a tick does is the
product's own, events included.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db import connection, transaction

from markets.services import scheduling
from tests.bench.figures import Figure, Run
from workers.models import Cluster

TYPES = 4
UNITS = 600
UNITS_OF_A_HOST = 8
QUEUED_PER_UNIT = 2
SECONDS = 60.0
LEAST_PER_SECOND = 200.0
BASE, CAP = 300_000, 2_000_000

_FLOOR = (
    """
    INSERT INTO tenants_tenant (public_id, name, created_at)
    SELECT 'ten_hand' || n, 'hand-overs ' || n, clock_timestamp() FROM generate_series(1, 50) AS n
    """,
    """
    INSERT INTO workers_acceleratortype
        (cluster_id, slug, name, position, base_price_per_hour, cap_price_per_hour, version)
    SELECT %(cluster)s, 'kind-' || n, 'kind ' || n, n, %(base)s, %(cap)s, 1 FROM generate_series(1, %(types)s) AS n
    """,
    """
    INSERT INTO workers_host (public_id, cluster_id, name, state, isolation, software_version, key_digest, enrolled_at,
                              last_heard_at, last_sequence, last_report, state_before_loss, refusals)
    SELECT 'hst_hand' || n, %(cluster)s, 'host-' || n, 'ready', 'none', '', 'hand-overs ' || n, clock_timestamp(),
           clock_timestamp(), 0, 0, '', 0
    FROM generate_series(0, (%(units)s - 1) / %(per_host)s) AS n
    """,
    """
    INSERT INTO workers_accelerator (public_id, host_id, type_id, index, emulated, healthy, fence)
    SELECT 'acc_hand' || unit, host.id, kind.id, unit %% %(per_host)s, true, true, 0
    FROM generate_series(0, %(units)s - 1) AS unit
    JOIN workers_host AS host ON host.public_id = 'hst_hand' || unit / %(per_host)s
    JOIN workers_acceleratortype AS kind ON kind.cluster_id = %(cluster)s AND kind.position = 1 + unit %% %(types)s
    """,
)

_CONFIRM = """
    UPDATE workers_lease SET state = 'active', observed = 'running', active_at = %(now)s, metered_until = %(now)s,
        billed_during = tstzrange(%(now)s, NULL)
    WHERE state = 'pending' AND host_id IN (SELECT id FROM workers_host WHERE cluster_id = %(cluster)s)
"""
_END = """
    WITH ended AS (
        UPDATE workers_lease SET state = 'closed', reason = 'completed', ended_at = %(end)s,
            during = tstzrange(lower(during), %(end)s), primary_during = tstzrange(lower(primary_during), %(end)s),
            billed_during = tstzrange(lower(billed_during), %(end)s)
        WHERE state = 'active' AND host_id IN (SELECT id FROM workers_host WHERE cluster_id = %(cluster)s)
        RETURNING job_id
    ), finished AS (
        UPDATE workers_job SET state = 'succeeded', reason = 'completed', finished_at = %(now)s
        WHERE id IN (SELECT job_id FROM ended) RETURNING id
    )
    UPDATE markets_bid SET closed_at = %(now)s, closed_in = pg_current_xact_id()::text::bigint
    WHERE closed_at IS NULL AND job_id IN (SELECT id FROM finished)
"""
_QUEUED = "SELECT count(*) FROM workers_job WHERE cluster_id = %(cluster)s AND state = 'queued'"
_JOBS = """
    WITH arrived AS (
        INSERT INTO workers_job
            (public_id, tenant_id, cluster_id, name, spec, state, reason, reason_detail, upgrade, migration_mode,
             policy, policy_params, seek_seconds, submitted_at, queued_at, queue_timeout_seconds, queue_deadline,
             attempts, max_attempts, moves, leave_moment, ask_number, ask_cause, answered_number, agent_cursor,
             progress, version)
        SELECT 'job_hand' || number, tenant.id, %(cluster)s, 'job ' || number, '{"heartbeat_seconds": 10}', 'queued',
               'submitted', '', 'never', 'stop_and_copy', '', '{}', 120, %(now)s, %(now)s, 86400,
               %(now)s + interval '1 day', 0, 3, 0, '', 0, '', 0, 0, 0, 1
        FROM generate_series(%(first)s, %(last)s) AS number
        JOIN tenants_tenant AS tenant ON tenant.public_id = 'ten_hand' || 1 + number %% 50
        RETURNING id
    )
    INSERT INTO markets_bid (public_id, cluster_id, job_id, type_id, accelerator_count, position, max_price_per_hour,
                             origin, accepted_at, opened_at)
    SELECT 'bid_hand' || arrived.id || '_' || place, %(cluster)s, arrived.id, kind.id, 1, place,
           %(base)s + (hashint8extended(arrived.id * 2 + place, %(seed)s) & 1048575), 'tenant', %(now)s, %(now)s
    FROM arrived CROSS JOIN generate_series(0, 1) AS place
    JOIN workers_acceleratortype AS kind
        ON kind.cluster_id = %(cluster)s AND kind.position = 1 + (arrived.id + place) %% %(types)s
"""
_HELD_TWICE = """
    SELECT count(*) FROM workers_lease AS one JOIN workers_lease AS other ON one.id < other.id
        AND ((one.accelerator_id = other.accelerator_id AND one.during && other.during)
             OR (one.job_id = other.job_id AND one.primary_during && other.primary_during))
"""


def figures(run: Run) -> Iterator[Figure]:
    """Hand over units for a minute."""
    floor = _Floor.of(units=run.of(UNITS), seed=run.seed)
    ticks: list[float] = []
    began = time.perf_counter()
    while time.perf_counter() - began < SECONDS * run.share:
        floor.pass_round()
        started = time.perf_counter()
        scheduling.tick(floor.cluster)
        ticks.append(time.perf_counter() - started)
    seconds = time.perf_counter() - began
    handed_over = floor.ask("SELECT count(*) FROM workers_lease")
    detail = (
        f"{handed_over} in {seconds:.0f} s, {len(ticks)} ticks of {floor.units} units, {median(ticks):.3f} s a tick"
    )
    yield Figure("hand_overs.durable", handed_over / seconds, "/s", "higher", LEAST_PER_SECOND, detail)
    yield Figure("hand_overs.held_twice", floor.ask(_HELD_TWICE), "leases", "lower", 0, "accelerators and jobs")


@dataclass(slots=True)
class _Floor:
    """A cluster whose hosts do at once what they are told, and whose queue is as long after every round."""

    cluster: int
    units: int
    seed: int
    arrived: int = 0

    @classmethod
    def of(cls, *, units: int, seed: int) -> "_Floor":
        """Write a floor and its first queue."""
        cluster = Cluster.objects.create(slug="hand-overs", name="hand-overs")
        floor = cls(cluster=cluster.pk, units=units, seed=seed)
        floor.write(*_FLOOR)
        floor.pass_round()
        floor.write("ANALYZE")  # as autovacuum would have by the time at which a cluster is of this size
        return floor

    def pass_round(self) -> None:
        """The last round's leases end, this round's begin, and the queue is filled up again."""
        with transaction.atomic():
            now = self.ask("SELECT clock_timestamp()")
            self.write(_CONFIRM, _END, now=now, end=now + timedelta(microseconds=1))
            missing = self.units * QUEUED_PER_UNIT - self.ask(_QUEUED)
            if missing > 0:
                self.write(_JOBS, now=now, first=self.arrived, last=self.arrived + missing - 1)
                self.arrived += missing

    def write(self, *statements: str, **more: object) -> None:
        """Run statements with what is known of this floor."""
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement, self._known() | more)

    def ask(self, query: str) -> object:
        """One value."""
        with connection.cursor() as cursor:
            cursor.execute(query, self._known())
            return cursor.fetchone()[0]

    def _known(self) -> dict[str, object]:
        sizes = {"types": TYPES, "units": self.units, "per_host": UNITS_OF_A_HOST, "seed": self.seed}
        return {"cluster": self.cluster, "base": BASE, "cap": CAP, **sizes}
