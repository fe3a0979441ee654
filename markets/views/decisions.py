"""An agent's decisions as a reader wants them: runs of re-bids of the same kind folded into one entry. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation

from markets.selectors.history import Decision

SHORTEST_RUN = 3
FOLDED = "rebid"
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Range:
    """What a run bid on one accelerator type, in dollars per hour."""

    accelerator_type: str
    low: Decimal
    high: Decimal

    @property
    def words(self) -> str:
        """`$0.61/h`, or `from $0.61/h to $0.66/h`."""
        low, high = _price(self.low), _price(self.high)
        return low if low == high else f"from {low} to {high}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision, or a run of them; `newest` and `oldest` are the same where there is but one."""

    newest: Decision
    oldest: Decision
    members: tuple[Decision, ...]
    ranges: tuple[Range, ...]

    @property
    def count(self) -> int:
        """How many decisions it stands for."""
        return len(self.members)

    @property
    def key(self) -> str:
        """A name for it that stays while the run grows."""
        return f"decision-{self.oldest.number}"

    @property
    def since(self) -> datetime:
        """When the first of them was made."""
        return self.oldest.at


def fold(decisions: Sequence[Decision]) -> list[Entry]:
    """Entries of decisions, in their order, newest first.

    Three or more re-bids in a row on the same accelerator types become one entry; so do three or more failures of the
    same kind. Whatever else the agent did in between parts a run.
    """
    entries: list[Entry] = []
    run: list[Decision] = []
    for decision in decisions:
        if run and _kind(run[-1]) != _kind(decision):
            entries.extend(_entries(run))
            run = []
        run.append(decision)
    return entries + _entries(run)


def _kind(decision: Decision) -> tuple[object, ...]:
    """What the members of a run have in common."""
    if decision.failed:
        return ("failed", decision.kind)
    if decision.kind == FOLDED:
        return (FOLDED, *sorted(decision.bids))
    return ("alone", decision.number)


def _entries(run: Sequence[Decision]) -> list[Entry]:
    if len(run) >= SHORTEST_RUN:
        return [_entry(run)]
    return [_entry([decision]) for decision in run]


def _entry(members: Sequence[Decision]) -> Entry:
    return Entry(newest=members[0], oldest=members[-1], members=tuple(members), ranges=_ranges(members))


def _ranges(members: Sequence[Decision]) -> tuple[Range, ...]:
    prices: dict[str, list[Decimal]] = {}
    for member in members:
        for slug, text in member.bids.items():
            price = _decimal(text)
            if price is not None:
                prices.setdefault(slug, []).append(price)
    return tuple(Range(slug, min(values), max(values)) for slug, values in prices.items())


def _decimal(text: str) -> Decimal | None:
    try:
        price = Decimal(text)
    except InvalidOperation:
        return None
    return price if price.is_finite() else None


def _price(price: Decimal) -> str:
    return f"${price:.4f}/h"
