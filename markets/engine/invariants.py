"""What must hold of a clearing and of a floor, checked without trusting whoever made them.

Each check returns sentences, one per violation; an empty list is a clean bill.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from markets.engine.book import NONE, Book, IntArray, Offer, Participant, Row
from markets.engine.clearing import Clearing
from markets.engine.dynamics import LEASES_PER_JOB
from markets.engine.floor import Floor
from markets.engine.places import column, unit_of


def check_clearing(book: Book, clearing: Clearing) -> list[str]:
    """Return what is wrong with a clearing by the launch-table rule (MECHANISM section 1)."""
    offers = {offer.type: offer for offer in book.offers}
    return [
        *_supply(book, clearing),
        *(sentence for one in book.participants for sentence in _participant(one, offers, clearing)),
        *(sentence for offer in book.offers for sentence in _prices(offer, book, clearing)),
    ]


def check_floor(floor: Floor) -> list[str]:
    """Return what is wrong with a floor: its tables' order, double occupation, I8 and I19 of RELIABILITY section 1."""
    return [*_order(floor), *_occupation(floor), *_jobs(floor), *_awards(floor)]


def _supply(book: Book, clearing: Clearing) -> Iterator[str]:
    winners = Counter(assigned for assigned in clearing.assignment.values() if assigned is not None)
    for offer in book.offers:
        if winners[offer.type] > offer.supply:
            yield f"type {offer.type}: {winners[offer.type]} winners for {offer.supply} units"
        if winners[offer.type] != clearing.prices[offer.type].accepted:
            yield f"type {offer.type}: {winners[offer.type]} winners, {clearing.prices[offer.type].accepted} accepted"


def _participant(participant: Participant, offers: dict[int, Offer], clearing: Clearing) -> Iterator[str]:
    """Yield what is wrong for one participant: it pays more than it bid, has no such row, or envies."""
    assigned = clearing.assignment[participant.id]
    won = next((row for row in participant.rows if row.type == assigned), None)
    if assigned is not None and (won is None or _counted(won, offers) is None):
        yield f"participant {participant.id}: assigned type {assigned} without a bid that counts there"
    elif assigned is not None and won is not None:
        public, bid = clearing.prices[assigned].public, _counted(won, offers)
        if bid is not None and public > bid:
            yield f"participant {participant.id}: the price {public} of type {assigned} is above its bid {bid}"
    for row in _above(participant, assigned):
        bid = _counted(row, offers)
        if bid is not None and bid > clearing.prices[row.type].public:
            yield f"participant {participant.id}: envies type {row.type}, where it bids {bid} above the price"


def _prices(offer: Offer, book: Book, clearing: Clearing) -> Iterator[str]:
    """Yield where the prices of a type are not what the rejected bids make them."""
    price = clearing.prices[offer.type]
    rejected = list(_rejected(offer, book, clearing))
    public = max([offer.base, *(bid for bid, _ in rejected)])
    if price.public != public:
        yield f"type {offer.type}: the public price is {price.public}, the rejected bids make it {public}"
    tenants = {one.tenant for one in book.participants if clearing.assignment[one.id] == offer.type}
    rivals = [bid for bid, tenant in rejected if tenants and (len(tenants) > 1 or tenant not in tenants)]
    lease = max([offer.base, *rivals])
    if price.lease != lease:
        yield f"type {offer.type}: the lease price is {price.lease}, the rejected bids make it {lease}"
    if not offer.base <= price.lease <= price.public <= offer.cap:
        yield f"type {offer.type}: {offer.base} <= {price.lease} <= {price.public} <= {offer.cap} does not hold"


def _rejected(offer: Offer, book: Book, clearing: Clearing) -> Iterator[tuple[int, int]]:
    """Yield counted bid and tenant of everyone who asked for the type and got a later row or nothing."""
    for participant in book.participants:
        for row in _above(participant, clearing.assignment[participant.id]):
            if row.type == offer.type and min(offer.cap, row.bid) >= offer.base:
                yield min(offer.cap, row.bid), participant.tenant


