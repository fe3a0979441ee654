"""The book: everything one clearing reads, and nothing else.

Plain frozen values of integers in tuples, so that a later engine can read the same book as arrays.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """What the cluster offers of one accelerator type at one instant.

    supply counts usable units, occupied or not; base and cap are micro-dollars per hour, base <= cap.
    """

    type: int
    supply: int
    base: int
    cap: int


@dataclass(frozen=True, slots=True)
class Row:
    """One bid of a participant: it would pay up to `bid` micro-dollars per hour for a unit of `type`.

    The bid is as stated: a clearing counts it as min(cap, bid) and leaves the row out below the base price.
    accepted_at is the instant since when this very value stands; the earlier one wins a tie.
    """

    type: int
    bid: int
    accepted_at: int


@dataclass(frozen=True, slots=True)
class Participant:
    """One claimant of at most one unit, with its rows in its own order of preference, one per type at most.

    holds is the type of which it has a unit or, where waits is true, an award; holders win ties at that type.
    A job on two units appears twice, once for each (see `participant_of` and `source_participant_of`).
    """

    id: int
    job: int
    tenant: int
    rows: tuple[Row, ...]
    holds: int | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Book:
    """Offers, one per type, and participants with distinct ids. The order of either means nothing."""

    offers: tuple[Offer, ...]
    participants: tuple[Participant, ...]


def participant_of(job: int) -> int:
    """Return the id under which a job takes part."""
    return 2 * job


def source_participant_of(job: int) -> int:
    """Return the id under which the unit that a job is moving away from takes part."""
    return 2 * job + 1
