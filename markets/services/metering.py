"""From lease time and prices to billing slices and the ledger.

A lease's bill is the once-rounded integral of price over its billed time, so slicing never changes it: a slice is the
difference of two rounded running totals. Leases are metered some hundred slices a transaction, under the locks of the
cluster, of their jobs and of their own rows; one lease that cannot be billed stops no other.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, groupby, zip_longest

from django.db import connection
from django.db.models import F, Q

from laissez import clock
from laissez.clock import microseconds
from laissez.events import Outbox
from markets.engine.money import amount
from markets.services import batches, budgets, funds
from markets.services.costing import Piece, Prices
from tenants.models import Tenant
from tenants.services import ledger
from workers.models import Cluster, Job, Lease

SLICE = timedelta(seconds=funds.SLICE_SECONDS)
SLICES_PER_TRANSACTION = 200
SLICES_PER_RUN = 2000
"""What one run bills at most, so that a tick soon follows even after an outage. The next run goes on."""

FAILED = "lease %s could not be billed; it is tried again at the next tick"

READ = (
    "public_id",
    "job_id",
    "type_id",
    "billed_during",
    "last_heard_at",
    "metered_until",
    "integral",
    "billed_microdollars",
    "waived_microdollars",
)
WRITE_SLICES = """
    INSERT INTO markets_billingslice
        (lease_id, during, integral, amount_microdollars, waived_microdollars, pieces, transfer_id)
    SELECT lease, tstzrange(since, until), integral, amount, waived, pieces::jsonb, transfer
    FROM unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::numeric[], %s::bigint[], %s::bigint[],
                %s::text[], %s::bigint[])
        WITH ORDINALITY AS slice(lease, since, until, integral, amount, waived, pieces, transfer, place)
    ORDER BY place
"""
ADVANCE_LEASES = """
    UPDATE workers_lease AS lease
    SET integral = slice.integral,
        metered_until = slice.until,
        billed_microdollars = lease.billed_microdollars + slice.amount,
        waived_microdollars = lease.waived_microdollars + slice.waived
    FROM unnest(%s::bigint[], %s::timestamptz[], %s::numeric[], %s::bigint[], %s::bigint[])
        AS slice(lease, until, integral, amount, waived)
    WHERE lease.id = slice.lease
"""


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice before it is paid for: what it makes due, and the lease's whole integral at its end."""

    lease: Lease
    start: datetime
    end: datetime
    pieces: Sequence[Piece]
    integral: int
    due_microdollars: int


@dataclass(frozen=True, slots=True)
class _Billed:
    """A slice with what was charged for it."""

    slice: _Slice
    taken: ledger.Taken

    @property
    def waived_microdollars(self) -> int:
        return self.slice.due_microdollars - self.taken.amount_microdollars


NOTHING = ledger.Taken(0, None)


def meter_cluster(cluster_id: int) -> int:
    """Bill what is due in one cluster, whole minutes of open leases and the rest of ended ones; then see to its funds.

    Returns:
        How many leases were billed.
    """
    now = clock.now()
    billed = 0
    for lease_ids in _batches(_due(cluster_id, now), now):
        billed += batches.apply(partial(meter, cluster_id), lease_ids, failed=FAILED)
    budgets.settle(cluster_id)
    budgets.watch(cluster_id, now)
    return billed


def _due(cluster_id: int, now: datetime) -> list[Lease]:
    """Leases of which something is due, as far as is needed to say how much."""
    rows = Lease.objects.filter(host__cluster_id=cluster_id, billed_during__isnull=False)
    open_ones = Q(
        billed_during__upper_inf=True, metered_until__lte=now - SLICE, last_heard_at__gte=F("metered_until") + SLICE
    )
    ended = Q(billed_during__upper_inf=False, billed_during__endswith__gt=F("metered_until"))
    return list(rows.filter(open_ones | ended).only("billed_during", "metered_until", "last_heard_at"))


def _batches(leases: Iterable[Lease], now: datetime) -> Iterator[list[int]]:
    """Their ids, lowest first, parted so that a transaction writes few slices.

    Where one run cannot bill all of them, it bills those that have waited longest.
    """
    waiting = sorted(leases, key=lambda lease: (lease.metered_until, lease.pk))
    slices = {lease.pk: sum(1 for _ in _minutes(lease, now)) for lease in waiting}
    before = accumulate(slices.values(), initial=0)
    chosen = sorted(pk for pk, already in zip(slices, before, strict=False) if already < SLICES_PER_RUN)
    batch: list[int] = []
    size = 0
    for pk in chosen:
        if batch and size + slices[pk] > SLICES_PER_TRANSACTION:
            yield batch
            batch, size = [], 0
        batch.append(pk)
        size += slices[pk]
    if batch:
        yield batch


def meter(cluster_id: int, lease_ids: Sequence[int], outbox: Outbox) -> int:
    """Bill some leases of one cluster up to now, under the locks of the cluster, of their jobs and of themselves.

    Quotes are written under the one, bids under the others, each dated before it is visible: with all held, nothing
    that is dated before now can still appear.

    Returns:
        How many of them were due.
    """
    Cluster.objects.select_for_update(no_key=True).only("pk").get(pk=cluster_id)
    rows = Lease.objects.filter(pk__in=lease_ids).order_by("pk")
    jobs = _lock_jobs(rows.values_list("job_id", flat=True))
    slices = _slices(list(rows.select_for_update(no_key=True).only(*READ)), outbox.now())
    billed = _charge(slices, jobs, outbox)
    for following in _one_of_each(billed):
        _write(following)
    return len({each.lease for each in slices})


