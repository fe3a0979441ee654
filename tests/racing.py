"""Races with real connections: one thread and one database connection per racer, all let go at the same moment."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection

T = TypeVar("T")

DEADLINE_SECONDS = 30


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
