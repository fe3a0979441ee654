"""The book: everything one clearing reads, and nothing else, as arrays of records.

Every field of every record is a 64-bit integer, so that a table of a hundred thousand jobs is read, compared, hashed
and cleared without an object a row. NONE stands where there is nothing; ids, prices and instants are never negative.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Records = NDArray[np.void]
Ids = TypeVar("Ids", int, IntArray)

NONE = -1


def record(*names: str) -> np.dtype[np.void]:
    """Return the type of a record of integers with these names."""
    return np.dtype([(name, np.int64) for name in names])


OFFER = record("type", "supply", "base", "cap")
"""What the cluster offers of one accelerator type: its id, its usable units, occupied or not, its base and cap price.

Prices are micro-dollars per hour, base <= cap.
"""

PARTICIPANT = record("id", "job", "tenant", "holds", "waits")
"""One claimant of at most one unit.

holds is the place in `offers` of the type of which it has a unit or, where waits is 1, an award; holders win ties at
that type. A job on two units appears twice, once for each (see `participant_of` and `source_participant_of`).
"""

ROW = record("offer", "bid", "accepted_at")
"""One bid: its participant would pay up to `bid` micro-dollars per hour for a unit of the type at place `offer`.

The bid is as stated: a clearing counts it as min(cap, bid) and leaves the row out below the base price. accepted_at is
the instant since when this very value stands; the earlier one wins a tie.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """offers by type, one for each; participants by id, all distinct; rows in the order of their participants.

    Participant i has rows[starts[i] : starts[i + 1]], in its own order of preference, one per type at most.
    Shapes: offers (T,), participants (P,), starts (P + 1,), rows (R,).
    """

    offers: Records
    participants: Records
    starts: IntArray
    rows: Records

    @classmethod
    def of(cls, offers: "Iterable[Offer]", participants: "Iterable[Participant]") -> "Book":
        """Return the book of these values. Rows and holdings of types that are not offered are left out."""
        desks = sorted(offers, key=lambda offer: offer.type)
        place = {offer.type: number for number, offer in enumerate(desks)}
        people = sorted(participants, key=lambda one: one.id)
        tables = [[row for row in one.rows if row.type in place] for one in people]
        return cls(
            offers=np.array([(o.type, o.supply, o.base, o.cap) for o in desks], dtype=OFFER),
            participants=np.array(
                [(p.id, p.job, p.tenant, _place(place, p.holds), int(p.waits)) for p in people], dtype=PARTICIPANT
            ),
            starts=np.cumsum([0, *(len(table) for table in tables)], dtype=np.int64),
            rows=np.array(
                [(place[row.type], row.bid, row.accepted_at) for table in tables for row in table], dtype=ROW
            ),
        )


def _place(place: dict[int, int], type_id: int | None) -> int:
    return NONE if type_id is None else place.get(type_id, NONE)


# The same as values, for whoever writes a book by hand


@dataclass(frozen=True, slots=True)
class Offer:
    """See OFFER; type is its id."""

    type: int
    supply: int
    base: int
    cap: int


@dataclass(frozen=True, slots=True)
class Row:
    """See ROW; type is the id of the type bid for."""

    type: int
    bid: int
    accepted_at: int


@dataclass(frozen=True, slots=True)
class Participant:
    """See PARTICIPANT; holds is the id of a type."""

    id: int
    job: int
    tenant: int
    rows: tuple[Row, ...]
    holds: int | None = None
    waits: bool = False


def participant_of(job: Ids) -> Ids:
    """Return the id under which a job takes part."""
    return 2 * job


def source_participant_of(job: Ids) -> Ids:
    """Return the id under which the unit that a job is moving away from takes part."""
    return 2 * job + 1
