"""One clearing: the rules that turn a book into an assignment and prices.

Every rule has the signature `Book -> Clearing` and stands in RULES under the name that a cluster chooses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappush, heappushpop

from markets.engine.clearing import TypePrice
from tests.engine.objects.book import Book, Offer, Participant, Row


@dataclass(frozen=True, slots=True)
class Clearing:
    """assignment: the type each participant gets, or None. prices: one entry per offered type."""

    assignment: Mapping[int, int | None]
    prices: Mapping[int, TypePrice]


Rule = Callable[[Book], Clearing]
Rank = tuple[int, bool, int, int, int]


def rank(participant: Participant, row: Row, counted: int) -> Rank:
    """Return the standing of a proposal, larger is better: bid, holders, earlier acceptance, job, participant."""
    return (counted, participant.holds == row.type, -row.accepted_at, -participant.job, -participant.id)


def clear(book: Book) -> Clearing:
    """Clear by the launch-table rule: everyone gets the first row of its table that it can afford.

    Deferred acceptance: a participant proposes to its rows in order; a type keeps its best proposals, as many as its
    supply, and rejects the rest, who propose to their next row. The result does not depend on the order of processing.
    """
    desks = {offer.type: _Desk(offer) for offer in book.offers}
    tables = {participant.id: _Proposer(participant) for participant in book.participants}
    for proposer in tables.values():
        moving: _Proposer | None = proposer
        while moving is not None:
            moving = moving.propose(desks, tables)
    return Clearing(
        assignment={participant_id: proposer.assigned for participant_id, proposer in tables.items()},
        prices={type_id: desk.price() for type_id, desk in desks.items()},
    )


def clear_first_come(book: Book) -> Clearing:
    """Clear by posted base prices: nobody is evicted, and free units go to whoever asked first.

    Holders keep their units until they take a free one of an earlier row. Everyone else takes the first row with a
    free unit whose base price it accepts, in order of its earliest accepted bid, then job id.
    """
    offers = {offer.type: offer for offer in book.offers}
    free = {offer.type: offer.supply for offer in book.offers}
    queue = sorted(book.participants, key=_arrival)
    seated = {one.id: _seat(one, free) for one in sorted(queue, key=lambda one: one.waits)}
    assignment: dict[int, int | None] = {}
    for participant in queue:
        assignment[participant.id] = _first_free(participant, offers, free, seated[participant.id])
    return Clearing(assignment=assignment, prices=_posted_prices(book, assignment))


RULES: Mapping[str, Rule] = {"launch_table": clear, "first_come": clear_first_come}


class _Proposer:
    """A participant on its way down its table."""

    __slots__ = ("assigned", "next_row", "participant")

    def __init__(self, participant: Participant) -> None:
        self.participant = participant
        self.next_row = 0
        self.assigned: int | None = None

    def propose(self, desks: Mapping[int, "_Desk"], tables: Mapping[int, "_Proposer"]) -> "_Proposer | None":
        """Propose to the next row that counts; return whoever has to move on because of it."""
        rows = self.participant.rows
        while self.next_row < len(rows):
            row = rows[self.next_row]
            self.next_row += 1
            desk = desks.get(row.type)
            if desk is None or not desk.admits(row):
                continue
            loser = desk.consider(self.participant, row)
            if loser == self.participant.id:
                continue
            self.assigned = row.type
            return None if loser is None else tables[loser].displaced()
        return None

    def displaced(self) -> "_Proposer":
        """Give up what was provisionally kept."""
        self.assigned = None
        return self


class _Desk:
    """One type during a clearing: the proposals kept, and the best rejected bids of two different tenants."""

    __slots__ = ("kept", "offer", "rejected", "rejections")

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.kept: list[tuple[Rank, int]] = []
        self.rejected = 0
        self.rejections: list[tuple[Rank, int]] = []

    def admits(self, row: Row) -> bool:
        """Return whether the row's counted bid reaches the base price."""
        return min(self.offer.cap, row.bid) >= self.offer.base

    def consider(self, participant: Participant, row: Row) -> int | None:
        """Keep the proposal or not; return the participant rejected by that, if any."""
        proposal = (rank(participant, row, min(self.offer.cap, row.bid)), participant.tenant)
        if len(self.kept) < self.offer.supply:
            heappush(self.kept, proposal)
            return None
        loser = heappushpop(self.kept, proposal) if self.kept else proposal
        self._note_rejection(loser)
        return -loser[0][4]

    def price(self) -> TypePrice:
        """Return the prices at which the proposals kept come out even."""
        public, setter = self.offer.base, None
        if self.rejections and self.rejections[0][0][0] > self.offer.base:
            public, setter = self.rejections[0][0][0], -self.rejections[0][0][4]
        return TypePrice(public, self._lease_price(), setter, len(self.kept), self.rejected)

    def _lease_price(self) -> int:
        """Return what winners pay: while they are one tenant, that tenant's own rejected bids do not count."""
        winners = {tenant for _, tenant in self.kept}
        if not winners:
            return self.offer.base
        rivals = [rank_[0] for rank_, tenant in self.rejections if len(winners) > 1 or tenant not in winners]
        return max([self.offer.base, *rivals])

    def _note_rejection(self, proposal: tuple[Rank, int]) -> None:
        """Remember the best rejected proposal, and the best one of any other tenant."""
        self.rejected += 1
        best = sorted([*self.rejections, proposal], reverse=True)
        self.rejections = best[:1] + [other for other in best[1:] if other[1] != best[0][1]][:1]


def _arrival(participant: Participant) -> tuple[int, int, int]:
    """Return what first_come sorts by."""
    earliest = min((row.accepted_at for row in participant.rows), default=0)
    return (earliest, participant.job, participant.id)


def _seat(participant: Participant, free: dict[int, int]) -> bool:
    """Reserve what the participant holds; False if it holds nothing or (a unit failed) none is left for its award."""
    if participant.holds is None or free.get(participant.holds, 0) == 0:
        return False
    free[participant.holds] -= 1
    return True


def _first_free(
    participant: Participant, offers: Mapping[int, Offer], free: dict[int, int], seated: bool
) -> int | None:
    """Take and return the first row with a unit left; the participant's own seat counts as one."""
    own = participant.holds if seated else None
    for row in participant.rows:
        if row.type == own:
            return own
        offer = offers.get(row.type)
        if offer is not None and min(offer.cap, row.bid) >= offer.base and free[row.type] > 0:
            free[row.type] -= 1
            if own is not None:
                free[own] += 1
            return row.type
    return own


def _posted_prices(book: Book, assignment: Mapping[int, int | None]) -> dict[int, TypePrice]:
    """Return the base prices with counts: a row above the assigned one counts as rejected."""
    accepted = {offer.type: 0 for offer in book.offers}
    rejected = {offer.type: 0 for offer in book.offers}
    for participant in book.participants:
        assigned = assignment[participant.id]
        if assigned is not None:
            accepted[assigned] += 1
        for row in participant.rows:
            if row.type == assigned:
                break
            if row.type in rejected:
                rejected[row.type] += 1
    return {
        offer.type: TypePrice(offer.base, offer.base, None, accepted[offer.type], rejected[offer.type])
        for offer in book.offers
    }
