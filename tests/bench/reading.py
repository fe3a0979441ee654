"""Reading the floor, and writing and changing many rows, against what the ORM takes for the same in the same run."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from time import perf_counter

import numpy as np
from django.db import transaction
from psycopg.types.range import TimestamptzRange

from laissez import clock
from laissez.bulk import copy_in, fetch_one, update_from
from markets.models import Bid, Quote
from markets.scale.seeding import Shape, seed
from markets.selectors import floor as floors
from markets.selectors.floor import BIDS, Changes
from tests.bench.figures import Figure, Run
from tests.bench.stage import fresh_database
from workers.models import AcceleratorType, Cluster, Job

BIDS_COUNT = 100_000
ROWS_PER_JOB = 5
UNITS = 2_000
ROWS = 10_000
ROUNDS = 10
ROUNDS_OF_WRITING = 3
COLUMNS = ("job_id", "position", "type_id", "max_price_per_hour", "keep_price_per_hour", "accepted_at")
_OPEN = f"SELECT {BIDS.select('FROM markets_bid AS it WHERE it.cluster_id = %(cluster)s AND it.closed_at IS NULL')}"


def figures(run: Run) -> Iterator[Figure]:
    """Yield each time and its ratio to the ORM's."""
    jobs, units = run.of(BIDS_COUNT // ROWS_PER_JOB), run.of(UNITS)
    with fresh_database():
        cluster = seed(
            Shape(hosts=units, jobs=jobs, running=units // 2, rows_per_job=ROWS_PER_JOB),
            generator=np.random.default_rng(run.seed),
        )
        yield from _reading(cluster)
        yield from _writing(cluster, run.of(ROWS))


def _reading(cluster: Cluster) -> Iterator[Figure]:
    count = Bid.objects.filter(cluster=cluster, closed_at=None).count()
    rows = Bid.objects.filter(cluster=cluster, closed_at=None)
    arrays = _least(lambda: BIDS.records(fetch_one(_OPEN, {"cluster": cluster.pk})[0]), ROUNDS)
    values = _least(lambda: list(rows.values_list(*COLUMNS)), ROUNDS)
    detail = f"{count} open bids, least of {ROUNDS}"
    yield Figure("reading.bids", 1000 * arrays, "ms", detail=detail)
    yield Figure("reading.bids.values_list", 1000 * values, "ms", "neither", detail=detail)
    yield Figure("reading.bids.ratio", arrays / values, "x", goal=0.8, detail=detail)
    with transaction.atomic():
        now = clock.now()
        former = floors.read(cluster, now=now)
        changed = Changes(former.jobs["id"][::100], others=False)
        whole = _least(lambda: floors.read(cluster, now=now), ROUNDS)
        again = _least(lambda: floors.read(cluster, now=now, former=former, changed=changed), ROUNDS)
    yield Figure("reading.floor", 1000 * whole, "ms", detail=f"{len(former.jobs)} jobs, {detail}")
    yield Figure("reading.floor.changed", 1000 * again, "ms", detail=f"of {len(changed.jobs)} jobs, {detail}")


def _writing(cluster: Cluster, count: int) -> Iterator[Figure]:
    kind = AcceleratorType.objects.filter(cluster=cluster)[0]
    began = clock.now()
    names = ("type_id", "during", "price_per_hour", "lease_price_per_hour", "base_price_per_hour")
    names = (*names, "cap_price_per_hour", "supply", "cause")
    rows = [(kind.pk, _second(began, place), 5, 5, 5, 9, 3, "bids") for place in range(count)]
    quotes = [dict(zip(names, row, strict=True)) for row in rows]
    copied = _least(lambda: copy_in(Quote, names, rows), ROUNDS_OF_WRITING, undone=True)
    created = _least(
        lambda: Quote.objects.bulk_create(Quote(**quote) for quote in quotes), ROUNDS_OF_WRITING, undone=True
    )
    detail = f"{count} quotes, least of {ROUNDS_OF_WRITING}"
    yield Figure("writing.quotes", 1000 * copied, "ms", detail=detail)
    yield Figure("writing.quotes.bulk_create", 1000 * created, "ms", "neither", detail=detail)
    yield Figure("writing.quotes.ratio", copied / created, "x", goal=0.2, detail=detail)
    jobs = list(Job.objects.filter(cluster=cluster).order_by("id")[:count])
    ids, numbers = [job.pk for job in jobs], [job.ask_number + 1 for job in jobs]
    for job in jobs:
        job.ask_number += 1
    updated = _least(lambda: update_from(Job, id=ids, ask_number=numbers), ROUNDS_OF_WRITING, undone=True)
    one_by_one = _least(lambda: Job.objects.bulk_update(jobs, ["ask_number"]), ROUNDS_OF_WRITING, undone=True)
    detail = f"{len(jobs)} jobs, least of {ROUNDS_OF_WRITING}"
    yield Figure("updating.jobs", 1000 * updated, "ms", detail=detail)
    yield Figure("updating.jobs.bulk_update", 1000 * one_by_one, "ms", "neither", detail=detail)
    yield Figure("updating.jobs.ratio", updated / one_by_one, "x", goal=0.1, detail=detail)


def _second(began: datetime, place: int) -> TimestamptzRange:
    return TimestamptzRange(began + timedelta(seconds=place), began + timedelta(seconds=place + 1))


def _least(act: Callable[[], object], rounds: int, *, undone: bool = False) -> float:
    """The least seconds of so many rounds; what each has written is undone after the watch has stopped."""
    taken = []
    for _ in range(rounds):
        with transaction.atomic():
            started = perf_counter()
            act()
            taken.append(perf_counter() - started)
            transaction.set_rollback(undone)
    return min(taken)
