"""Changes of bids through the API: single requests and rows in bulk, with the web process as `manage.py up` runs it."""

import asyncio
import json
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import perf_counter
from urllib.parse import urlsplit

import numpy as np

from markets.scale.seeding import Shape, seed
from markets.services import scheduling
from tenants.models import Tenant
from tests.bench.figures import Figure, Run
from tests.bench.stage import fresh_database, web
from tests.tenancy import a_token
from workers.models import Cluster, Job

JOBS, ROWS_PER_JOB = 5_000, 5
AT_ONCE = 4
SECONDS = 10.0
WARM_UP_SECONDS = 2.0
BULKS = 8
ANSWERED_WELL = b"HTTP/1.1 200 "


@dataclass(frozen=True, slots=True)
class Table:
    """A job's launch table as it was seeded: types and maxima in dollars."""

    job: str
    rows: Sequence[tuple[str, str]]


@dataclass(slots=True)
class Caller:
    """One connection that is kept, over which requests go one after the other."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str
    seconds: list[float] = field(default_factory=list)

    async def send(self, method: str, path: str, body: object, *more: str) -> bytes:
        """Send JSON and return the answer's body. Every request has a key of its own.

        Raises:
            RuntimeError: it was not answered with 200.
        """
        content = json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}",
            "Content-Type: application/json", f"Content-Length: {len(content)}", f"Idempotency-Key: {uuid.uuid4()}",
            *more, "", "",
        )  # fmt: skip
        began = perf_counter()
        self.writer.write("\r\n".join(head).encode() + content)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        told = await self.reader.readexactly(int(lengths[0].split(b":")[1]))
        self.seconds.append(perf_counter() - began)
        if not answer.startswith(ANSWERED_WELL):
            raise RuntimeError(f"{method} {path}: {answer[:60]!r} {told[:500]!r}")
        return told


def figures(run: Run) -> Iterator[Figure]:
    """Requests a second, alone and several at once, with the whole job in the answer and without; rows a second."""
    with fresh_database():
        jobs = run.of(JOBS)
        cluster = seed(
            Shape(hosts=max(1, jobs // 10), jobs=jobs, running=jobs // 10, rows_per_job=ROWS_PER_JOB, tenants=1),
            generator=np.random.default_rng(run.seed),
        )
        scheduling.tick(cluster.pk)
        token = a_token(Tenant.objects.get())[1]
        tables = _tables(cluster)
        with web() as address:
            for name, at_once, more in (
                ("alone", 1, ["Prefer: return=minimal"]),
                ("single", AT_ONCE, ["Prefer: return=minimal"]),
                ("single_whole", AT_ONCE, []),
            ):
                callers, seconds = asyncio.run(_single(address, token, tables, at_once, more, run))
                yield from _requests(name, callers, seconds, at_once)
            yield from _bulk(*asyncio.run(_in_bulk(address, token, tables, run)))


def _tables(cluster: Cluster) -> list[Table]:
    rows = Job.objects.filter(cluster=cluster, state=Job.State.QUEUED).order_by("id")
    return [
        Table(name, [(row["accelerator_type"], row["max_price_per_hour"]) for row in spec["rows"]])
        for name, spec in rows.values_list("public_id", "spec")
    ]


async def _connected(address: str, token: str) -> Caller:
    parts = urlsplit(address)
    return Caller(*await asyncio.open_connection(parts.hostname, parts.port), token)


async def _single(
    address: str, token: str, tables: Sequence[Table], at_once: int, more: Sequence[str], run: Run
) -> tuple[list[Caller], float]:
    """Change one row of one job after the other, over so many connections at once."""
    callers = [await _connected(address, token) for _ in range(at_once)]
    chances = [random.Random(run.seed + place) for place in range(at_once)]

    async def call(place: int, until: float) -> None:
        while perf_counter() < until:
            table = chances[place].choice(tables[place::at_once])
            rows = [_row(kind, price) for kind, price in table.rows]
            rows[0]["max_price_per_hour"] = _changed(table.rows[0][1], chances[place])
            await callers[place].send("PUT", f"/api/v1/jobs/{table.job}/bids", {"rows": rows}, *more)

    async def all_call(seconds: float) -> float:
        began = perf_counter()
        await asyncio.gather(*(call(place, began + seconds) for place in range(at_once)))
        return perf_counter() - began

    await all_call(WARM_UP_SECONDS * run.share)
    for caller in callers:
        caller.seconds.clear()
    took = await all_call(SECONDS * run.share)
    for caller in callers:
        caller.writer.close()
    return callers, took


async def _in_bulk(address: str, token: str, tables: Sequence[Table], run: Run) -> tuple[Caller, int]:
    """Change the first row of every job, some times over. Returns how many rows that are at once."""
    caller, chance = await _connected(address, token), random.Random(run.seed)
    some = tables[: run.of(JOBS)]
    for _ in range(BULKS):
        rows = [{"job": each.job, **_row(each.rows[0][0], _changed(each.rows[0][1], chance))} for each in some]
        answer = json.loads(await caller.send("POST", "/api/v1/bids/bulk", {"rows": rows}))
        if answer["refused"]:
            raise RuntimeError(next(str(row) for row in answer["rows"] if row["result"] == "refused"))
    caller.writer.close()
    return caller, len(some)


def _row(kind: str, price: str) -> dict[str, str]:
    return {"accelerator_type": kind, "max_price_per_hour": price}


def _changed(price: str, chance: random.Random) -> str:
    """A price a little above the one that was seeded, which is above its type's base price."""
    return price if price == "cap" else f"{float(price) * chance.uniform(1, 1.01):.6f}"


def _requests(name: str, callers: Sequence[Caller], seconds: float, at_once: int) -> Iterator[Figure]:
    taken = sorted(second * 1e3 for caller in callers for second in caller.seconds)
    detail = f"{at_once} at once; median {median(taken):.1f} ms, p95 {_p95(taken):.1f} ms"
    goal = 200 if name == "single" else None
    yield Figure(f"requests.{name}", len(taken) / seconds, "requests/s", "higher", goal, detail)


def _bulk(caller: Caller, rows: int) -> Iterator[Figure]:
    taken = sorted(caller.seconds)
    detail = f"{rows} rows at once: median {median(taken) * 1e3:.0f} ms, p95 {_p95(taken) * 1e3:.0f} ms"
    yield Figure("requests.bulk", rows / median(taken), "rows/s", "higher", 5_000, detail)


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
