"""Why a job is in its state, in a few words for a list: "outbid by $0.0300/h on nvidia-a10". Values in, words out."""

from markets.models import Bid
from markets.selectors.exchange import Exchange
from markets.selectors.jobs import JobView
from markets.templatetags.figures import per_hour, words
from workers.models import Job

STOPPED = {"budget": "over budget", "agent": "its agent stopped it", "stopped": "stopped by hand"}
NOTICES = {
    "below_base": "its bid is under the base price",
    "claimed": "its unit is claimed by somebody else",
    "drained": "its unit is taken out of service",
    "host": "its host is in trouble",
    "budget": "over budget",
}


def reason(seen: JobView) -> str:
    """The reason of the job's state."""
    job = seen.job
    match job.state:
        case Job.State.QUEUED:
            return _queued(seen)
        case Job.State.RUNNING:
            return _running(seen)
        case Job.State.STOPPED:
            return STOPPED.get(job.reason, job.reason_detail or words(job.reason))
        case Job.State.SUCCEEDED:
            return "exit code 0"
        case Job.State.EXPIRED:
            return "no device won in time"
        case Job.State.CANCELLED:
            return "cancelled by its tenant"
        case _:
            return job.reason_detail or words(job.reason)


def counted(bid: Bid) -> int:
    """What a bid on hardware that the job does not hold counts for, in micro-dollars per hour: at most the cap."""
    cap = bid.type.cap_price_per_hour
    return cap if bid.max_price_per_hour is None else min(cap, bid.max_price_per_hour)


def _queued(seen: JobView) -> str:
    if seen.award is not None:
        return f"won {seen.award.type.slug}, waits for the unit to come free"
    if not seen.bids:
        return "its launch table is empty"
    return min(_obstacle(seen.table, bid) for bid in seen.bids)[2]


def _obstacle(table: Exchange, bid: Bid) -> tuple[int, int, str]:
    """What keeps one row from winning, the smallest obstacle first: its kind, its size, its words."""
    row, slug = table.row(bid.type.slug), bid.type.slug
    own, base = counted(bid), bid.type.base_price_per_hour
    if row is None or row.units_total == 0:
        return 4, 0, f"no host offers {slug}"
    if own < base:
        return 3, base - own, f"{per_hour(base - own)} under the base price of {slug}"
    if row.price is None:
        return 1, 0, f"{slug} has not been priced yet"
    if own < row.price:
        return 2, row.price - own, f"outbid by {per_hour(row.price - own)} on {slug}"
    if own == row.price and row.units_free == 0:
        return 2, 0, f"equals the price of {slug}, and no unit is free"
    return 0, 0, f"{slug} is decided at the next tick"


def _running(seen: JobView) -> str:
    primary, notice = seen.primary, seen.notice
    if primary is None:
        return "between two devices"
    if primary.state == "closing":
        return f"saves its state and leaves: {words(primary.reason)}"
    if notice is not None:
        return _noticed(seen)
    other = next((lease for lease in seen.open_leases if lease.pk != primary.pk and lease.state != "closing"), None)
    if other is not None:
        return f"moves to {other.type.slug}"
    if seen.award is not None:
        return f"won {seen.award.type.slug}, waits for the unit to come free"
    if primary.state == "pending":
        return "its host makes the device ready"
    return choice(seen)


def _noticed(seen: JobView) -> str:
    notice = seen.notice
    assert notice is not None
    if notice.reason != "outbid":
        return NOTICES.get(notice.reason, words(notice.reason))
    row, bid = seen.table.row(notice.lease.type.slug), seen.bid_on(notice.lease.type_id)
    price = notice.price_per_hour if row is None or row.price is None else row.price
    own = (
        notice.bid_per_hour
        if bid is None
        else min(bid.keep_price_per_hour or counted(bid), bid.type.cap_price_per_hour)
    )
    if price is None or own is None or price <= own:
        return "outbid"
    return f"outbid by {per_hour(price - own)}"


def choice(seen: JobView) -> str:
    """Which row of its launch table a running job sits on."""
    primary = seen.primary
    bid = None if primary is None else seen.bid_on(primary.type_id)
    if bid is None:
        return "its row was taken out of the launch table"
    if len(seen.bids) == 1:
        return "the only row of its launch table"
    return f"row {bid.position + 1} of {len(seen.bids)} of its launch table"
