"""Ending an award that waits: lost to somebody else, lapsed, or withdrawn by its own winner.

Winning reveals something of others' bids, so a winner that withdraws after its award put somebody under notice pays
`notice_seconds` at the lease price: probing costs what it disturbs.
"""

from datetime import datetime, timedelta

from laissez.errors import Refused
from laissez.events import Outbox
from markets.engine.dynamics import cool_down
from markets.engine.money import MICROSECONDS_PER_SECOND, amount, integral
from markets.models import Award, Bid, CoolDown, Quote
from markets.selectors import rows
from markets.services import funds
from tenants.services import ledger
from workers.models import Cluster, Job, Lease, Migration

MAX_COOL_DOWN_SECONDS = 24 * 3600


def close(award: Award, *, now: datetime, outbox: Outbox) -> bool:
    """The clearing no longer repeats an award: withdrawn if its winner's own doing, else lost."""
    bid = Bid.objects.filter(job=award.job, type=award.type, closed_at=None).first()
    own_doing = bid is None or (bid.accepted_at > award.since and _was_higher(award, bid))
    return withdraw(award, now=now, outbox=outbox) if own_doing else _end(award, Award.State.LOST, now, outbox)


def _was_higher(award: Award, bid: Bid) -> bool:
    """Whether the winner has lowered its bid since it won."""
    former = Bid.objects.filter(job=award.job, type=award.type, opened_at__lte=award.since).order_by("-id").first()
    if former is None or bid.max_price_per_hour is None:
        return False
    return former.max_price_per_hour is None or bid.max_price_per_hour < former.max_price_per_hour


def withdraw(award: Award, *, now: datetime, outbox: Outbox) -> bool:
    """The winner does not want it any more."""
    if not _end(award, Award.State.WITHDRAWN, now, outbox):
        return False
    if award.put_under_notice:
        _charge_for_probing(award, outbox)
    return True


def lapse(award: Award, *, now: datetime, outbox: Outbox) -> bool:
    """No unit has come free in time: the row is closed to the job for a while, so that it stops waiting in vain."""
    ended = _end(award, Award.State.LAPSED, now, outbox)
    if ended:
        close_row(award.job, award.type_id, cluster=award.job.cluster, now=now)
    return ended


def overdue(cluster: Cluster, now: datetime) -> dict[int, Award]:
    """Upgrades awarded too long ago, by job. A job that is queued or under notice keeps its award: it needs it."""
    rows = Award.objects.filter(
        job__cluster=cluster, state=Award.State.WAITING, deadline__lte=now, job__state=Job.State.RUNNING
    ).exclude(job__notices__state="open")
    live = rows.filter(job__leases__state__in=(Lease.State.PENDING, Lease.State.ACTIVE))
    return {row.job_id: row for row in live.select_related("job__cluster", "job__tenant", "type")}


def close_row(job: Job, type_id: int, *, cluster: Cluster, now: datetime) -> None:
    """Start or double the cool-down of one row of a job's launch table. A completed move has reset it."""
    row = CoolDown.objects.filter(job=job, type_id=type_id).first()
    previous_us = row.length_seconds * MICROSECONDS_PER_SECOND if row and not _has_moved_since(row) else 0
    length_us = cool_down(previous_us, first_us=cluster.cool_down_seconds * MICROSECONDS_PER_SECOND)
    seconds = min(length_us // MICROSECONDS_PER_SECOND, MAX_COOL_DOWN_SECONDS)
    CoolDown.objects.update_or_create(
        job=job, type_id=type_id, defaults={"length_seconds": seconds, "until": now + timedelta(seconds=seconds)}
    )


def _has_moved_since(row: CoolDown) -> bool:
    began = row.until - timedelta(seconds=row.length_seconds)
    done = Migration.objects.filter(job_id=row.job_id, state=Migration.State.DONE, closed_at__gte=began)
    return done.exists()


def _charge_for_probing(award: Award, outbox: Outbox) -> None:
    quote = Quote.objects.filter(type=award.type, during__upper_inf=True).first()
    if quote is None:
        return
    market_us = award.job.cluster.notice_seconds * MICROSECONDS_PER_SECOND * funds.speedup()
    charge = amount(integral(quote.lease_price_per_hour, 0, market_us))
    try:
        ledger.charge(
            award.job.tenant,
            amount_microdollars=charge,
            reference=award.public_id,
            key=f"probing:{award.public_id}",
            from_hold=funds.open_hold(award.job),
            outbox=outbox,
        )
    except Refused as refusal:
        data = {"award": award.public_id, "amount_microdollars": charge, "detail": refusal.detail}
        outbox.add("ops", "org.laissez.ops.charge.uncovered.v1", award.job.public_id, data)
        return
    Award.objects.filter(pk=award.pk).update(charged_microdollars=charge)


def _end(award: Award, state: Award.State, now: datetime, outbox: Outbox) -> bool:
    ended = Award.objects.filter(pk=award.pk, state=Award.State.WAITING).update(state=state, closed_at=now)
    if ended:
        award.state, award.closed_at = state, now
        tell(award, str(state), outbox)
    return bool(ended)


def tell(award: Award, change: str, outbox: Outbox) -> None:
    """Say on its job's stream what has become of an award."""
    type_ = f"org.laissez.market.award.{change}.v1"
    outbox.add(f"job:{award.job.public_id}", type_, award.public_id, rows.award(award))
