"""One clearing: the rules that turn a book into an assignment and prices.

Every rule has the signature of Rule and stands in RULES under the name that a cluster chooses. The loops over the
book's rows are compiled (markets.engine.kernels).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from markets.engine.book import NONE, Book, IntArray
from markets.engine.kernels.first_come import arrivals, first_come, passed_over
from markets.engine.kernels.launch_table import deferred_acceptance
from markets.engine.kernels.prices import SETTER, rejection_prices
from markets.engine.kernels.resumption import marks_of, resumed_acceptance
from markets.engine.kernels.tables import Tables, offers_of, plain_tables_of, tables_of
from markets.engine.kernels.vcg import choices, decide, highest_value, value_prices


@dataclass(frozen=True, slots=True)
class TypePrice:
    """What a clearing says of one type; prices in micro-dollars per hour, base <= lease <= public.

    public: the price everybody sees. lease: what its winners pay. setter: the participant whose rejected bid is the
    public price, None at the base price. accepted and rejected count the proposals.
    """

    public: int
    lease: int
    setter: int | None
    accepted: int
    rejected: int


@dataclass(frozen=True, eq=False)
class Clearing:
    """assigned (P,): the place in book.offers that each participant gets, or NONE. prices: one per offered type, by id.

    rule: the name of the rule by which it came about. marks (T, 4): where a later clearing by the launch-table rule may
    start (see marks_of), None by other rules. The arrays of a cleared book cannot be written to any more, so that a
    clearing stays that of its book; to change a book, copy what changes.
    """

    book: Book
    assigned: IntArray
    prices: Mapping[int, TypePrice]
    rule: str = ""
    marks: IntArray | None = None

    def __post_init__(self) -> None:
        for array in (self.book.offers, self.book.participants, self.book.starts, self.book.rows, self.assigned):
            array.flags.writeable = False

    @cached_property
    def assignment(self) -> dict[int, int | None]:
        """Return the type's id that each participant gets by its id, or None, for whoever reads a small book."""
        types: list[int | None] = [*self.book.offers["type"].tolist(), None]
        people = self.book.participants["id"].tolist()
        return {one: types[place] for one, place in zip(people, self.assigned.tolist(), strict=True)}


Rule = Callable[[Book, Clearing | None], Clearing]
"""From a book to its clearing. A former clearing of about the same book may save time; it never changes the result."""


def clear(book: Book, former: Clearing | None = None) -> Clearing:
    """Clear by the launch-table rule: everyone gets the first row of its table that it can afford.

    Deferred acceptance: a participant proposes to its rows in order; a type keeps its best proposals, as many as its
    supply, and rejects the rest, who propose to their next row. The result does not depend on the order of processing.
    """
    tables = tables_of(book)
    marks = _former_marks(book, former)
    won = deferred_acceptance(tables) if marks is None else resumed_acceptance(tables, marks)
    prices, rejected = rejection_prices(tables, won)
    return Clearing(book, offers_of(tables, won), _prices(book, prices), "launch_table", marks_of(tables, rejected))


def _former_marks(book: Book, former: Clearing | None) -> IntArray | None:
    """Return where to start from, if the former clearing has marks and is of the same types."""
    if former is None or not np.array_equal(former.book.offers["type"], book.offers["type"]):
        return None
    return former.marks


def clear_first_come(book: Book, former: Clearing | None = None) -> Clearing:
    """Clear by posted base prices: nobody is evicted, and free units go to whoever asked first.

    Holders keep their units until they take a free one of an earlier row. Everyone else takes the first row with a
    free unit whose base price it accepts, in order of its earliest accepted bid, then job id.
    """
    tables = tables_of(book)
    people = book.participants
    assigned = first_come(tables, np.lexsort((people["id"], people["job"], arrivals(tables))))
    return Clearing(book, assigned, _prices(book, _posted_prices(book, tables, assigned)), "first_come")


def clear_vcg(book: Book, former: Clearing | None = None) -> Clearing:
    """Clear by value: bids that count are values, the assignment has the highest total, prices are the lowest for it.

    The value of a unit that stays unsold is its base price. At the prices nobody gains more by another row or by none,
    gain being bid less price; a type that is not sold out is at its base price; and no lower prices do that. They are
    what each winner's presence costs the others (VCG), so a job of its own tenant does best by bidding its value.

    Ties: of all assignments of the highest value, those who are indifferent at the prices choose one after the other as
    far as the value allows, each the row it holds, else the first of its table, and nothing last. Holders of a row that
    ties choose first, then whoever has the earliest bid among those that tie, then the lower job and participant.
    Everybody pays the public price: what one tenant's jobs cost each other is a part of these prices, and without it
    somebody else would rather have what they got. Memory grows with the square of the number of types.
    """
    tables = plain_tables_of(book)
    guess = np.empty(0, dtype=np.int64)
    if former is not None and former.rule == "vcg" and np.array_equal(former.book.offers["type"], book.offers["type"]):
        guess = np.array([former.prices[type_id].public for type_id in book.offers["type"].tolist()], dtype=np.int64)
    won, unsold, lowest, ones = highest_value(tables, guess)
    holding, since = choices(tables, won, lowest, ones)
    people = book.participants[ones]
    decide(tables, won, unsold, lowest, ones[np.lexsort((people["id"], people["job"], since, 1 - holding))])
    return Clearing(book, offers_of(tables, won), _prices(book, value_prices(tables, won, lowest)), "vcg")


RULES: Mapping[str, Rule] = {"launch_table": clear, "first_come": clear_first_come, "vcg": clear_vcg}
BY_GAIN = frozenset({"vcg"})
"""The rules that give everybody what it gains most by, whatever the order of its table."""


def _posted_prices(book: Book, tables: Tables, assigned: IntArray) -> IntArray:
    """Return the base prices with counts: a row above the assigned one counts as rejected."""
    base = book.offers["base"]
    return np.column_stack((base, base, np.full(len(base), NONE), passed_over(tables, assigned)))


def _prices(book: Book, table: IntArray) -> dict[int, TypePrice]:
    """Return a table of prices (T, 5) by type id."""
    setters = np.append(book.participants["id"], NONE)[table[:, SETTER]]
    lines = zip(book.offers["type"].tolist(), setters.tolist(), table.tolist(), strict=True)
    return {
        type_id: TypePrice(public, lease, None if setter == NONE else setter, accepted, rejected)
        for type_id, setter, (public, lease, _, accepted, rejected) in lines
    }
