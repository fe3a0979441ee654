"""What leases have cost and paid per hour at any instant of their lives, from the pieces that bills are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markets.engine.money import MICROSECONDS_PER_SECOND
from markets.services import costing, funds
from workers.models import Lease

MOST_QUOTES = 400
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Paid:
    """Prices per hour that one lease has paid, in micro-dollars. `low` and `high` are unknown for a very long life."""

    average: int
    low: int | None
    high: int | None

    @property
    def is_one_price(self) -> bool:
        """Whether it has paid the same all along."""
        return self.low is not None and self.low == self.high


@dataclass(frozen=True, slots=True)
class Costs:
    """Of some leases: cost by now by primary key in micro-dollars, and the pieces of one price each."""

    totals: Mapping[int, int]
    pieces: Mapping[int, Sequence[costing.Piece]]
    now: datetime

    def of(self, lease: Lease) -> int:
        """What a lease has cost by now."""
        return self.totals[lease.pk]

    def until(self, lease: Lease, instant: datetime) -> int:
        """What a lease had cost at an instant; without its pieces, its share of the time."""
        span = lease.billed_during
        if span is None or instant <= span.lower:
            return 0
        end = min(span.upper or self.now, self.now)
        if instant >= end:
            return self.of(lease)
        if lease.pk in self.pieces:
            return costing.price_of(self.pieces[lease.pk], instant)
        return round(self.of(lease) * ((instant - span.lower) / (end - span.lower)))

    def paid(self, lease: Lease) -> Paid | None:
        """What a lease has paid per hour; None before its host has confirmed it."""
        span = lease.billed_during
        if span is None:
            return None
        seconds = (min(span.upper or self.now, self.now) - span.lower).total_seconds() * funds.speedup()
        if seconds * MICROSECONDS_PER_SECOND < 1:
            return None
        prices = [piece.price_per_hour for piece in self.pieces.get(lease.pk, ())]
        average = round(self.of(lease) * SECONDS_PER_HOUR / seconds)
        if not prices:
            return Paid(average, None, None)
        return Paid(min(max(average, min(prices)), max(prices)), min(prices), max(prices))


def costs_of(leases: Sequence[Lease], now: datetime) -> Costs:
    """The costs of one job's leases, in a number of queries that no lease adds to."""
    pieces = costing.paid(leases, now, most_quotes=MOST_QUOTES)
    return Costs(totals=costing.running_costs(leases, now), pieces=pieces, now=now)
