"""The five facts at the top of a job's page: where it runs, what it pays, what it has cost, why, and what comes next.

Values in, words out. A moment that belongs to a sentence is kept beside it, so that the page writes it in its reader's
zone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from markets.models import Notice
from markets.selectors.history import Sample
from markets.selectors.jobs import JobView, explain
from markets.templatetags.figures import duration, per_hour, percent, words
from markets.views import reasons
from workers.models import Job, Lease, Migration
from workers.models.jobs import TERMINAL_JOB_STATES

UNDER_WAY = {
    "awarded": "It moves to {to} at its program's next checkpoint.",
    "checkpointing": "It saves its state, then moves to {to}.",
    "transferring": "Its saved state goes over to {to}, where it trains on.",
    "restoring": "{to} restores the saved state and trains on from there.",
}


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence, the words before a moment that concludes it, and that moment."""

    text: str
    until: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is worked out from the job's speed and its price: seconds left of each, None where unknown."""

    runway_seconds: float | None = None
    finish_seconds: float | None = None


def why(seen: JobView, notices: Sequence[Notice]) -> Said:
    """Why the job is where it is: for a running one, what brought it to its present hardware."""
    primary = seen.primary
    if seen.job.state != Job.State.RUNNING or primary is None:
        return Said(explain(seen))
    came = _last_move(seen, primary)
    if came is None:
        return Said(_chosen(seen, primary))
    source = came.source.type.slug
    notice = next((each for each in notices if each.lease_id == came.source_id), None)
    return Said(f"Moved here from {source}: {_cause(seen, came, notice)}.", "Since", came.first_step_at)


def _last_move(seen: JobView, primary: Lease) -> Migration | None:
    """The move that brought it to the lease that speaks for it."""
    moves = [row for row in seen.migrations if row.destination_id == primary.pk and row.state in ("restoring", "done")]
    return moves[-1] if moves else None


def _cause(seen: JobView, move: Migration, notice: Notice | None) -> str:
    if notice is not None:
        price, own, figures = notice.price_per_hour, notice.bid_per_hour, ""
        if price is not None and own is not None:
            figures = f" (it took more than {per_hour(price)}, the own bid was {per_hour(own)})"
        told = "outbid there" if notice.reason == "outbid" else reasons.NOTICES.get(notice.reason, words(notice.reason))
        return f"{told}{figures}"
    source, destination = seen.bid_on(move.source.type_id), seen.bid_on(move.destination.type_id)
    if source is not None and destination is not None and destination.position < source.position:
        return f"it won row {destination.position + 1} of its launch table, which it prefers"
    if move.source.reason in ("host_lost", "device_failed", "drained"):
        return words(move.source.reason)
    return "it left the row above"


def _chosen(seen: JobView, primary: Lease) -> str:
    bid = seen.bid_on(primary.type_id)
    if bid is None:
        return "Its row was taken out of the launch table."
    if bid.position == 0:
        return "It is the first row of its launch table, and the bid wins."
    above = seen.bids[bid.position - 1] if bid.position <= len(seen.bids) else seen.bids[0]
    row, own = seen.table.row(above.type.slug), reasons.counted(above)
    hint = ""
    if row is not None and row.units_total == 0:
        hint = f": no host offers {above.type.slug}"
    elif row is not None and row.price is not None and own <= row.price:
        hint = f": {above.type.slug} costs {per_hour(row.price)} against its own {per_hour(own)}"
    return f"It is row {bid.position + 1} of its launch table, the first that the bids win{hint}."


def next_step(seen: JobView, outlook: Outlook) -> Said:
    """What happens next, and by when."""
    job = seen.job
    if job.state in TERMINAL_JOB_STATES:
        return Said(_after_the_end(seen))
    if job.state == Job.State.STOPPED:
        saved = "" if job.newest_checkpoint is None else f" from its state at {percent(job.newest_checkpoint.progress)}"
        leaving = "Its device is given back. " if seen.open_leases else ""
        return Said(f"{leaving}Nothing until somebody resumes it; it then goes on{saved or ' from the beginning'}.")
    if job.state == Job.State.QUEUED:
        return _next_of_queued(seen)
    return _next_of_running(seen, outlook)


