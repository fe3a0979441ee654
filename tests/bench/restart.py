"""The whole control plane killed and started again: how soon the market clears, and whether hosts have lost leases.

The stack is that of `manage.py up`, in production. It is killed, and stays down for longer than a host may be silent;
some bids change before it is started again, so that its first tick has to clear.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from laissez.stack import record, servers
from laissez.stack.places import PROJECT
from markets.scale.changing import change_share
from markets.scale.seeding import Shape, seed
from markets.services import scheduling
from tests.bench.figures import Figure, Run
from workers.models import Cluster

LEASES, JOBS, ROWS_PER_JOB = 10_000, 20_000, 5
GOAL_SECONDS = 30.0
UP_SECONDS = 300
POLL_SECONDS = 0.1
ROUNDS_SECONDS = 20
"""Two rounds of the reconciler, which loses silent hosts."""

_TICKED = "SELECT last_tick_at > %s FROM workers_cluster"
_RECONCILED = "SELECT checked_at > listening_since + interval '6 seconds' FROM workers_ear"
_LEASES = """
    SELECT count(*) FILTER (WHERE state <> 'closed'), count(*) FILTER (WHERE reason = 'host_lost'),
           (SELECT count(*) FROM workers_host WHERE state = 'lost') FROM workers_lease
"""


def figures(run: Run) -> Iterator[Figure]:
    """Seed, run, kill, wait, change, start, look."""
    state = Path(settings.STATE_DIR)
    shape = Shape(
        hosts=run.of(LEASES), jobs=run.of(JOBS), running=run.of(LEASES), rows_per_job=ROWS_PER_JOB, tenants=run.of(100)
    )
    with _servers(state):
        call_command("migrate", interactive=False, verbosity=0)
        cluster = seed(shape, generator=np.random.default_rng(run.seed))
        scheduling.tick(cluster.pk)
    with _up(state) as (process, started):
        first = _wait_for_tick(started)
        process.kill()
    down_since = time.monotonic()
    with _servers(state):
        change_share(Cluster.objects.get(), share=0.01, generator=np.random.default_rng(run.seed))
    silence = settings.LEASE_TTL_SECONDS + settings.LEASE_GRACE_SECONDS + 1
    time.sleep(max(0.0, silence - (time.monotonic() - down_since)))
    with _up(state) as (process, started):
        seconds = _wait_for_tick(started)
        _comes_true(_RECONCILED, seconds=ROUNDS_SECONDS)
        held, lost, lost_hosts = _row(_LEASES)
        process.terminate()
        process.wait(UP_SECONDS)
    book = f"{shape.jobs * ROWS_PER_JOB:,} open bids, {shape.running:,} leases"
    yield Figure(
        "restart.clearing_again", seconds, "s", "lower", GOAL_SECONDS, f"{book}, killed and down {silence:g} s"
    )
    yield Figure("restart.first_start", first, "s", "lower", None, "static files are collected for the first time")
    yield Figure("restart.leases_lost", lost, "leases", "lower", 0, f"{held:,} held, {lost_hosts} hosts lost")


@contextmanager
def _servers(state: Path) -> Iterator[None]:
    """The servers alone, once the killed stack's are gone."""
    with servers.running(state, purpose="bench", durable=True, wait_seconds=60):
        try:
            yield
        finally:
            connections.close_all()


@contextmanager
def _up(state: Path) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    """`manage.py up`, and when it was started."""
    record.wait_for(lambda: not record.is_locked(state), seconds=60)
    started = time.time()
    with (state / "up.log").open("ab") as output:
        command = [sys.executable, "manage.py", "up", "--port", "0"]
        process = subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process, started
    except BaseException:
        sys.stderr.write((state / "up.log").read_text()[-4000:])
        raise
    finally:
        process.terminate()
        process.wait(UP_SECONDS)


def _wait_for_tick(started: float) -> float:
    """Seconds from the start to the end of the first tick after it."""
    since = datetime.fromtimestamp(started, UTC)
    if not _comes_true(_TICKED, since, seconds=UP_SECONDS):
        raise RuntimeError(f"no tick within {UP_SECONDS} s")
    return time.time() - started


def _comes_true(query: str, *values: Any, seconds: float) -> bool:
    """Whether the query does within so many seconds."""
    deadline = time.monotonic() + seconds
    while not _ask(query, *values):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _ask(query: str, *values: Any) -> Any:
    """One value, or None while the database does not answer."""
    try:
        return _row(query, *values)[0]
    except (psycopg.OperationalError, TypeError):
        return None


def _row(query: str, *values: Any) -> Any:
    with psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=2) as connection:
        return connection.execute(query, values).fetchone()
