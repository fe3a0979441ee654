"""What a tick tells in which the price of every type has changed, for measurements of who hears of it and when."""

from collections.abc import Callable

from django.db import transaction

from laissez.events import Outbox, transact
from markets.selectors import exchange
from markets.services import telling
from workers.models import Cluster


def tell_every_row(cluster: Cluster, clock: Callable[[], float]) -> float:
    """Tell every row of a market once. Returns when it was committed, by this clock."""
    committed_at: list[float] = []

    def work(outbox: Outbox) -> None:
        transaction.on_commit(lambda: committed_at.append(clock()))
        for row in exchange.rows_of(cluster).values():
            telling.tell_row(row, "price.changed", outbox)

    transact(work)
    return committed_at[0]
