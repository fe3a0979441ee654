"""Plain readings of the rules, slow and obvious, against which the engine is tested."""

from collections.abc import Iterator
from itertools import product

from markets.engine.book import Participant, Row
from markets.engine.clearing import TypePrice
from tests.engine.objects.book import Book
from tests.engine.objects.clearing import Clearing


def naive_clear(book: Book) -> Clearing:
    """Deferred acceptance in rounds over plain lists: everybody unplaced proposes at once, then every type chooses."""
    offers = {offer.type: offer for offer in book.offers}
    counted = {
        one.id: [row for row in one.rows if row.type in offers and counted_bid(book, row) >= offers[row.type].base]
        for one in book.participants
    }
    rejected: dict[int, list[Participant]] = {offer.type: [] for offer in book.offers}
    at = {one.id: 0 for one in book.participants}
    while True:
        proposals: dict[int, list[Participant]] = {offer.type: [] for offer in book.offers}
        for one in book.participants:
            if at[one.id] < len(counted[one.id]):
                proposals[counted[one.id][at[one.id]].type].append(one)
        losers = []
        for type_id, proposers in proposals.items():
            best_first = sorted(proposers, key=lambda one: standing(book, one, type_id), reverse=True)
            losers += [(type_id, one) for one in best_first[offers[type_id].supply :]]
        if not losers:
            assignment = {one.id: None for one in book.participants} | {
                one.id: type_id for type_id, proposers in proposals.items() for one in proposers
            }
            return Clearing(assignment, _prices(book, assignment, rejected))
        for type_id, one in losers:
            rejected[type_id].append(one)
            at[one.id] += 1


def standing(book: Book, one: Participant, type_id: int) -> tuple[int, int, int, int, int]:
    row = next(row for row in one.rows if row.type == type_id)
    return (counted_bid(book, row), int(one.holds == type_id), -row.accepted_at, -one.job, -one.id)


def counted_bid(book: Book, row: Row) -> int:
    return min(row.bid, next(offer.cap for offer in book.offers if offer.type == row.type))


def bid_at(book: Book, one: Participant, type_id: int) -> int:
    return counted_bid(book, next(row for row in one.rows if row.type == type_id))


def _prices(book: Book, assignment: dict, rejected: dict[int, list[Participant]]) -> dict[int, TypePrice]:
    prices = {}
    for offer in book.offers:
        losers = sorted(rejected[offer.type], key=lambda one: standing(book, one, offer.type))
        bids = [bid_at(book, one, offer.type) for one in losers]
        public = max([offer.base, *bids])
        winners = [one for one in book.participants if assignment[one.id] == offer.type]
        tenants = {one.tenant for one in winners}
        rivals = [bid_at(book, one, offer.type) for one in losers if len(tenants) > 1 or one.tenant not in tenants]
        lease = max([offer.base, *rivals]) if winners else offer.base
        setter = losers[-1].id if public > offer.base else None
        prices[offer.type] = TypePrice(public, lease, setter, len(winners), len(losers))
    return prices


def stable_assignments(book: Book) -> Iterator[dict[int, int | None]]:
    """Every assignment that respects supply and in which nobody could rightly claim an earlier row of its table."""
    offers = {offer.type: offer for offer in book.offers}
    options = [
        [None, *(row.type for row in one.rows if counted_bid(book, row) >= offers[row.type].base)]
        for one in book.participants
    ]
    for choice in product(*options):
        assignment = {one.id: type_id for one, type_id in zip(book.participants, choice, strict=True)}
        taken = {type_id: [one for one in book.participants if assignment[one.id] == type_id] for type_id in offers}
        if all(len(taken[type_id]) <= offers[type_id].supply for type_id in offers) and not any(
            _claims(book, one, assignment, taken) for one in book.participants
        ):
            yield assignment


def _claims(book: Book, one: Participant, assignment: dict, taken: dict[int, list[Participant]]) -> bool:
    offers = {offer.type: offer for offer in book.offers}
    for row in rows_above(one, assignment[one.id]):
        if counted_bid(book, row) < offers[row.type].base:
            continue
        holders = taken[row.type]
        if len(holders) < offers[row.type].supply:
            return True
        if any(standing(book, one, row.type) > standing(book, other, row.type) for other in holders):
            return True
    return False


def rows_above(one: Participant, type_id: int | None) -> list[Row]:
    names = [row.type for row in one.rows]
    return list(one.rows[: names.index(type_id)] if type_id in names else one.rows)
