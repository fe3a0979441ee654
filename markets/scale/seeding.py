"""Filling a cluster at once: hosts, tenants with funds, queued jobs with launch tables, jobs that run on active leases.

Tenants and their money come through the real services. Everything else is copied in as those would have written it,
but without events: streams begin with what happens next. Prices are drawn so that the market is at rest: whoever runs
bids above the price of its type, whoever waits bids below it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection, transaction

from laissez import clock
from laissez.clock import rfc3339
from laissez.credentials import digest
from laissez.events import Outbox, transact
from markets.engine.money import MICRO_PER_DOLLAR, MICROSECONDS_PER_SECOND, amount, format_price, integral
from markets.models import Award, Bid
from markets.scale.copying import insert, instants, new_ids
from markets.services import funds
from tenants.models import Account, Hold, Tenant
from tenants.services import accounts
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Job, Lease
from workers.services import specs
from workers.services.leases import CLOSING_GRACE_SECONDS, PENDING_SECONDS

GRANT_MICRODOLLARS = 10_000_000 * MICRO_PER_DOLLAR
CAP_OVER_BASE = 4
PRICE_STEP = 1_000
"""Bids are whole tenths of a cent, so that exact ties occur."""
LOWEST_BASE, HIGHEST_BASE = 200_000, 3_000_000
WAITED_US = 3600 * MICROSECONDS_PER_SECOND
"""Queued jobs came within the last hour."""
SHARE_ON_SECOND_ROW = 0.3
SHARE_BIDDING_CAP = 0.01
AWARD_SECONDS = 600
_MARK = "<here>"
TABLES = (Host, Accelerator, Tenant, Account, Hold, Job, Bid, Lease, Award)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How much there is of everything. `running` of the `jobs` run, on as many of the accelerators."""

    hosts: int
    jobs: int
    running: int = 0
    accelerators_per_host: int = 1
    types: int = 20
    rows_per_job: int = 5
    tenants: int = 50

    def __post_init__(self) -> None:
        if self.running > min(self.jobs, self.hosts * self.accelerators_per_host):
            raise ValueError(f"{self.running} jobs cannot run: there are not as many jobs, or not as many accelerators")
        if not 1 <= self.rows_per_job <= self.types:
            raise ValueError(f"a launch table has 1 to {self.types} rows of so many types, not {self.rows_per_job}")


@dataclass(frozen=True, slots=True)
class _Prices:
    """Per type, in the order of its types: base, cap, and the price about which the market is at rest."""

    types: Sequence[AcceleratorType]
    base: np.ndarray
    cap: np.ndarray
    rest: np.ndarray


