"""What tenants and the operator do during a run, through the real services, at rates that chance spreads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from laissez.errors import Refused
from laissez.events import Outbox, transact
from markets.engine.money import format_price
from markets.models import Bid
from markets.scale.hosts import Hosts
from markets.services import bulk, exchange, submission
from tenants.models import Tenant
from workers.models import AcceleratorType, Cluster, Host, Job
from workers.services import hosts as host_services
from workers.services.jobs import OPEN_JOB_STATES

ACTOR = "scale"
PRICE_STEP_PER_CENT = 10
SILENT_SECONDS = 60.0
DRAINED_SECONDS = 120.0
SHARE_CANCELLED = 0.1
MOST_STEP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often things happen, each a minute."""

    changes: float
    arrivals: float
    completions: float
    price_changes: float
    failures: float
    drains: float


@dataclass(slots=True)
class Actors:
    """Everybody outside of the control plane. `done` counts what they did."""

    cluster: Cluster
    hosts: Hosts
    rates: Rates
    generator: np.random.Generator
    rows_per_job: int
    tenants: Sequence[Tenant]
    draining: dict[int, float] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def act(self, *, seconds: float, elapsed: float) -> None:
        """Do what falls into so many seconds, the run being so many seconds old."""
        minutes = seconds / 60
        self._change(minutes)
        self._repeat("arrivals", self.rates.arrivals * minutes, self._submit)
        self._repeat("cancellations", self.rates.arrivals * SHARE_CANCELLED * minutes, self._cancel)
        self._repeat("price changes", self.rates.price_changes * minutes, self._change_price)
        self._repeat("host failures", self.rates.failures * minutes, self._fail)
        self._repeat("drains", self.rates.drains * minutes, partial(self._drain, elapsed))
        for host in [host for host, until in self.draining.items() if until <= elapsed]:
            del self.draining[host]
            self._move(host, host_services.approve)

    def _change(self, minutes: float) -> None:
        """Let one tenant, whichever chance picks, raise or lower some of its bids in one request."""
        count = min(bulk.MOST_ROWS, int(self.generator.poisson(self.rates.changes * minutes)))
        tenant = self.tenants[int(self.generator.integers(len(self.tenants)))]
        rows = self._rebids(tenant, count) if count else []
        if not rows:
            return
        results = transact(lambda outbox: bulk.change_bids(tenant, rows, outbox=outbox))
        self._count("bid changes", sum(result.state == "changed" for result in results))

    def _rebids(self, tenant: Tenant, count: int) -> list[dict[str, str]]:
        """Rows of a request, whose new maxima lie within some per cent of the former ones, and from base to cap."""
        open_bids = Bid.objects.filter(job__tenant=tenant, closed_at=None, max_price_per_hour__isnull=False)
        live = open_bids.filter(cluster=self.cluster, job__state__in=OPEN_JOB_STATES).order_by("id")
        found = list(
            live.values_list(
                "job__public_id",
                "type__slug",
                "max_price_per_hour",
                "type__base_price_per_hour",
                "type__cap_price_per_hour",
            )
        )
        picked = self.generator.permutation(len(found))[:count].tolist()
        factors = 1 + self.generator.uniform(-MOST_STEP, MOST_STEP, len(picked))
        return [
            {
                "job": job,
                "accelerator_type": kind,
                "max_price_per_hour": format_price(min(cap, max(base, int(former * factor)))),
            }
            for (job, kind, former, base, cap), factor in zip((found[place] for place in picked), factors, strict=True)
        ]

    def _repeat(self, name: str, expected: float, act: Callable[[], bool]) -> None:
        for _ in range(int(self.generator.poisson(expected))):
            self._count(name, int(act()))

    def _count(self, name: str, more: int) -> None:
        self.done[name] = self.done.get(name, 0) + more

    def _submit(self) -> bool:
        types = list(AcceleratorType.objects.filter(cluster=self.cluster).order_by("id"))
        wanted = self.generator.permutation(len(types))[: self.rows_per_job]
        body = {
            "cluster": self.cluster.slug,
            "name": "arrival",
            "command": ["python", "train.py"],
            "rows": [self._row(types[place]) for place in wanted],
        }
        tenant = self.tenants[int(self.generator.integers(len(self.tenants)))]
        return _allowed(lambda outbox: submission.submit(tenant, body, outbox=outbox))

    def _row(self, kind: AcceleratorType) -> dict[str, str]:
        step = 1_000
        bid = int(self.generator.integers(kind.base_price_per_hour // step, kind.cap_price_per_hour // step)) * step
        price = format_price(max(bid, kind.base_price_per_hour))
        return {"accelerator_type": kind.slug, "max_price_per_hour": price}

    def _cancel(self) -> bool:
        jobs = Job.objects.filter(cluster=self.cluster, state=Job.State.QUEUED).select_related("cluster", "tenant")
        job = jobs.order_by("id")[int(self.generator.integers(max(1, jobs.count()))) :].first()
        return job is not None and _allowed(lambda outbox: submission.cancel(job, outbox=outbox))

    def _change_price(self) -> bool:
        types = list(AcceleratorType.objects.filter(cluster=self.cluster).order_by("id"))
        row = types[int(self.generator.integers(len(types)))]
        percent = int(self.generator.integers(-PRICE_STEP_PER_CENT, PRICE_STEP_PER_CENT + 1))
        base = min(row.cap_price_per_hour, max(1, row.base_price_per_hour * (100 + percent) // 100))

        def work(outbox: Outbox) -> AcceleratorType:
            return exchange.set_prices(
                row,
                base=base,
                cap=row.cap_price_per_hour,
                actor=ACTOR,
                reason="a change of the run",
                expected_version=row.version,
                outbox=outbox,
            )

        return _allowed(work)

    def _fail(self) -> bool:
        """A host says nothing for so long that it is lost, and returns."""
        host = self._some_host()
        if host is not None:
            self.hosts.fall_silent([host], seconds=SILENT_SECONDS)
        return host is not None

    def _drain(self, elapsed: float) -> bool:
        host = self._some_host()
        if host is None or not self._move(host, host_services.drain):
            return False
        self.draining[host] = elapsed + DRAINED_SECONDS
        return True

    def _some_host(self) -> int | None:
        rows = Host.objects.filter(cluster=self.cluster, state=Host.State.READY).order_by("id")
        ids = list(rows.exclude(pk__in=self.hosts.silent).values_list("id", flat=True))
        return ids[int(self.generator.integers(len(ids)))] if ids else None

    def _move(self, host: int, move: Callable[..., Host]) -> bool:
        row = Host.objects.get(pk=host)
        return _allowed(lambda outbox: move(row, actor=ACTOR, reason="part of the run", outbox=outbox))


def _allowed(work: Callable[[Outbox], Any]) -> bool:
    """Whether a service did it: what has changed meanwhile may forbid it."""
    try:
        transact(work)
    except Refused:
        return False
    return True
