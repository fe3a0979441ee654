"""From the floor to the book: what every job bids at this instant, and what it pays (MECHANISM section 2)."""

from collections import defaultdict

from tests.engine.objects.book import Book, Offer
from tests.engine.objects.clearing import Clearing
from tests.engine.objects.floor import Floor, FloorJob, Tenure, TypeOffer
from tests.engine.objects.roles import Role, participants, role_of, stated


def book_as_it_stands(floor: Floor) -> Book:
    """Return the book of a floor on which every tenure counts."""
    supply: dict[int, int] = defaultdict(int)
    for unit in floor.units:
        supply[unit.type] += unit.usable
    offers = {offer.id: offer for offer in floor.types}
    roles = roles_as_they_stand(floor)
    return Book(
        offers=tuple(Offer(offer.id, supply[offer.id], offer.base, offer.cap) for offer in floor.types),
        participants=tuple(
            participant
            for job in floor.jobs
            for participant in participants(job.id, job.tenant, job.rows, roles[job.id], offers)
        ),
    )


def roles_as_they_stand(floor: Floor) -> dict[int, Role]:
    """Return the role of every job of a floor on which every tenure counts."""
    usable = {unit.id for unit in floor.units if unit.usable}
    return {job.id: role_of(job, floor.now, usable) for job in floor.jobs}


def own_bid(job: FloorJob, offer: TypeOffer) -> int:
    """Return the most a job pays where it sits: its keep price, at most the cap; the base price without a row."""
    row = job.row(offer.id)
    return offer.base if row is None else min(offer.cap, stated(row, offer, keep=True))


def tenures(job: FloorJob) -> tuple[Tenure, ...]:
    """Return every lease of the job that occupies a unit."""
    own = tuple(tenure for tenure in (job.source, job.destination) if tenure is not None)
    return own + job.closing


def prices_paid(floor: Floor, clearing: Clearing) -> dict[int, int]:
    """Return what every occupied lease pays from now on: the lease price in force, never above its own bid there.

    Micro-dollars per hour by lease. Whether a lease is billed at all (only once active) is the applier's to know.
    """
    offers = {offer.id: offer for offer in floor.types}
    return {
        tenure.lease: min(clearing.prices[tenure.type].lease, own_bid(job, offers[tenure.type]))
        for job in floor.jobs
        for tenure in tenures(job)
    }
