"""Random books as values, which feed both engines. Amounts are small, so that ties are common; `distinct` books have
no two equal counted bids at a type."""

from hypothesis import strategies as st

from markets.engine import book as arrays
from markets.engine.book import Offer, Participant, Row
from markets.engine.clearing import RULES, Clearing
from tests.engine.objects.book import Book


def cleared(book: Book, rule: str = "launch_table", former: Clearing | None = None) -> Clearing:
    """Clear a book of values by the engine on arrays."""
    return RULES[rule](arrays.Book.of(book.offers, book.participants), former)


def outcome(found) -> tuple:
    """What a clearing of either engine says, to compare."""
    return found.assignment, found.prices


@st.composite
def books(draw, *, most_participants: int = 9, most_types: int = 4, distinct: bool = False, tenants: int = 4) -> Book:
    types = draw(st.integers(1, most_types))
    offers = tuple(_offer(draw, type_id) for type_id in range(types))
    count = draw(st.integers(0, most_participants))
    participants = tuple(_participant(draw, number, offers, tenants) for number in range(count))
    if distinct:
        participants = tuple(_spread(one, number, count) for number, one in enumerate(participants))
        offers = tuple(Offer(o.type, o.supply, o.base * (count + 1), 10**6) for o in offers)
    return Book(offers, participants)


def _offer(draw, type_id: int) -> Offer:
    base = draw(st.integers(1, 6))
    return Offer(type_id, draw(st.integers(0, 3)), base, base + draw(st.integers(0, 12)))


def _participant(draw, number: int, offers: tuple[Offer, ...], tenants: int) -> Participant:
    order = draw(st.permutations([offer.type for offer in offers]))
    rows = tuple(
        Row(type_id, draw(st.integers(1, 20)), draw(st.integers(0, 3))) for type_id in order[: draw(st.integers(1, 4))]
    )
    holds = draw(st.sampled_from([None, *(row.type for row in rows)]))
    return Participant(number, number, draw(st.integers(0, tenants - 1)), rows, holds)


def _spread(one: Participant, number: int, count: int) -> Participant:
    rows = tuple(Row(row.type, row.bid * (count + 1) + number, row.accepted_at) for row in one.rows)
    return Participant(one.id, one.job, one.tenant, rows, one.holds)
