"""A tick reads nothing whose change leaves no trace in the log, and takes the log with what it reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module

import numpy as np
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django.plugin import DjangoDbBlocker

from laissez import clock
from laissez.events import Outbox
from markets.models import FloorChange
from markets.selectors import dues
from markets.selectors import floor as floors
from markets.selectors.floor import Changes
from markets.services import scheduling
from markets.services.scheduling import Outcome
from tests.flushing import standing
from tests.invariants.lived import Market
from tests.planting import plant
from workers.models import Cluster, Job

pytestmark = pytest.mark.django_db

LOGGED = import_module("markets.migrations.0007_the_floor_logs_its_changes")

# What is logged


CHANGES = {
    ("workers_job", "state"): "UPDATE workers_job SET state = 'stopped', queue_deadline = NULL WHERE name = 'rival'",
    ("workers_job", "cluster_id"): None,
    ("workers_job", "tenant_id"): "UPDATE workers_job SET tenant_id = (SELECT min(id) FROM tenants_tenant)",
    ("workers_job", "upgrade"): "UPDATE workers_job SET upgrade = 'now' WHERE name = 'steady'",
    ("workers_job", "leaving_since"): "UPDATE workers_job SET leaving_since = now() WHERE name = 'steady'",
    ("workers_job", "leave_moment"): "UPDATE workers_job SET leave_moment = 'now' WHERE name = 'steady'",
    ("workers_job", "newest_checkpoint_id"): (
        "UPDATE workers_job SET newest_checkpoint_id = (SELECT max(id) FROM workers_checkpoint) WHERE name = 'climber'"
    ),
    ("workers_job", "queue_deadline"): (
        "UPDATE workers_job SET queue_deadline = queue_deadline + interval '1 s' WHERE name = 'rival'"
    ),
    ("workers_lease", "state"): (
        "UPDATE workers_lease SET state = 'closing', reason = 'stopped', closing_deadline = now()"
        " WHERE state = 'active' AND job_id = (SELECT id FROM workers_job WHERE name = 'steady')"
    ),
    ("workers_lease", "primary_during"): (
        "UPDATE workers_lease SET primary_during = tstzrange(lower(primary_during), now())"
        " WHERE state = 'active' AND job_id = (SELECT id FROM workers_job WHERE name = 'steady')"
    ),
    ("workers_lease", "handed_over_at"): "UPDATE workers_lease SET handed_over_at = now() WHERE state = 'active'",
    ("workers_lease", "accelerator_id"): None,
    ("workers_lease", "host_id"): (
        "UPDATE workers_lease SET host_id = (SELECT max(id) FROM workers_host) WHERE state = 'active'"
    ),
    ("workers_lease", "type_id"): (
        "UPDATE workers_lease SET type_id = (SELECT max(id) FROM workers_acceleratortype) WHERE state = 'active'"
    ),
    ("workers_lease", "job_id"): None,
    ("workers_migration", "state"): (
        "UPDATE workers_migration SET state = 'aborted', reason = 'why' WHERE state = 'awarded'"
    ),
    ("workers_migration", "deadline"): (
        "UPDATE workers_migration SET deadline = deadline + interval '1 s' WHERE state = 'awarded'"
    ),
    ("workers_migration", "closed_at"): "UPDATE workers_migration SET closed_at = now() WHERE state = 'done'",
    ("workers_migration", "job_id"): (
        "UPDATE workers_migration SET job_id = (SELECT id FROM workers_job WHERE name = 'winner') WHERE state = 'done'"
    ),
    ("markets_award", "state"): "UPDATE markets_award SET state = 'lost', closed_at = now() WHERE state = 'waiting'",
    ("markets_award", "type_id"): (
        "UPDATE markets_award SET type_id = (SELECT max(id) FROM workers_acceleratortype) WHERE state = 'waiting'"
    ),
    ("markets_award", "since"): "UPDATE markets_award SET since = now() WHERE state = 'waiting'",
    ("markets_award", "deadline"): "UPDATE markets_award SET deadline = now() WHERE state = 'waiting'",
    ("markets_award", "job_id"): (
        "UPDATE markets_award SET job_id = (SELECT id FROM workers_job WHERE name = 'steady') WHERE state = 'waiting'"
    ),
    (
        "markets_notice",
        "state",
    ): "UPDATE markets_notice SET state = 'withdrawn', closed_at = now() WHERE state = 'open'",
    ("markets_notice", "lease_id"): (
        "UPDATE markets_notice SET lease_id = (SELECT max(id) FROM workers_lease) WHERE state = 'open'"
    ),
    ("markets_notice", "reason"): "UPDATE markets_notice SET reason = 'budget' WHERE state = 'open'",
    ("markets_notice", "opened_at"): "UPDATE markets_notice SET opened_at = now() WHERE state = 'open'",
    ("markets_notice", "deadline"): "UPDATE markets_notice SET deadline = now() WHERE state = 'open'",
    ("markets_notice", "job_id"): (
        "UPDATE markets_notice SET job_id = (SELECT id FROM workers_job WHERE name = 'steady') WHERE state = 'open'"
    ),
    ("markets_cooldown", "until"): "UPDATE markets_cooldown SET until = now()",
    ("markets_cooldown", "type_id"): (
        "UPDATE markets_cooldown SET type_id = (SELECT max(id) FROM workers_acceleratortype)"
    ),
    ("markets_cooldown", "job_id"): (
        "UPDATE markets_cooldown SET job_id = (SELECT id FROM workers_job WHERE name = 'rival')"
    ),
    ("workers_accelerator", "healthy"): "UPDATE workers_accelerator SET healthy = false",
    ("workers_accelerator", "type_id"): (
        "UPDATE workers_accelerator SET type_id = (SELECT max(id) FROM workers_acceleratortype)"
    ),
    ("workers_accelerator", "host_id"): (
        "UPDATE workers_accelerator SET host_id = (SELECT max(id) FROM workers_host), index = 7"
        " WHERE host_id = (SELECT id FROM workers_host WHERE name = 'host-a10')"
    ),
    ("workers_host", "state"): "UPDATE workers_host SET state = 'draining'",
    ("workers_host", "cluster_id"): None,
    ("workers_acceleratortype", "base_price_per_hour"): "UPDATE workers_acceleratortype SET base_price_per_hour = 7",
    ("workers_acceleratortype", "cap_price_per_hour"): (
        "UPDATE workers_acceleratortype SET cap_price_per_hour = cap_price_per_hour + 1"
    ),
    ("workers_acceleratortype", "cluster_id"): None,
    ("workers_cluster", "rule"): "UPDATE workers_cluster SET rule = 'first_come'",
    ("workers_cluster", "notice_seconds"): "UPDATE workers_cluster SET notice_seconds = 31",
    ("workers_cluster", "max_moves_per_hour"): "UPDATE workers_cluster SET max_moves_per_hour = 1",
    ("markets_bid", "a closing"): "UPDATE markets_bid SET closed_at = now() WHERE closed_at IS NULL",
    ("markets_bid", "a new row"): (
        "INSERT INTO markets_bid (public_id, cluster_id, job_id, type_id, accelerator_count, position, origin,"
        " accepted_at, opened_at) SELECT 'bid_x', job.cluster_id, job.id, max(type.id), 1, 9, 'tenant', now(), now()"
        " FROM workers_job AS job, workers_acceleratortype AS type WHERE job.name = 'rival' GROUP BY job.id"
    ),
    ("workers_acceleratortype", "a new row"): (
        "INSERT INTO workers_acceleratortype (cluster_id, slug, name, position, base_price_per_hour,"
        " cap_price_per_hour, version) SELECT id, 'new', 'New', 9, 5, 9, 1 FROM workers_cluster"
    ),
    ("workers_accelerator", "a new row"): (
        "INSERT INTO workers_accelerator (public_id, host_id, type_id, index, emulated, healthy, fence)"
        " SELECT 'acc_x', host_id, type_id, 8, true, true, 0 FROM workers_accelerator LIMIT 1"
    ),
    ("markets_cooldown", "a row gone"): "DELETE FROM markets_cooldown",
}
"""What a change of each logged column looks like. None: the database refuses it, or nothing else would fit."""

IGNORED = (
    "UPDATE workers_job SET ask_number = ask_number + 1, progress = 0.5, progress_at = now(), agent_cursor = 7",
    "UPDATE workers_lease SET expires_at = now(), last_heard_at = now(), metered_until = now()",
    "UPDATE workers_host SET last_heard_at = now(), last_sequence = 99",
    "UPDATE workers_accelerator SET fence = fence + 1",
    "UPDATE markets_award SET put_under_notice = true",
    "UPDATE workers_cluster SET last_tick_at = now(), name = 'Another'",
)


@dataclass(frozen=True)
class Quiet:
    """A lived market with everything in it, at an instant at which nothing is due any more."""

    market: Market
    at: datetime

    @property
    def cluster(self) -> Cluster:
        return self.market.cluster

    def tick(self) -> Outcome:
        """Clear at that instant, however long the test takes."""
        with transaction.atomic():
            return scheduling._tick(self.cluster.pk, Outbox(now=self.at))

    def after(self, sql: str) -> Outcome:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            assert cursor.rowcount > 0, sql
        return self.tick()


@pytest.fixture(scope="module")
def quiet(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Quiet]:
    """It stands for all tests of this module, which undo what they change."""
    with standing(django_db_blocker):
        market = Market().live()
        plant(
            "INSERT INTO markets_cooldown (job_id, type_id, until, length_seconds)"
            " SELECT id, (SELECT min(id) FROM workers_acceleratortype), now() + interval '1 hour', 60"
            " FROM workers_job WHERE name = 'climber'"
        )
        quiet = Quiet(market, clock.now())
        for _ in range(3):
            quiet.tick()
        assert quiet.tick() == Outcome.UNCHANGED
        yield quiet


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def test_a_change_of_whatever_a_tick_reads_makes_the_next_one_look(quiet: Quiet) -> None:
    for (table, column), sql in CHANGES.items():
        if sql is not None:
            with undone():
                assert quiet.after(sql) == Outcome.CLEARED, (table, column)
    assert quiet.tick() == Outcome.UNCHANGED


def test_what_no_tick_reads_may_change_in_peace(quiet: Quiet) -> None:
    for sql in IGNORED:
        with undone():
            assert quiet.after(sql) == Outcome.UNCHANGED, sql


LOGGED_COLUMNS = {
    **LOGGED.OF_JOBS,
    "workers_job": LOGGED.JOBS,
    "workers_accelerator": ("healthy", "type_id", "host_id"),
    **{table: columns for table, (_, columns) in LOGGED.OF_CLUSTERS.items()},
}


def test_every_logged_column_has_its_change_above() -> None:
    logged = {(table, column) for table, columns in LOGGED_COLUMNS.items() for column in columns}
    assert logged <= CHANGES.keys()


def test_a_tick_reads_no_column_whose_change_is_not_logged(quiet: Quiet) -> None:
    readable = {
        "markets_bid": "*",
        "markets_floorchange": "*",  # the log itself
        "workers_checkpoint": "*",  # written once
        "workers_cluster": "*",  # whose row the tick has locked and read
    }
    with undone(), connection.cursor() as cursor:
        cursor.execute("CREATE ROLE reader")
        for table in readable:
            cursor.execute(f"GRANT SELECT ON {table} TO reader")
        for table, columns in LOGGED_COLUMNS.items():
            cursor.execute(f"GRANT SELECT (id, {', '.join(columns)}) ON {table} TO reader")
        cursor.execute("SET LOCAL ROLE reader")
        now = quiet.at
        snapshot = floors.read(quiet.cluster, now=now)
        floors.read(quiet.cluster, now=now, former=snapshot, changed=Changes(np.array([1]), others=False))
        scheduling.moments.due(snapshot.floor)
        dues.of(quiet.cluster, now=now)
    assert len(snapshot.floor.jobs) > 1


def test_what_is_committed_while_a_tick_runs_is_left_for_the_next(quiet: Quiet) -> None:
    FloorChange.objects.create(cluster=quiet.cluster)
    with undone():
        assert quiet.tick() == Outcome.CLEARED
        assert not FloorChange.objects.exists()
    assert FloorChange.objects.count() == 1  # a tick that was undone has taken nothing
    assert quiet.tick() == Outcome.CLEARED
    assert quiet.tick() == Outcome.UNCHANGED


def test_what_an_undone_tick_remembers_is_not_used(quiet: Quiet) -> None:
    steady = quiet.market.jobs["steady"]
    with undone():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE workers_job SET upgrade = 'never' WHERE id = %s", [steady.pk])
        quiet.tick()
    memory = scheduling._memories[quiet.cluster.pk]
    assert memory.snapshot.read_in != Cluster.objects.get().floor_read_in
    with undone():
        Job.objects.filter(pk=steady.pk).update(upgrade="now")
        quiet.tick()
    jobs = scheduling._memories[quiet.cluster.pk].snapshot.floor.jobs
    assert jobs["seeking"][jobs["id"] == steady.pk].tolist() == [1]


def test_an_unchanged_tick_takes_a_handful_of_queries_whatever_there_is(quiet: Quiet) -> None:
    with CaptureQueriesContext(connection) as seen:
        assert quiet.tick() == Outcome.UNCHANGED
    texts = [query["sql"] for query in seen if "SAVEPOINT" not in query["sql"]]
    assert len(texts) == 4  # lock the cluster, look for a price change that is due, wait for no disk, note the tick
