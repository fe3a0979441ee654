"""Whether the engine on arrays says of a floor what the engine on objects says."""

from dataclasses import replace

import numpy as np

from markets.engine import dynamics
from markets.engine.book import NONE, Book
from markets.engine.floor import Floor as ArrayFloor
from markets.engine.roles import Roles
from tests.engine.objects import book as objects_book
from tests.engine.objects import dynamics as objects
from tests.engine.objects.floor import Floor
from tests.engine.objects.roles import Role


def assert_same(floor: Floor, rule: str = "launch_table") -> dynamics.Plan:
    """Return the plan on arrays, once it is the one on objects and so is all else that is read from a floor."""
    on_arrays, floor = floor.arrays(), without_foreign_rows(floor)
    planned, expected = dynamics.plan(on_arrays, rule), objects.plan(floor, rule)
    assert book_values(planned.book) == sorted_book(expected.book)
    assert planned.clearing.assignment == expected.clearing.assignment
    assert planned.clearing.prices == expected.clearing.prices
    assert planned.actions == expected.actions
    assert role_values(on_arrays, planned.roles) == objects.roles_of(floor)
    assert dynamics.next_deadline(on_arrays) == objects.next_deadline(floor)
    paid = dynamics.prices_paid(on_arrays, planned.clearing).tolist()
    leases = on_arrays.tenures["lease"].tolist()
    assert dict(zip(leases, paid, strict=True)) == objects.prices_paid(floor, expected.clearing)
    giving = on_arrays.jobs["id"][dynamics.gives_source_back(on_arrays)]
    assert giving.tolist() == [job.id for job in floor.jobs if objects.gives_source_back(job)]
    return planned


def without_foreign_rows(floor: Floor) -> Floor:
    """Return the floor without rows of types that are not the cluster's; arrays have no place for them."""
    own = {kind.id for kind in floor.types}
    jobs = (replace(job, rows=tuple(row for row in job.rows if row.type in own)) for job in floor.jobs)
    return replace(floor, jobs=tuple(jobs))


def sorted_book(book: objects_book.Book) -> objects_book.Book:
    return objects_book.Book(book.offers, tuple(sorted(book.participants, key=lambda one: one.id)))


def book_values(book: Book) -> objects_book.Book:
    """Return a book of arrays as values."""
    types = [*book.offers["type"].tolist(), None]
    rows = [objects_book.Row(types[place], *rest) for place, *rest in book.rows.tolist()]
    runs = zip(book.participants.tolist(), book.starts[:-1].tolist(), book.starts[1:].tolist(), strict=True)
    return objects_book.Book(
        tuple(objects_book.Offer(*offer) for offer in book.offers.tolist()),
        tuple(
            objects_book.Participant(number, job, tenant, tuple(rows[first:end]), types[holds], bool(waits))
            for (number, job, tenant, holds, waits), first, end in runs
        ),
    )


def role_values(floor: ArrayFloor, found: Roles) -> dict[int, Role]:
    """Return roles in arrays as values, by job."""
    types = [*floor.types["id"].tolist(), None]
    closed = np.where(found.closed, floor.rows["type"], NONE)
    return {
        job: Role(
            types[on],
            types[to],
            types[award],
            bool(seeks),
            tuple(sorted(types[place] for place in closed[first:end].tolist() if place != NONE)),
        )
        for job, (on, to, award, seeks), first, end in zip(
            floor.jobs["id"].tolist(), found.jobs.tolist(), floor.starts[:-1], floor.starts[1:], strict=True
        )
    }
