"""The life of an award: it waits, then comes to a lease, is lost to somebody else, lapses, or its winner withdraws it.

Winning reveals something of others' bids, so a winner that withdraws after its award put somebody under notice pays
`notice_seconds` at the lease price: probing costs what it disturbs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Max

from laissez.bulk import copy_instances
from laissez.errors import Refused
from laissez.events import Outbox
from markets.engine.dynamics import cool_down
from markets.engine.money import MICROSECONDS_PER_SECOND, amount, integral
from markets.models import Award, CoolDown, Quote
from markets.selectors import rows as as_rows
from markets.services import funds
from markets.services.notices import OpenBid, open_bids
from tenants.services import ledger
from workers.models import AcceleratorType, Cluster, Job, Lease, Migration

MAX_COOL_DOWN_SECONDS = 24 * 3600


PARTS = ("job__cluster", "job__tenant", "type")
"""What ending an award needs of it besides its own columns."""


def open_all(
    pairs: Sequence[tuple[Job, AcceleratorType]], *, cluster: Cluster, now: datetime, outbox: Outbox
) -> list[Award]:
    """Write waiting awards, each of a job and a type. A job that waits already keeps the award it has."""
    ids = [job.pk for job, _ in pairs]
    waiting = set(Award.objects.filter(job_id__among=ids, state=Award.State.WAITING).values_list("job_id", flat=True))
    deadline = now + timedelta(seconds=cluster.max_award_seconds)
    opened = {
        job.pk: Award(job=job, type=kind, since=now, deadline=deadline) for job, kind in pairs if job.pk not in waiting
    }
    copy_instances(opened.values())
    tell(opened.values(), "opened", outbox)
    return list(opened.values())


_HAND_OVER = """
    UPDATE markets_award AS award SET state = %s, lease_id = given.lease, closed_at = %s
    FROM unnest(%s::bigint[], %s::bigint[]) AS given(id, lease)
    WHERE award.id = given.id
"""


def hand_over(pairs: Sequence[tuple[Award, Lease]], *, now: datetime, outbox: Outbox) -> None:
    """Waiting awards have come to a lease each. Their jobs' locks are held since they were seen waiting."""
    if not pairs:
        return
    with connection.cursor() as cursor:
        ids, given = [award.pk for award, _ in pairs], [lease.pk for _, lease in pairs]
        cursor.execute(_HAND_OVER, [Award.State.HANDED_OVER, now, ids, given])
    for award, lease in pairs:
        award.state, award.lease, award.closed_at = Award.State.HANDED_OVER, lease, now
    tell([award for award, _ in pairs], "handed_over", outbox)


def close(rows: Sequence[Award], *, now: datetime, outbox: Outbox) -> list[Award]:
    """The clearing no longer repeats awards: each is withdrawn if that is its winner's own doing, else lost."""
    own = _own_doing(rows)
    states = {award.pk: Award.State.WITHDRAWN if award.pk in own else Award.State.LOST for award in rows}
    ended = _end(rows, states, now, outbox)
    _charge_for_probing([award for award in ended if award.pk in own], outbox)
    return ended


def _own_doing(rows: Sequence[Award]) -> set[int]:
    """The awards whose winners have closed the row since they won, or lowered its bid."""
    present = open_bids(award.job_id for award in rows)
    bids = {award.pk: present.get((award.job_id, award.type_id)) for award in rows}
    changed = [award for award in rows if (bid := bids[award.pk]) is not None and bid.accepted_at > award.since]
    former = _bids_when_won(changed)
    gone = {pk for pk, bid in bids.items() if bid is None}
    return gone | {award.pk for award in changed if _was_higher(former.get(award.pk), bids[award.pk])}


_BIDS_WHEN_WON = """
    SELECT award.id, bid.max_price_per_hour FROM markets_award AS award CROSS JOIN LATERAL (
        SELECT max_price_per_hour FROM markets_bid
        WHERE job_id = award.job_id AND type_id = award.type_id AND opened_at <= award.since
        ORDER BY id DESC LIMIT 1
    ) AS bid
    WHERE award.id = ANY(%s)
"""


def _bids_when_won(rows: Sequence[Award]) -> dict[int, tuple[int | None]]:
    """What winners bid when they won, by award; the price is None for the cap."""
    if not rows:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_BIDS_WHEN_WON, [[award.pk for award in rows]])
        return {pk: (highest,) for pk, highest in cursor.fetchall()}


def _was_higher(former: tuple[int | None] | None, bid: OpenBid | None) -> bool:
    """Whether a bid is lower than the one that won."""
    if former is None or bid is None or bid.highest is None:
        return False
    (highest,) = former
    return highest is None or bid.highest < highest


def withdraw(rows: Sequence[Award], *, now: datetime, outbox: Outbox) -> list[Award]:
    """The winners do not want them any more."""
    ended = _end(rows, {award.pk: Award.State.WITHDRAWN for award in rows}, now, outbox)
    _charge_for_probing(ended, outbox)
    return ended


def lapse(rows: Sequence[Award], *, cluster: Cluster, now: datetime, outbox: Outbox) -> list[Award]:
    """No unit has come free in time: the rows are closed to the jobs for a while, so that they stop waiting in vain."""
    ended = _end(rows, {award.pk: Award.State.LAPSED for award in rows}, now, outbox)
    close_rows([(award.job_id, award.type_id) for award in ended], cluster=cluster, now=now)
    return ended


