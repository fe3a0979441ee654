"""Compile every loop once, by clearing a small book by every rule: `python -m markets.engine.kernels`."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import RULES


def main() -> None:
    """Compile for each rule in a process of its own; what two of them need, both compile."""
    with ProcessPoolExecutor() as pool:
        list(pool.map(clear_by, RULES))


def clear_by(rule: str) -> None:
    """Clear a book cold, and after a change from what it was."""
    people = [Participant(one, one, one, (Row(1, 10 + one, 0), Row(2, 10, 0)), holds=1) for one in range(4)]
    before = Book.of([Offer(1, 1, 1, 20), Offer(2, 2, 1, 20)], people)
    after = Book.of([Offer(1, 2, 1, 20), Offer(2, 1, 1, 20)], [replace(people[0], holds=None), *people[2:]])
    RULES[rule](after, RULES[rule](before, None))


if __name__ == "__main__":
    main()
