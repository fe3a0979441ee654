"""What must hold of a clearing and of a floor, checked without trusting whoever made them.

Each check returns sentences, one per violation; an empty list is a clean bill.
"""

from collections import Counter
from collections.abc import Iterator

from markets.engine.bidding import tenures
from markets.engine.book import Book, Offer, Participant, Row
from markets.engine.clearing import Clearing
from markets.engine.dynamics import LEASES_PER_JOB
from markets.engine.floor import Floor, FloorJob


def check_clearing(book: Book, clearing: Clearing) -> list[str]:
    """Return what is wrong with a clearing by the launch-table rule (MECHANISM section 1)."""
    offers = {offer.type: offer for offer in book.offers}
    return [
        *_supply(book, clearing),
        *(sentence for one in book.participants for sentence in _participant(one, offers, clearing)),
        *(sentence for offer in book.offers for sentence in _prices(offer, book, clearing)),
    ]


def check_floor(floor: Floor) -> list[str]:
    """Return what is wrong with a floor: double occupation, I8 and I19 of RELIABILITY section 1."""
    return [
        *_occupation(floor),
        *(sentence for job in floor.jobs for sentence in _job(job)),
        *_awards(floor),
    ]


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


def _occupation(floor: Floor) -> Iterator[str]:
    """Yield units and leases that disagree about who sits where."""
    units = {unit.id: unit for unit in floor.units}
    all_tenures = [tenure for job in floor.jobs for tenure in tenures(job)]
    for unit_id, count in Counter(tenure.unit for tenure in all_tenures).items():
        if count > 1:
            yield f"unit {unit_id}: {count} leases at once"
    for tenure in all_tenures:
        unit = units.get(tenure.unit)
        if unit is None or unit.lease != tenure.lease or unit.type != tenure.type:
            yield f"lease {tenure.lease}: unit {tenure.unit} does not carry it"


def _job(job: FloorJob) -> Iterator[str]:
    """Yield what is wrong with one job's state and count of leases."""
    if len(tenures(job)) > LEASES_PER_JOB:
        yield f"job {job.id}: {len(tenures(job))} leases at once"
    if job.destination is not None and job.source is None:
        yield f"job {job.id}: a destination without a source"
    if (job.state == "running") != (job.source is not None):
        yield f"job {job.id}: {job.state} with source {job.source}"
    if job.award is not None and job.destination is not None:
        yield f"job {job.id}: an award beside two leases"


def _awards(floor: Floor) -> Iterator[str]:
    """Yield types with more waiting awards than units that are unoccupied or leaving."""
    staying = {lease for job in floor.jobs for lease in _staying(job)}
    backing = Counter(unit.type for unit in floor.units if unit.usable and unit.lease not in staying)
    awards = Counter(job.award.type for job in floor.jobs if job.award is not None)
    for type_id, count in awards.items():
        if count > backing[type_id]:
            yield f"type {type_id}: {count} awards wait for {backing[type_id]} free or leaving units"


def _staying(job: FloorJob) -> Iterator[int]:
    """Yield the leases that are not on their way out: neither told to leave nor under notice."""
    if job.source is not None and job.source.notice is None:
        yield job.source.lease
    if job.destination is not None:
        yield job.destination.lease