def _above(participant: Participant, assigned: int | None) -> Iterator[Row]:
    """Yield the rows above the assigned one; all of them if there is none."""
    for row in participant.rows:
        if row.type == assigned:
            return
        yield row


def _counted(row: Row, offers: dict[int, Offer]) -> int | None:
    """Return the bid as it counts, None where the row is out."""
    offer = offers.get(row.type)
    if offer is None or min(offer.cap, row.bid) < offer.base:
        return None
    return min(offer.cap, row.bid)


def _order(floor: Floor) -> Iterator[str]:
    """Yield tables that are not in the order in which they are looked up, and seats that are another job's."""
    for name, ids in (("types", floor.types["id"]), ("units", floor.units["id"]), ("jobs", floor.jobs["id"])):
        if (np.diff(ids) <= 0).any():
            yield f"{name}: not by id, or one twice"
    if (np.diff(floor.tenures["job"]) < 0).any():
        yield "tenures: not by job"
    if len(floor.starts) != len(floor.jobs) + 1 or (np.diff(floor.starts, prepend=0, append=len(floor.rows)) < 0).any():
        yield "starts: not the launch tables of these jobs"
    for name in ("source", "destination"):
        owners = column(floor.tenures, "job", floor.jobs[name])
        for job in floor.jobs["id"][(owners != NONE) & (owners != np.arange(len(floor.jobs)))].tolist():
            yield f"job {job}: its {name} is another job's lease"


def _occupation(floor: Floor) -> Iterator[str]:
    """Yield units and leases that disagree about who sits where."""
    tenures = floor.tenures
    units, counts = np.unique(tenures["unit"], return_counts=True)
    for unit, count in zip(units[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
        yield f"unit {unit}: {count} leases at once"
    places = unit_of(floor, np.arange(len(tenures)))
    same_lease = column(floor.units, "lease", places) == tenures["lease"]
    same_type = column(floor.units, "type", places) == tenures["type"]
    for lease, unit in tenures[["lease", "unit"]][~(same_lease & same_type)].tolist():
        yield f"lease {lease}: unit {unit} does not carry it"


def _jobs(floor: Floor) -> Iterator[str]:
    """Yield what is wrong with single jobs' seats and awards."""
    jobs = floor.jobs
    counts = np.bincount(floor.tenures["job"], minlength=len(jobs))
    crowded = counts > LEASES_PER_JOB
    for job, count in zip(jobs["id"][crowded].tolist(), counts[crowded].tolist(), strict=True):
        yield f"job {job}: {count} leases at once"
    moves = jobs["destination"] != NONE
    for job in jobs["id"][moves & (jobs["source"] == NONE)].tolist():
        yield f"job {job}: a destination without a source"
    for job in jobs["id"][moves & (jobs["award"] != NONE)].tolist():
        yield f"job {job}: an award beside two leases"


def _awards(floor: Floor) -> Iterator[str]:
    """Yield types with more waiting awards than units that are unoccupied or leaving."""
    kinds, units = len(floor.types), floor.units
    backing = units["type"][(units["usable"] == 1) & ~np.isin(units["lease"], _staying(floor))]
    backed = np.bincount(backing, minlength=kinds)
    awards = np.bincount(floor.jobs["award_type"][floor.jobs["award"] != NONE], minlength=kinds)
    for place in np.flatnonzero(awards > backed).tolist():
        yield (
            f"type {floor.types['id'][place]}: {awards[place]} awards wait for {backed[place]} free or leaving units"
        )


def _staying(floor: Floor) -> IntArray:
    """Return the leases that are not on their way out: neither told to leave nor under notice."""
    sources = floor.tenures[floor.jobs["source"][floor.jobs["source"] != NONE]]
    destinations = floor.tenures[floor.jobs["destination"][floor.jobs["destination"] != NONE]]
    return np.concatenate((sources["lease"][sources["notice"] == NONE], destinations["lease"]))
