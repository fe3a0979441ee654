"""The ticks and meters of a run: what `markets.tasks` does each second, timed part by part."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from laissez import clock
from markets.services import advising, metering, scheduling

INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick of one cluster. `at` is in seconds since 1970, when it began; the rest are seconds taken."""

    at: float
    outcome: str
    advise_seconds: float
    tick_seconds: float


@dataclass(frozen=True, slots=True)
class Metered:
    """One run of the meter of one cluster: when it began, the seconds taken, and how many leases it billed."""

    at: float
    meter_seconds: float
    billed: int


def tick(cluster_id: int) -> Tick:
    """One tick, with what stands before it."""
    at, started = clock.now().timestamp(), time.perf_counter()
    advising.advise_queue(cluster_id)
    advised = time.perf_counter()
    outcome = scheduling.tick(cluster_id)
    return Tick(at, str(outcome), advised - started, time.perf_counter() - advised)


def meter(cluster_id: int) -> Metered:
    """One run of the meter."""
    at, started = clock.now().timestamp(), time.perf_counter()
    billed = metering.meter_cluster(cluster_id)
    return Metered(at, time.perf_counter() - started, billed)


WHAT: dict[str, Callable[[int], Tick | Metered]] = {"ticks": tick, "meters": meter}


def main(arguments: Sequence[str]) -> None:
    """Tick, or meter, once a second until told to end, or orphaned; a line of JSON for each.

    Args:
        arguments: which of `WHAT`, and the cluster's id.
    """
    stopping, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    act, cluster_id = WHAT[arguments[0]], int(arguments[1])
    due = time.monotonic()
    while not stopping.is_set() and os.getppid() == parent:
        sys.stdout.write(json.dumps(asdict(act(cluster_id))) + "\n")
        sys.stdout.flush()
        due = max(due + INTERVAL_SECONDS, time.monotonic())
        stopping.wait(max(0.0, due - time.monotonic()))