_MARK_DISTURBING = """
    UPDATE markets_award AS award SET put_under_notice = true
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS warned(type, lowest, highest)
    WHERE award.type_id = warned.type AND award.state = %s AND NOT award.put_under_notice
        AND NOT (award.job_id = warned.lowest AND award.job_id = warned.highest)
"""


def mark_disturbing(warned: Iterable[tuple[int, int]]) -> None:
    """Keep of the waiting awards that somebody other than their winner is under notice for a unit of their type.

    Args:
        warned: the type of the unit, and the job that has the notice.
    """
    jobs_by_type: dict[int, set[int]] = defaultdict(set)
    for type_id, job_id in warned:
        jobs_by_type[type_id].add(job_id)
    if not jobs_by_type:
        return
    lowest, highest = map(min, jobs_by_type.values()), map(max, jobs_by_type.values())
    with connection.cursor() as cursor:
        cursor.execute(_MARK_DISTURBING, [[*jobs_by_type], [*lowest], [*highest], Award.State.WAITING])


def waiting_of(owners: Sequence[Job]) -> list[Award]:
    """The waiting awards of jobs."""
    given = {job.pk: job for job in owners}
    found = list(
        Award.objects.filter(job_id__among=given, state=Award.State.WAITING).prefetch_related("type").order_by("id")
    )
    for award in found:
        award.job = given[award.job_id]
    return found


def told_of(ids: Collection[int]) -> dict[int, Award]:
    """Awards with all that ending them takes, by job: each is of another one."""
    rows = Award.objects.filter(pk__in=ids).select_related(*PARTS) if ids else ()
    return {row.job_id: row for row in rows}


def close_rows(pairs: Iterable[tuple[int, int]], *, cluster: Cluster, now: datetime) -> None:
    """Start or double the cool-downs of rows, each of a job's id and a type's. A completed move has reset them."""
    wanted = set(pairs)
    if not wanted:
        return
    ids = {job_id for job_id, _ in wanted}
    former = {(row.job_id, row.type_id): row for row in CoolDown.objects.filter(job_id__among=ids)}
    moves = Migration.objects.filter(job_id__among=ids, state=Migration.State.DONE)
    moved_at = dict(moves.values_list("job_id").annotate(Max("closed_at")))
    lengths = {
        pair: _next_length(former.get(pair), moved_at.get(pair[0]), cluster.cool_down_seconds)
        for pair in sorted(wanted)
    }
    CoolDown.objects.bulk_create(
        [
            CoolDown(job_id=job_id, type_id=type_id, length_seconds=seconds, until=now + timedelta(seconds=seconds))
            for (job_id, type_id), seconds in lengths.items()
        ],
        update_conflicts=True,
        unique_fields=["job", "type"],
        update_fields=["length_seconds", "until"],
    )


def _next_length(former: CoolDown | None, moved_at: datetime | None, first_seconds: int) -> int:
    """Seconds for which a row is closed after its former cool-down; a move completed since then has reset it."""
    if former is None:
        previous_us = 0
    else:
        began = former.until - timedelta(seconds=former.length_seconds)
        was_reset = moved_at is not None and moved_at >= began
        previous_us = 0 if was_reset else former.length_seconds * MICROSECONDS_PER_SECOND
    length_us = cool_down(previous_us, first_us=first_seconds * MICROSECONDS_PER_SECOND)
    return min(length_us // MICROSECONDS_PER_SECOND, MAX_COOL_DOWN_SECONDS)


def _charge_for_probing(withdrawn: Sequence[Award], outbox: Outbox) -> None:
    """Charge those of the awards withdrawn that have put somebody under notice. Each is charged by itself: few do."""
    for award in withdrawn:
        if award.put_under_notice:
            _charge(award, outbox)


def _charge(award: Award, outbox: Outbox) -> None:
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


_END = """
    UPDATE markets_award AS award SET state = ending.state, closed_at = %s
    FROM unnest(%s::bigint[], %s::text[]) AS ending(id, state)
    WHERE award.id = ending.id AND award.state = %s
    RETURNING award.id, award.put_under_notice
"""


def _end(rows: Sequence[Award], states: Mapping[int, Award.State], now: datetime, outbox: Outbox) -> list[Award]:
    """End those awards that still wait, and tell of them in the order given."""
    if not rows:
        return []
    with connection.cursor() as cursor:
        ids = [award.pk for award in rows]
        cursor.execute(_END, [now, ids, [str(states[pk]) for pk in ids], Award.State.WAITING])
        put_under_notice = dict(cursor.fetchall())
    ended = [award for award in rows if award.pk in put_under_notice]
    for award in ended:
        award.state, award.closed_at, award.put_under_notice = states[award.pk], now, put_under_notice[award.pk]
        tell([award], str(award.state), outbox)
    return ended


def tell(rows: Iterable[Award], change: str, outbox: Outbox) -> None:
    """Say on their jobs' streams what has become of awards."""
    type_ = f"org.laissez.market.award.{change}.v1"
    for award in rows:
        outbox.add(f"job:{award.job.public_id}", type_, award.public_id, as_rows.award(award))