def _after_the_end(seen: JobView) -> str:
    if seen.open_leases:
        return "Its device is given back as soon as the host confirms it."
    return "Nothing: it is over, and bids no more."


def _next_of_queued(seen: JobView) -> Said:
    if seen.award is not None:
        kind = seen.award.type.slug
        return Said(f"It starts on {kind} once the present holder has left.", "The award lapses", seen.award.deadline)
    if not seen.bids:
        return Said("Nothing until its launch table has a row.", "It expires", seen.job.queue_deadline)
    return Said("It starts as soon as a row wins; the market clears every second.", "Gives up", seen.job.queue_deadline)


def _next_of_running(seen: JobView, outlook: Outlook) -> Said:
    primary = seen.primary
    if primary is None:
        return Said("It trains on as soon as its next device is ready.")
    move = next((row for row in seen.migrations if row.state in UNDER_WAY), None)
    if move is not None:
        now = move.state == "awarded" and (seen.job.leave_moment == "now" or seen.job.upgrade == Job.Upgrade.NOW)
        text = "It moves to {to} as soon as that is ready." if now else UNDER_WAY[move.state]
        return Said(text.format(to=move.destination.type.slug))
    if seen.notice is not None and primary.state != "closing":
        return _next_under_notice(seen, seen.notice)
    if primary.state == "closing":
        queue = "" if seen.award is None else f" and goes on to {seen.award.type.slug}"
        return Said(f"It saves its state, gives {primary.type.slug} back{queue or ' and is queued with it'}.")
    if seen.award is not None:
        return Said(f"It moves to {seen.award.type.slug} once a unit is free.", "The award lapses", seen.award.deadline)
    if primary.state == "pending":
        return Said("It starts as soon as its host confirms the device; only then billing begins.")
    return Said(f"{_training(outlook)}{_wish(seen, primary)}")


def _next_under_notice(seen: JobView, notice: Notice) -> Said:
    kind, row = notice.lease.type.slug, seen.table.row(notice.lease.type.slug)
    remedy = ""
    if notice.reason in ("outbid", "claimed") and row is not None and row.price is not None:
        remedy = f" unless it bids more than {per_hour(row.price)} or moves first"
    elif notice.reason == "below_base":
        remedy = " unless it bids at least the base price or moves first"
    return Said(f"It saves its state and leaves {kind}{remedy}.", "By", notice.deadline)


def _training(outlook: Outlook) -> str:
    if outlook.finish_seconds is None:
        return "It trains on here."
    return f"It trains on here, about {duration(outlook.finish_seconds)} more at its present speed."


def _wish(seen: JobView, primary: Lease) -> str:
    """The row above that it would rather have, and what that takes."""
    bid = seen.bid_on(primary.type_id)
    if bid is None or bid.position == 0 or seen.job.upgrade == Job.Upgrade.NEVER:
        return ""
    names = [above.type.slug for above in seen.bids if above.position < bid.position]
    when = "at once" if seen.job.upgrade == Job.Upgrade.NOW else "at a checkpoint"
    return f" If it wins {' or '.join(names)} it moves there {when}."


def runway_seconds(*, budget: int | None, cost: int, price: int | None, speedup: int = 1) -> float | None:
    """How long what is left of a budget lasts at a price per hour, in real seconds; None without either."""
    if budget is None or not price:
        return None
    return max(0, budget - cost) / price * 3600 / speedup


def finish_seconds(first: Sample | None, last: Sample | None) -> float | None:
    """How long the rest takes at the speed between two reports under the present lease; None while unknown."""
    if first is None or last is None or first.lease != last.lease or last.progress >= 1:
        return None
    spent, done = (last.at - first.at).total_seconds(), last.progress - first.progress
    return None if spent <= 0 or done <= 0 else (1 - last.progress) * spent / done
