"""The ticks of a run: what `markets.tasks.tick_cluster` does each second, timed part by part."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from laissez import clock
from markets.services import advising, metering, scheduling

INTERVAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One tick of one cluster. `at` is in seconds since 1970, when it began; the rest are seconds taken."""

    at: float
    outcome: str
    advise_seconds: float
    tick_seconds: float
    meter_seconds: float
    billed: int


def once(cluster_id: int) -> Turn:
    """One tick, with what stands before and after it."""
    at, started = clock.now().timestamp(), time.perf_counter()
    advising.advise_queue(cluster_id)
    advised = time.perf_counter()
    outcome = scheduling.tick(cluster_id)
    ticked = time.perf_counter()
    billed = metering.meter_cluster(cluster_id)
    metered = time.perf_counter()
    return Turn(at, str(outcome), advised - started, ticked - advised, metered - ticked, billed)


def main(arguments: Sequence[str]) -> None:
    """Tick once a second until told to end, or orphaned; a line of JSON for each."""
    stopping, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    due = time.monotonic()
    while not stopping.is_set() and os.getppid() == parent:
        sys.stdout.write(json.dumps(asdict(once(int(arguments[0])))) + "\n")
        sys.stdout.flush()
        due = max(due + INTERVAL_SECONDS, time.monotonic())
        stopping.wait(max(0.0, due - time.monotonic()))
