"""From lease time and prices to billing slices and the ledger.

A lease's bill is the once-rounded integral of price over its billed time, so slicing never changes it: a slice is the
difference of two rounded running totals. Leases are metered a hundred slices a transaction, under the locks of their
jobs and of their own rows; one lease that cannot be billed stops no other. A meter runs beside the ticks, so it neither
holds the cluster's lock, at which a tick would turn back, nor waits for it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import accumulate, groupby, zip_longest

from django.db import connection, transaction

from laissez import clock
from laissez.clock import microseconds
from laissez.events import Outbox
from markets.engine.money import amount
from markets.services import batches, budgets, funds
from markets.services.costing import Piece, Prices
from tenants.models import Tenant
from tenants.services import ledger
from workers.models import Cluster

SLICE = timedelta(seconds=funds.SLICE_SECONDS)
SLICES_PER_TRANSACTION = 100
"""A tenth of a second or so: a tick that has to ask the jobs of a batch waits for its end."""
SLICES_PER_RUN = 2000
"""What one run bills at most, so that what shares its process soon has its turn. The next run goes on."""

_METERS = 0x4D455445
"""Of the database's advisory locks, those of meters."""

FAILED = "lease %s could not be billed; it is tried again by the next meter"

# Two ways to be due, so that the index of each is used: leases without an end, and leases that have ended.
DUE = """
    SELECT id, least(slices, %(most)s)::int
    FROM (
        SELECT lease.id, lease.metered_until,
               div(extract(epoch FROM least(%(now)s, lease.last_heard_at) - lease.metered_until), %(slice)s) AS slices
        FROM workers_host AS host JOIN workers_lease AS lease ON lease.host_id = host.id
        WHERE host.cluster_id = %(cluster)s AND lease.state <> 'closed'
          AND least(%(now)s, lease.last_heard_at) >= lease.metered_until + %(slice)s * interval '1 second'
        UNION ALL
        SELECT lease.id, lease.metered_until,
               ceil(extract(epoch FROM upper(lease.billed_during) - lease.metered_until) / %(slice)s)
        FROM workers_host AS host JOIN workers_lease AS lease ON lease.host_id = host.id
        WHERE host.cluster_id = %(cluster)s AND lease.is_owing
    ) AS due
    ORDER BY metered_until, id
"""
LOCK_JOBS = """
    SELECT id FROM workers_job WHERE id IN (SELECT job_id FROM workers_lease WHERE id = ANY (%s))
    ORDER BY id FOR NO KEY UPDATE
"""
LOCK_LEASES = """
    SELECT lease.id, lease.public_id, lease.job_id, lease.type_id, job.public_id, job.tenant_id,
           lower(lease.billed_during), upper(lease.billed_during), lease.last_heard_at, lease.metered_until,
           lease.integral, lease.billed_microdollars + lease.waived_microdollars
    FROM workers_lease AS lease JOIN workers_job AS job ON job.id = lease.job_id
    WHERE lease.id = ANY (%s) ORDER BY lease.id FOR NO KEY UPDATE OF lease
"""
WRITE_SLICES = """
    INSERT INTO markets_billingslice
        (lease_id, during, integral, amount_microdollars, waived_microdollars, pieces, transfer_id)
    SELECT lease, tstzrange(since, until), integral, amount, waived, pieces, transfer
    FROM jsonb_to_recordset(%s::jsonb) AS slice(lease bigint, since timestamptz, until timestamptz, integral numeric,
                                         amount bigint, waived bigint, pieces jsonb, transfer bigint)
    ORDER BY lease
"""
ADVANCE_LEASES = """
    UPDATE workers_lease AS lease
    SET integral = slice.integral,
        metered_until = slice.until,
        billed_microdollars = lease.billed_microdollars + slice.amount,
        waived_microdollars = lease.waived_microdollars + slice.waived
    FROM jsonb_to_recordset(%s::jsonb)
        AS slice(lease bigint, until timestamptz, integral numeric, amount bigint, waived bigint)
    WHERE lease.id = slice.lease
"""


