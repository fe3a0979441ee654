"""Races with real connections: one thread and one database connection per racer, all let go at the same moment."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from time import monotonic, sleep
from typing import TypeVar

from django.db import connection

T = TypeVar("T")

DEADLINE_SECONDS = 30
LOOK_EVERY_SECONDS = 0.005
"""Looking without a pause would take the time that the other needs until it waits."""


def race(racers: int, act: Callable[[int], T]) -> list[T | Exception]:
    """What `act(number)` returned or raised for each racer, in the order of their numbers."""
    start = Barrier(racers, timeout=DEADLINE_SECONDS)

    def run(number: int) -> T | Exception:
        try:
            connection.ensure_connection()
            start.wait()
            return act(number)
        except Exception as error:  # noqa: BLE001 - the racer's outcome, which the test judges
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(racers) as pool:
        return [future.result(timeout=DEADLINE_SECONDS) for future in [pool.submit(run, n) for n in range(racers)]]


def start_and_wait_until_blocked(act: Callable[[], T]) -> Future[T]:
    """Run `act` on a connection of its own, and return once it waits for a lock that the caller's transaction holds."""

    def run() -> T:
        try:
            return act()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    pool.shutdown(wait=False)
    deadline = monotonic() + DEADLINE_SECONDS
    while not _somebody_waits_for_me():
        assert not future.done(), f"it never waited: {future.result()}"
        assert monotonic() < deadline
        sleep(LOOK_EVERY_SECONDS)
    return future


def _somebody_waits_for_me() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")
        return cursor.rowcount > 0
