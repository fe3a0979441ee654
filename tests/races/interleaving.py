"""One exact interleaving of two connections: the second meets what the first has done and not yet committed."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

from laissez.events import Outbox, transact

T = TypeVar("T")
U = TypeVar("U")

DEADLINE_SECONDS = 20
LOOK_EVERY_SECONDS = 0.005
"""Looking without a pause would take the time that the other needs until it waits."""
WAITING_FOR_ME = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"


def overlapping(first: Callable[[Outbox], T], second: Callable[[], U]) -> tuple[T, U]:
    """Do `first` in a transaction; before it commits start `second` and let it run until it waits for a lock, or ends.

    Returns what both returned, and raises what either raised.
    """
    with ThreadPoolExecutor(1) as pool:
        started: list[Future[U]] = []

        def work(outbox: Outbox) -> T:
            result = first(outbox)
            assert not started, "the first transaction was undone by a deadlock"
            started.append(pool.submit(_alone, second))
            _until_waiting(started[0])
            return result

        result = transact(work)
        return result, started[0].result(timeout=DEADLINE_SECONDS)


def _alone(act: Callable[[], U]) -> U:
    try:
        return act()
    finally:
        connection.close()


def _until_waiting(second: Future[U]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute(WAITING_FOR_ME)
            if second.done() or cursor.fetchone()[0]:
                return
            time.sleep(LOOK_EVERY_SECONDS)
    raise TimeoutError("the second connection neither ended nor came to wait for a lock")