@dataclass(frozen=True, slots=True)
class _Lease:
    """What the meter reads of a lease, and of its job, while both are locked."""

    id: int
    public_id: str
    job_id: int
    type_id: int
    job: str
    tenant_id: int
    billed_from: datetime | None
    billed_until: datetime | None
    last_heard_at: datetime | None
    metered_until: datetime | None
    integral: Decimal
    settled_microdollars: int


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice before it is paid for: what it makes due, and the lease's whole integral at its end."""

    lease: _Lease
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
        """What neither hold nor balance covered."""
        return self.slice.due_microdollars - self.taken.amount_microdollars

    def as_row(self) -> dict[str, object]:
        """The slice's row as JSON, from which the statements take their columns."""
        return {
            "lease": self.slice.lease.id,
            "since": self.slice.start.isoformat(),
            "until": self.slice.end.isoformat(),
            "integral": self.slice.integral,
            "amount": self.taken.amount_microdollars,
            "waived": self.waived_microdollars,
            "pieces": [piece.as_json() for piece in self.slice.pieces],
            "transfer": self.taken.transfer and self.taken.transfer.pk,
        }


NOTHING = ledger.Taken(0, None)


def meter_cluster(cluster_id: int) -> int:
    """Bill what is due in one cluster, whole minutes of open leases and the rest of ended ones; then see to its funds.

    Where another meter of the cluster is at it, this one does nothing.

    Returns:
        How many leases were billed.
    """
    with _alone(cluster_id) as is_alone:
        if not is_alone:
            return 0
        billed, until = 0, quoted_until(cluster_id)
        if until is not None:
            for lease_ids in _batches(_due(cluster_id, until)):
                billed += batches.apply(partial(meter, until), lease_ids, failed=FAILED)
        budgets.settle(cluster_id)
        budgets.watch(cluster_id, clock.now())
        return billed


@contextmanager
def _alone(cluster_id: int) -> Iterator[bool]:
    """Keep other meters of the cluster away, in this process and in others. Yields whether there is none already.

    A lock of the connection, which also goes with it: it spares work, and what is billed does not depend on it.
    """
    key = [_METERS, cluster_id % 2**31]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", key)
        (is_alone,) = cursor.fetchone()
    try:
        yield is_alone
    finally:
        if is_alone:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def quoted_until(cluster_id: int) -> datetime | None:
    """Up to when all quotes of a cluster are written: no other that is in force before can still appear.

    Quotes are written by ticks, under the cluster's lock, and dated with a reading of the clock that is later than the
    lock. So all are written up to now where nobody holds it; and else, as perhaps a tick does, up to the last tick that
    has come to its end, which left its reading in the cluster's row. None where there is none.
    """
    with transaction.atomic(durable=True):
        unlocked = Cluster.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=cluster_id)
        now = clock.now() if list(unlocked.values_list("pk")) else None
        transaction.set_rollback(True)  # which ends the lock without waiting for a disk
    return now or Cluster.objects.filter(pk=cluster_id).values_list("last_tick_at", flat=True).first()


def _due(cluster_id: int, until: datetime) -> dict[int, int]:
    """How many slices are due of each lease, the one first that has waited longest."""
    figures: dict[str, int | datetime] = {
        "cluster": cluster_id,
        "now": until,
        "slice": funds.SLICE_SECONDS,
        "most": SLICES_PER_TRANSACTION,
    }
    with connection.cursor() as cursor:
        cursor.execute(DUE, figures)
        return dict(cursor.fetchall())


def _batches(due: Mapping[int, int]) -> Iterator[list[int]]:
    """Leases in the order of their ids, parted so that no transaction writes many slices.

    Where one run cannot bill all of them, it bills those that have waited longest.
    """
    before = accumulate(due.values(), initial=0)
    chosen = sorted(lease for lease, already in zip(due, before, strict=False) if already < SLICES_PER_RUN)
    batch: list[int] = []
    size = 0
    for lease in chosen:
        if batch and size + due[lease] > SLICES_PER_TRANSACTION:
            yield batch
            batch, size = [], 0
        batch.append(lease)
        size += due[lease]
    if batch:
        yield batch


def meter(until: datetime, lease_ids: Sequence[int], outbox: Outbox) -> int:
    """Bill some leases of one cluster, under the locks of their jobs and of themselves.

    Bids are written under the jobs' locks and dated under them: with those held, none that is dated before now can
    still appear, and so none before `until`.

    Args:
        until: an instant that is past and up to which all quotes are written (`quoted_until`).

    Returns:
        How many of them were due.
    """
    leases = _locked(lease_ids)
    slices = _slices(leases, until)
    for following in _one_of_each(_charge(slices, outbox)):
        _write(following)
    return len({each.lease.id for each in slices})