def _lock_jobs(ids: Iterable[int]) -> dict[int, Job]:
    """Lock jobs as everybody does, in the order of their ids, but read no more of them than their names and payers."""
    rows = Job.objects.select_for_update(no_key=True).filter(pk__in=sorted(set(ids))).order_by("pk")
    return {job.pk: job for job in rows.only("public_id", "tenant_id")}


def _until(lease: Lease, now: datetime) -> datetime | None:
    """Up to when the lease is billed now: its end, or the last whole slice. None when nothing is due.

    Not after the host's last word of it: should the host be lost, its lease ends there.
    """
    span = lease.billed_during
    if span is None or lease.metered_until is None:
        return None
    if span.upper is not None:
        return span.upper if span.upper > lease.metered_until else None
    whole = (min(now, lease.last_heard_at or span.lower) - span.lower) // SLICE
    until: datetime = span.lower + whole * SLICE
    return until if until > lease.metered_until else None


def _minutes(lease: Lease, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The slices of a lease that are due: whole ones and a shorter one at its end, as many as go into a transaction."""
    start, until = lease.metered_until, _until(lease, now)
    for _ in range(SLICES_PER_TRANSACTION):
        if start is None or until is None or start >= until:
            return
        end = min(start + SLICE, until)
        yield start, end
        start = end


def _slices(leases: Collection[Lease], now: datetime) -> list[_Slice]:
    """What is due of some leases, one lease after the other."""
    minutes = {lease: due for lease in leases if (due := list(_minutes(lease, now)))}
    if not minutes:
        return []
    first, last = min(due[0][0] for due in minutes.values()), max(due[-1][1] for due in minutes.values())
    prices = Prices.of(minutes.keys(), first, last)
    return [each for lease, due in minutes.items() for each in _slices_of(lease, due, prices)]


def _slices_of(lease: Lease, minutes: Iterable[tuple[datetime, datetime]], prices: Prices) -> Iterator[_Slice]:
    total = int(lease.integral)
    settled = lease.billed_microdollars + lease.waived_microdollars
    for start, end in minutes:
        pieces = prices.pieces(lease, start, end)
        total += sum(map(Piece.integral, pieces))
        due = amount(total) - settled
        settled += due
        yield _Slice(lease, start, end, pieces, total, due)


def _charge(slices: Sequence[_Slice], jobs: Mapping[int, Job], outbox: Outbox) -> list[_Billed]:
    """Take what is due from holds and balances. What they do not cover is waived, and operators are told.

    A hold covers everything but what an outage of the control plane itself let run on.
    """
    holds = funds.open_holds([job.public_id for job in jobs.values()])
    tenants = Tenant.objects.in_bulk({job.tenant_id for job in jobs.values()})
    costing = [each for each in slices if each.due_microdollars]
    charges = [
        ledger.Charge(
            tenant=tenants[jobs[each.lease.job_id].tenant_id],
            amount_microdollars=each.due_microdollars,
            reference=each.lease.public_id,
            key=f"slice:{each.lease.public_id}:{microseconds(each.start)}",
            from_hold=holds.get(jobs[each.lease.job_id].public_id),
        )
        for each in costing
    ]
    taken = dict(zip(map(id, costing), ledger.charge_covered(charges, outbox=outbox), strict=True))
    billed = [_Billed(each, taken.get(id(each), NOTHING)) for each in slices]
    for each in billed:
        if each.waived_microdollars:
            _tell_uncovered(each, jobs[each.slice.lease.job_id], outbox)
    return billed


def _tell_uncovered(billed: _Billed, job: Job, outbox: Outbox) -> None:
    data = {
        "lease": billed.slice.lease.public_id,
        "due_microdollars": billed.slice.due_microdollars,
        "charged_microdollars": billed.taken.amount_microdollars,
    }
    outbox.add("ops", "org.laissez.ops.charge.uncovered.v1", job.public_id, data)


def _one_of_each(billed: Iterable[_Billed]) -> Iterator[list[_Billed]]:
    """The first slice of every lease, then the second ones and so on: the database wants each to follow its former."""
    by_lease = [list(group) for _, group in groupby(billed, key=lambda each: each.slice.lease.pk)]
    for following in zip_longest(*by_lease):
        yield [each for each in following if each is not None]


def _write(billed: Sequence[_Billed]) -> None:
    """Write one slice of some leases, and move the leases on to its end."""
    leases = [each.slice.lease.pk for each in billed]
    ends = [each.slice.end for each in billed]
    integrals = [each.slice.integral for each in billed]
    amounts = [each.taken.amount_microdollars for each in billed]
    waived = [each.waived_microdollars for each in billed]
    pieces = [json.dumps([piece.as_json() for piece in each.slice.pieces]) for each in billed]
    transfers = [each.taken.transfer and each.taken.transfer.pk for each in billed]
    with connection.cursor() as cursor:
        starts = [each.slice.start for each in billed]
        cursor.execute(WRITE_SLICES, [leases, starts, ends, integrals, amounts, waived, pieces, transfers])
        cursor.execute(ADVANCE_LEASES, [leases, ends, integrals, amounts, waived])
