"""The whole durable tick, commit included: with a hundredth of the bids changed before each, and with none."""

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from markets.scale.changing import change_share
from markets.scale.seeding import Shape, seed
from markets.services import scheduling
from markets.services.scheduling import Outcome
from tests.bench.figures import Figure, Run
from tests.bench.stage import fresh_database
from workers.models import Cluster

UNITS = 10_000
SMALL, LARGE = 10_000, 100_000
GOALS_SECONDS = {SMALL: 0.25, LARGE: 1.0}
GOAL_UNCHANGED_SECONDS = 0.02
ROWS_PER_JOB = 5
CHANGED = 0.01
TICKS = 30
UNCHANGED_TICKS = 60
MOST_TICKS_TO_REST = 10


def figures(run: Run) -> Iterator[Figure]:
    """Yield the 50th and 95th percentile of each kind of tick."""
    for jobs in (SMALL, LARGE):
        units = run.of(min(UNITS, jobs // 2))
        with fresh_database():
            generator = np.random.default_rng(run.seed)
            shape = Shape(hosts=units, jobs=run.of(jobs), running=units * 9 // 10, rows_per_job=ROWS_PER_JOB)
            cluster = seed(shape, generator=generator)
            started = perf_counter()
            scheduling.tick(cluster.pk)
            yield Figure(f"tick.{jobs}.first", perf_counter() - started, "s", detail="nothing remembered, all is new")
            _rest(cluster)
            name, detail = f"tick.{jobs}.unchanged", f"{run.of(jobs)} open jobs x {ROWS_PER_JOB}, {units} units"
            yield from _percentiles(name, [_tick(cluster, Outcome.UNCHANGED) for _ in range(UNCHANGED_TICKS)],
                                    GOAL_UNCHANGED_SECONDS, detail)  # fmt: skip
            taken = []
            for _ in range(TICKS):
                change_share(cluster, share=CHANGED, generator=generator)
                taken.append(_tick(cluster, Outcome.CLEARED))
            yield from _percentiles(f"tick.{jobs}.changed", taken, GOALS_SECONDS[jobs], f"{detail}, 1 % of the bids")


def _rest(cluster: Cluster) -> None:
    """Tick until nothing is left to do at once."""
    for _ in range(MOST_TICKS_TO_REST):
        if scheduling.tick(cluster.pk) == Outcome.UNCHANGED:
            return
    raise RuntimeError("the market does not come to rest")


def _tick(cluster: Cluster, expected: Outcome) -> float:
    started = perf_counter()
    outcome = scheduling.tick(cluster.pk)
    taken = perf_counter() - started
    if outcome != expected:
        raise RuntimeError(f"the tick was {outcome}, not {expected}")
    return taken


def _percentiles(name: str, seconds: list[float], goal: float, detail: str) -> Iterator[Figure]:
    told = f"{detail}; {len(seconds)} ticks"
    yield Figure(f"{name}.p50", float(np.percentile(seconds, 50)), "s", detail=told)
    yield Figure(f"{name}.p95", float(np.percentile(seconds, 95)), "s", goal=goal, detail=told)