def _locked(lease_ids: Sequence[int]) -> list[_Lease]:
    """Lock jobs and leases as everybody does, each in the order of their ids, and read what the meter needs of them."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_JOBS, [list(lease_ids)])
        cursor.execute(LOCK_LEASES, [list(lease_ids)])
        return [_Lease(*row) for row in cursor.fetchall()]


def _until(lease: _Lease, quoted: datetime) -> datetime | None:
    """Up to when the lease is billed now: its end, or the last whole slice that is quoted. None when nothing is due.

    Not after the host's last word of it: should the host be lost, its lease ends there.
    """
    if lease.billed_from is None or lease.metered_until is None:
        return None
    until = lease.billed_until
    if until is None or until > quoted:
        heard = min(quoted, lease.last_heard_at or lease.billed_from)
        until = lease.billed_from + (heard - lease.billed_from) // SLICE * SLICE
    return until if until > lease.metered_until else None


def _minutes(lease: _Lease, quoted: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The slices of a lease that are due: whole ones and a shorter one at its end, as many as go into a transaction."""
    start, until = lease.metered_until, _until(lease, quoted)
    for _ in range(SLICES_PER_TRANSACTION):
        if start is None or until is None or start >= until:
            return
        end = min(start + SLICE, until)
        yield start, end
        start = end


def _slices(leases: Iterable[_Lease], quoted: datetime) -> list[_Slice]:
    """What is due of some leases, one lease after the other."""
    minutes = {lease: due for lease in leases if (due := list(_minutes(lease, quoted)))}
    if not minutes:
        return []
    first, last = min(due[0][0] for due in minutes.values()), max(due[-1][1] for due in minutes.values())
    prices = Prices.of(minutes.keys(), first, last)
    return [each for lease, due in minutes.items() for each in _slices_of(lease, due, prices)]


def _slices_of(lease: _Lease, minutes: Iterable[tuple[datetime, datetime]], prices: Prices) -> Iterator[_Slice]:
    total = int(lease.integral)
    settled = lease.settled_microdollars
    for start, end in minutes:
        pieces = prices.pieces(lease, start, end)
        total += sum(map(Piece.integral, pieces))
        due = amount(total) - settled
        settled += due
        yield _Slice(lease, start, end, pieces, total, due)


def _charge(slices: Sequence[_Slice], outbox: Outbox) -> list[_Billed]:
    """Take what is due from holds and balances. What they do not cover is waived, and operators are told.

    A hold covers everything but what an outage of the control plane itself let run on.
    """
    tenants = Tenant.objects.in_bulk({each.lease.tenant_id for each in slices})
    costing = [place for place, each in enumerate(slices) if each.due_microdollars]
    charges = [_charge_for(slices[place], tenants) for place in costing]
    taken = dict(zip(costing, ledger.charge_covered(charges, outbox=outbox), strict=True))
    billed = [_Billed(each, taken.get(place, NOTHING)) for place, each in enumerate(slices)]
    for each in billed:
        if each.waived_microdollars:
            _tell_uncovered(each, outbox)
    return billed


def _charge_for(slice_: _Slice, tenants: Mapping[int, Tenant]) -> ledger.Charge:
    lease = slice_.lease
    return ledger.Charge(
        tenant=tenants[lease.tenant_id],
        amount_microdollars=slice_.due_microdollars,
        reference=lease.public_id,
        key=f"slice:{lease.public_id}:{microseconds(slice_.start)}",
        from_hold_for=lease.job,
    )


def _tell_uncovered(billed: _Billed, outbox: Outbox) -> None:
    data = {
        "lease": billed.slice.lease.public_id,
        "due_microdollars": billed.slice.due_microdollars,
        "charged_microdollars": billed.taken.amount_microdollars,
    }
    outbox.add("ops", "org.laissez.ops.charge.uncovered.v1", billed.slice.lease.job, data)


def _one_of_each(billed: Iterable[_Billed]) -> Iterator[list[_Billed]]:
    """The first slice of every lease, then the second ones and so on: the database wants each to follow its former."""
    by_lease = [list(group) for _, group in groupby(billed, key=lambda each: each.slice.lease.id)]
    for following in zip_longest(*by_lease):
        yield [each for each in following if each is not None]


def _write(billed: Iterable[_Billed]) -> None:
    """Write one slice of some leases, and move the leases on to its end."""
    rows = json.dumps([each.as_row() for each in billed])
    with connection.cursor() as cursor:
        cursor.execute(WRITE_SLICES, [rows])
        cursor.execute(ADVANCE_LEASES, [rows])
