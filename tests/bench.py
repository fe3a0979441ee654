"""How long a clearing takes, against one sort of the same rows in the same run: `make bench`.

Machines differ and are busy, so the ratio is what to compare between runs; the milliseconds are for orientation.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from statistics import median

from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import clear

TYPES = 20
ROWS = 5
ROUNDS = 5
SIZES = (100, 1_000, 10_000)


def random_book(jobs: int, *, seed: int) -> Book:
    """A book with so many jobs of five rows each, three jobs to a unit, some of them holders."""
    chance = random.Random(seed)
    offers = tuple(
        Offer(type=number, supply=max(1, jobs // (3 * TYPES)), base=300_000, cap=2_000_000) for number in range(TYPES)
    )
    participants = []
    for job in range(jobs):
        wanted = chance.sample(range(TYPES), ROWS)
        rows = tuple(Row(type=kind, bid=chance.randrange(300_000, 2_000_000), accepted_at=job) for kind in wanted)
        holds = wanted[0] if chance.random() < 0.3 else None
        participants.append(Participant(id=job, job=job, tenant=job % 50, rows=rows, holds=holds))
    return Book(offers=offers, participants=tuple(participants))


def chain(jobs: int) -> Book:
    """A book in which the last job displaces one after the other: one unit each, and who loses one wants the next."""
    offers = tuple(Offer(type=number, supply=1, base=1, cap=10_000_000) for number in range(jobs))
    settled = [
        Participant(
            id=job,
            job=job,
            tenant=job,
            rows=(Row(type=job, bid=1_000, accepted_at=1), Row(type=(job + 1) % jobs, bid=2_000, accepted_at=1)),
        )
        for job in range(jobs - 1)
    ]
    late = Participant(id=jobs, job=jobs, tenant=jobs, rows=(Row(type=0, bid=3_000, accepted_at=2),))
    return Book(offers=offers, participants=(*settled, late))


def seconds(act: Callable[[], object]) -> float:
    """The median of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return median(taken)


def measure(name: str, book: Book) -> dict[str, object]:
    """One line of the report."""
    rows = [
        (row.type, -row.bid, row.accepted_at, participant.id)
        for participant in book.participants
        for row in participant.rows
    ]
    random.Random(0).shuffle(rows)
    clearing = seconds(lambda: clear(book))
    sorting = seconds(lambda: sorted(rows))
    return {
        "book": name,
        "rows": len(rows),
        "clear_ms": round(clearing * 1e3, 2),
        "sort_ms": round(sorting * 1e3, 2),
        "ratio": round(clearing / sorting, 1),
    }


def main() -> None:
    """Print the report, as a table or with --json as one object a line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    books = [(f"{jobs:,} jobs x {ROWS}", random_book(jobs, seed=jobs)) for jobs in SIZES]
    books.append(("chain of 10,000", chain(10_000)))
    if not as_json:
        print(f"{'book':<18}{'rows':>8}{'clear ms':>11}{'sort ms':>10}{'ratio':>8}")
    for name, book in books:
        line = measure(name, book)
        if as_json:
            print(json.dumps(line))
        else:
            print(f"{name:<18}{line['rows']:>8}{line['clear_ms']:>11}{line['sort_ms']:>10}{line['ratio']:>8}")


if __name__ == "__main__":
    main()