@dataclass(frozen=True, slots=True)
class _Units:
    """Accelerators in an order in which the first are the occupied ones; `type` is a place."""

    id: np.ndarray
    host: np.ndarray
    type: np.ndarray


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Jobs before they are written, the running ones first. `table` holds places of types, `bids` micro-dollars."""

    table: np.ndarray
    bids: np.ndarray
    bids_cap: np.ndarray
    tenant: np.ndarray
    ages_us: np.ndarray
    public_ids: list[str]


def seed(shape: Shape, *, generator: np.random.Generator, slug: str = "scale") -> Cluster:
    """Make a cluster of this shape. Equal generators make equal markets, but for the time.

    Nobody else may write to these tables meanwhile: ids are taken in one stretch.
    """
    tenants = _tenants(shape.tenants, slug)
    with transaction.atomic():
        now = clock.now()
        cluster = Cluster.objects.create(slug=slug, name=slug)
        prices = _types(cluster, shape.types, generator)
        units = _hosts(cluster, shape, prices, generator, now)
        jobs = _drawn(shape, prices, units.type[: shape.running], generator)
        ids = _write_jobs(cluster, tenants, prices, jobs, shape.running, now)
        _write_bids(cluster, prices, jobs, ids, generator, now)
        _write_leases(prices, units, ids[: shape.running], generator, now)
        _write_holds(cluster, tenants, prices, jobs, now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE " + ", ".join(model._meta.db_table for model in TABLES))
    return cluster


def _tenants(count: int, slug: str) -> list[Tenant]:
    def work(outbox: Outbox) -> list[Tenant]:
        return [_tenant(f"{slug}-{number:04d}", outbox) for number in range(count)]

    return transact(work)


def _tenant(name: str, outbox: Outbox) -> Tenant:
    tenant = accounts.create_tenant(name, actor="scale", outbox=outbox)
    accounts.grant(
        tenant,
        amount_microdollars=GRANT_MICRODOLLARS,
        key=f"scale:{name}",
        reason="a market of scale",
        actor="scale",
        outbox=outbox,
    )
    return tenant


def _types(cluster: Cluster, count: int, generator: np.random.Generator) -> _Prices:
    base = _rounded(generator.uniform(LOWEST_BASE, HIGHEST_BASE, count))
    cap = base * CAP_OVER_BASE
    types = [
        AcceleratorType.objects.create(
            cluster=cluster,
            slug=f"type-{place:02d}",
            name=f"Type {place:02d}",
            position=place,
            base_price_per_hour=int(base[place]),
            cap_price_per_hour=int(cap[place]),
        )
        for place in range(count)
    ]
    return _Prices(types=types, base=base, cap=cap, rest=_rounded(base * generator.uniform(1.2, 2.5, count)))


def _hosts(cluster: Cluster, shape: Shape, prices: _Prices, generator: np.random.Generator, now: datetime) -> _Units:
    """Every host is of one type, as machines are; every type has a host while there are as many."""
    count, each = shape.hosts, shape.accelerators_per_host
    public_ids = new_ids("hst", count, generator)
    hosts = insert(
        Host,
        count,
        public_id=public_ids,
        cluster=cluster.pk,
        name=[f"node-{number:05d}" for number in range(count)],
        state=Host.State.READY,
        isolation="none",
        software_version="scale",
        key_digest=[digest(public_id) for public_id in public_ids],
        enrolled_at=now,
        last_heard_at=now,
    )
    units = count * each
    host = np.repeat(hosts, each)
    kind = np.repeat(generator.permutation(np.arange(count) % shape.types), each)
    order = generator.permutation(units)
    occupied = np.zeros(units, dtype=np.int64)
    occupied[order[: shape.running]] = 1
    ids = insert(
        Accelerator,
        units,
        public_id=new_ids("acc", units, generator),
        host=host,
        type=_ids(prices)[kind],
        index=np.tile(np.arange(each), count),
        emulated=True,
        fence=occupied,
    )
    return _Units(id=ids[order], host=host[order], type=kind[order])


def _drawn(shape: Shape, prices: _Prices, held: np.ndarray, generator: np.random.Generator) -> _Jobs:
    """Launch tables, and bids at which nothing moves: above the price on the row a job holds, below it elsewhere."""
    count, rows = shape.jobs, shape.rows_per_job
    table = generator.random((count, shape.types)).argsort(axis=1)[:, :rows]
    place = np.where(generator.random(held.size) < SHARE_ON_SECOND_ROW, min(1, rows - 1), 0)
    _put(table, held, place)
    below = prices.base[table] + (prices.rest - prices.base)[table] * generator.random(table.shape)
    bids = np.maximum(prices.base[table], _rounded(below) - PRICE_STEP)
    running = np.arange(held.size)
    above = prices.rest[held] + (prices.cap - prices.rest)[held] * generator.random(held.size)
    bids[running, place] = np.minimum(prices.cap[held], _rounded(above) + PRICE_STEP)
    bids_cap = np.zeros(table.shape, dtype=bool)
    bids_cap[running, place] = generator.random(held.size) < SHARE_BIDDING_CAP
    return _Jobs(
        table=table,
        bids=bids,
        bids_cap=bids_cap,
        tenant=generator.integers(0, shape.tenants, count),
        ages_us=generator.integers(0, WAITED_US, count),
        public_ids=new_ids("job", count, generator),
    )


def _put(table: np.ndarray, held: np.ndarray, place: np.ndarray) -> None:
    """Have the first tables name the held types at these places, and still no type twice."""
    running = np.arange(held.size)
    former = table[running, place]
    job, row = np.nonzero(table[: held.size] == held[:, None])
    table[job, row] = former[job]
    table[running, place] = held


def _write_jobs(
    cluster: Cluster, tenants: Sequence[Tenant], prices: _Prices, jobs: _Jobs, running: int, now: datetime
) -> np.ndarray:
    count = len(jobs.public_ids)
    runs = np.arange(count) < running
    document = specs.parse(_body(cluster, prices)).document
    queued_at = instants(now, jobs.ages_us)
    timeout = document["queue_timeout_seconds"]
    deadline = queued_at + np.timedelta64(timeout, "s")
    return insert(
        Job,
        count,
        public_id=jobs.public_ids,
        tenant=np.array([tenant.pk for tenant in tenants])[jobs.tenant],
        cluster=cluster.pk,
        name=[f"job-{number:06d}" for number in range(count)],
        spec=_documents(document, prices, jobs),
        state=np.where(runs, Job.State.RUNNING.value, Job.State.QUEUED.value),
        reason=np.where(runs, "handed_over", "submitted"),
        upgrade=np.where(np.arange(count) % 2, Job.Upgrade.NEVER.value, Job.Upgrade.AT_CHECKPOINT.value),
        migration_mode=document["migration"],
        seek_seconds=document["seek_seconds"],
        max_attempts=document["max_attempts"],
        submitted_at=queued_at,
        queued_at=queued_at,
        queue_timeout_seconds=timeout,
        queue_deadline=np.where(runs, np.datetime64("NaT"), deadline),
        started_at=np.where(runs, np.datetime64(now.replace(tzinfo=None), "us"), np.datetime64("NaT")),
        asked_at=now,
    )


def _body(cluster: Cluster, prices: _Prices) -> dict[str, Any]:
    """A submission like those of all these jobs, but for its rows."""
    return {
        "cluster": cluster.slug,
        "name": "job",
        "command": ["python", "train.py"],
        "heartbeat_seconds": 3600,
        "rows": [{"accelerator_type": prices.types[0].slug, "max_price_per_hour": "cap"}],
    }


def _documents(document: Mapping[str, Any], prices: _Prices, jobs: _Jobs) -> list[str]:
    """The specs as JSON, equal but for their rows."""
    (row,) = document["rows"]
    before, after = json.dumps(dict(document) | {"rows": _MARK}).split(json.dumps(_MARK))
    rows = [json.dumps(row | {"accelerator_type": each.slug, "max_price_per_hour": _MARK}) for each in prices.types]
    halves = [text.split(_MARK) for text in rows]
    tables = zip(jobs.table.tolist(), jobs.bids.tolist(), jobs.bids_cap.tolist(), strict=True)
    return [f"{before}[{', '.join(_row(halves, *row) for row in zip(*table, strict=True))}]{after}" for table in tables]


def _row(halves: Sequence[Sequence[str]], place: int, bid: int, bids_cap: bool) -> str:
    before, after = halves[place]
    return f"{before}{'cap' if bids_cap else format_price(bid)}{after}"


def _write_bids(
    cluster: Cluster, prices: _Prices, jobs: _Jobs, ids: np.ndarray, generator: np.random.Generator, now: datetime
) -> None:
    count, rows = jobs.table.shape
    submitted_at = instants(now, np.repeat(jobs.ages_us, rows))
    highest: list[int | None] = jobs.bids.ravel().tolist()
    for place in np.flatnonzero(jobs.bids_cap.ravel()).tolist():
        highest[place] = None
    insert(
        Bid,
        count * rows,
        public_id=new_ids("bid", count * rows, generator),
        cluster=cluster.pk,
        job=np.repeat(ids, rows),
        type=_ids(prices)[jobs.table.ravel()],
        position=np.tile(np.arange(rows), count),
        max_price_per_hour=highest,
        origin=Bid.Origin.TENANT,
        accepted_at=submitted_at,
        opened_at=submitted_at,
    )


def _write_holds(cluster: Cluster, tenants: Sequence[Tenant], prices: _Prices, jobs: _Jobs, now: datetime) -> None:
    """What each job's dearest row needs at its cap: enough whatever it bids later."""
    account_of = dict(Account.objects.filter(tenant__in=tenants).values_list("tenant_id", "id"))
    seconds = cluster.notice_seconds + CLOSING_GRACE_SECONDS + funds.SLICE_SECONDS
    market_us = seconds * MICROSECONDS_PER_SECOND * funds.speedup()
    dearest: list[int] = prices.cap[jobs.table].max(axis=1).tolist()
    insert(
        Hold,
        len(dearest),
        account=np.array([account_of[tenant.pk] for tenant in tenants])[jobs.tenant],
        reference=jobs.public_ids,
        amount_microdollars=[amount(integral(cap, 0, market_us)) for cap in dearest],
        opened_at=now,
        renewed_at=now,
    )


