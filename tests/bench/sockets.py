"""From a commit to those who listen: one socket, and a thousand of many users on the same cores."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, sleep

import numpy as np

from laissez.models import Stream
from laissez.stack import product
from laissez.stack.places import PROJECT
from markets.scale.seeding import Shape, seed
from markets.services import scheduling
from tenants.models import Tenant
from tests.bench.figures import Figure, Run
from tests.bench.stage import fresh_database, running
from tests.bench.telling import tell_every_row
from tests.tenancy import a_token
from workers.models import Cluster

SOCKETS = 1_000
ROUNDS = 30
PAUSE_SECONDS = 0.3
JOBS, TENANTS = 500, 50


@dataclass(frozen=True, slots=True)
class Delivery:
    """One tick's events on their way, in seconds after the commit: to the first, the middle and the last socket."""

    first: float
    middle: float
    last: float


@dataclass(frozen=True, slots=True)
class Web:
    """The web process: its address, and what it weighs."""

    address: str
    pid: int

    @property
    def resident_mb(self) -> float:
        """The memory that it has in use at present."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
        return int(kilobytes) / 1024


def figures(run: Run) -> Iterator[Figure]:
    """Median and p95 to one socket; the last of many, and the memory that they take."""
    with fresh_database():
        shape = Shape(hosts=JOBS // 2, jobs=JOBS, running=JOBS // 2, tenants=TENANTS)
        cluster = seed(shape, generator=np.random.default_rng(run.seed))
        scheduling.tick(cluster.pk)
        tokens = [a_token(tenant, "prices:read")[1] for tenant in Tenant.objects.all()]
        with _web() as web:
            alone = web.resident_mb
            yield from _to_one(_told(cluster, web, tokens, sockets=1))
            yield from _to_many(_told(cluster, web, tokens, sockets=run.of(SOCKETS)), alone)


def _to_one(told: "Told") -> Iterator[Figure]:
    times = [each.last * 1e3 for each in told.deliveries]
    detail = f"median of {len(times)} ticks in which every type changed, p95 {_p95(times):.1f} ms"
    yield Figure("feed.commit_to_socket", median(times), "ms", goal=50, detail=detail)


def _to_many(told: "Told", alone: float) -> Iterator[Figure]:
    last = [each.last * 1e3 for each in told.deliveries]
    middle = [each.middle * 1e3 for each in told.deliveries]
    detail = f"{told.sockets} sockets, median of {len(last)} ticks, p95 {_p95(last):.0f} ms, worst {max(last):.0f} ms"
    yield Figure("feed.last_of_many", median(last), "ms", goal=500, detail=detail)
    yield Figure("feed.middle_of_many", median(middle), "ms", detail=f"the middle one of {told.sockets} sockets")
    each = (told.resident_mb - alone) * 1024 / told.sockets
    detail = f"{alone:.0f} MB before the sockets, {each:.0f} kB each"
    yield Figure("feed.resident_memory", told.resident_mb, "MB", detail=detail)


@dataclass(frozen=True, slots=True)
class Told:
    """What a crowd was told, and what the web process weighed meanwhile."""

    sockets: int
    deliveries: Sequence[Delivery]
    resident_mb: float


def _told(cluster: Cluster, web: Web, tokens: Sequence[str], *, sockets: int) -> Told:
    """Tell every row of the market some times over, and hear from the clients when it came."""
    stream = f"market:{cluster.slug}"
    url = web.address.replace("http:", "ws:") + "/api/v1/feed"
    command = [sys.executable, "-m", "tests.bench.listeners", url, stream, str(sockets)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT) as clients:
        assert clients.stdin is not None
        assert clients.stdout is not None
        try:
            print(*tokens, file=clients.stdin, flush=True)
            if clients.stdout.readline() != "ready\n":
                raise RuntimeError("the clients could not subscribe")
            deliveries = []
            for _ in range(ROUNDS):
                sleep(PAUSE_SECONDS)
                committed_at = tell_every_row(cluster, monotonic)
                print(Stream.objects.get(name=stream).last_seq, file=clients.stdin, flush=True)
                at = json.loads(clients.stdout.readline())
                deliveries.append(Delivery(*(at[name] - committed_at for name in ("first", "middle", "last"))))
            return Told(sockets, deliveries, web.resident_mb)
        finally:
            clients.kill()


@contextmanager
def _web() -> Iterator[Web]:
    with closing(product.listen("127.0.0.1", 0)) as listener:
        address = product.web_address(listener)
        spec = product.web(listener, {**os.environ, "LAISSEZ_INTERNAL_URL": address})
        with running(spec) as child:
            yield Web(address, child.pid)


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
