"""Compile every loop once, by small books and every rule: `python -m markets.engine.kernels`."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import RULES
from markets.engine.depth import depth
from markets.engine.dynamics import book_of
from markets.engine.floor import Floor, FloorJob, TableRow, TypeOffer


def main() -> None:
    """Compile for each rule in a process of its own; what two of them need, both compile."""
    with ProcessPoolExecutor() as pool:
        for done in (pool.submit(write_one), *(pool.submit(clear_by, rule) for rule in RULES)):
            done.result()


def write_one() -> None:
    """Write the book of a floor with one job."""
    job = FloorJob(1, 1, (TableRow(1, 10, None, 0),))
    book_of(Floor.of(now=0, notice_us=0, types=[TypeOffer(1, 1, 20)], units=[], jobs=[job]))


def clear_by(rule: str) -> None:
    """Clear a book cold, and after a change from what it was; count its losing bids."""
    people = [Participant(one, one, one, (Row(1, 10 + one, 0), Row(2, 10, 0)), holds=1) for one in range(4)]
    before = Book.of([Offer(1, 1, 1, 20), Offer(2, 2, 1, 20)], people)
    after = Book.of([Offer(1, 2, 1, 20), Offer(2, 1, 1, 20)], [replace(people[0], holds=None), *people[2:]])
    depth(RULES[rule](after, RULES[rule](before, None)))


if __name__ == "__main__":
    main()