def _write_leases(
    prices: _Prices, units: _Units, jobs: np.ndarray, generator: np.random.Generator, now: datetime
) -> None:
    """Each running job on the unit of its place: handed over, confirmed, stepping, and billed from now on."""
    count = jobs.size
    kind = _ids(prices)[units.type[:count]]
    open_end = f"[{rfc3339(now)},)"
    leases = insert(
        Lease,
        count,
        public_id=new_ids("lse", count, generator),
        job=jobs,
        accelerator=units.id[:count],
        host=units.host[:count],
        type=kind,
        slot=0,
        fence=1,
        state=Lease.State.ACTIVE,
        observed="running",
        during=open_end,
        primary_during=open_end,
        billed_during=open_end,
        handed_over_at=now,
        pending_deadline=now + timedelta(seconds=PENDING_SECONDS),
        expires_at=now + timedelta(seconds=settings.LEASE_TTL_SECONDS),
        last_heard_at=now,
        active_at=now,
        first_step_at=now,
        metered_until=now,
    )
    insert(
        Award,
        count,
        public_id=new_ids("awd", count, generator),
        job=jobs,
        type=kind,
        state=Award.State.HANDED_OVER,
        since=now,
        deadline=now + timedelta(seconds=AWARD_SECONDS),
        lease=leases,
        closed_at=now,
    )


def _ids(prices: _Prices) -> np.ndarray:
    return np.array([row.pk for row in prices.types])


def _rounded(prices: np.ndarray) -> np.ndarray:
    """Prices as whole steps."""
    rounded: np.ndarray = (prices // PRICE_STEP).astype(np.int64) * PRICE_STEP
    return rounded
