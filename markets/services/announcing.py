"""Base and cap prices that are announced before they take effect, so that agents can plan and holders can answer.

One change at a time is scheduled for a type. It names both prices in full, so it stands whatever an operator sets at
once meanwhile, until it is cancelled; the first tick at or after its moment puts it in force and clears with it. Both
ends are one guarded update: of a cancellation and a tick that meet, exactly one wins.
"""

from datetime import datetime, timedelta

from django.db.models import F

from laissez.clock import rfc3339
from laissez.errors import Conflict, Fault
from laissez.events import Outbox
from markets.engine.money import format_price
from markets.models import PriceChange
from markets.selectors import exchange as exchanges
from markets.services.exchange import audit, check, lock_type, price_faults, prices_json, reason_faults, subject_of
from workers.models import AcceleratorType, Cluster

HORIZON = timedelta(days=90)
SCHEDULED, IN_FORCE, CANCELLED = PriceChange.State.SCHEDULED, PriceChange.State.IN_FORCE, PriceChange.State.CANCELLED


def announce_prices(
    row: AcceleratorType,
    *,
    base: int,
    cap: int,
    effective_at: datetime,
    reason_class: str,
    actor: str,
    reason: str,
    expected_version: int,
    outbox: Outbox,
) -> PriceChange:
    """Announce a type's new base and cap price.

    Args:
        base: the new base price, in micro-dollars per accelerator-hour.
        cap: the new cap price, in the same unit.
        effective_at: when it takes effect: at least one notice of the cluster and at most 90 days from now.
        reason_class: one of PriceChange.ReasonClass; tenants see it.
        reason: why, in the operator's words; it stands in the audit trail.
        expected_version: the version of the type that the operator has seen.

    Raises:
        Invalid: a price, time or reason that cannot be.
        Conflict: `version_conflict` when the prices have changed since, `already_announced` when a change is scheduled.
    """
    check([*price_faults(base, cap), *reason_faults(reason), *_class_faults(reason_class)])
    present = lock_type(row)
    now = outbox.now()
    check(_time_faults(effective_at, now, present.cluster))
    if present.version != expected_version:
        detail = (
            f"The prices of {present.slug} are at version {present.version}, not {expected_version}: "
            "somebody has changed them meanwhile. Look at them again."
        )
        raise Conflict("version_conflict", detail, "/expected_version")
    _refuse_a_second(present)
    if (base, cap) == (present.base_price_per_hour, present.cap_price_per_hour):
        detail = f"Base ${format_price(base)}/h and cap ${format_price(cap)}/h are in force already; announce others."
        check([Fault("unchanged", detail, "/base_price_per_hour")])
    change = PriceChange.objects.create(
        type=present,
        base_price_per_hour=base,
        cap_price_per_hour=cap,
        reason_class=reason_class,
        reason=reason.strip(),
        actor=actor,
        announced_at=now,
        effective_at=effective_at,
    )
    _audit(change, "announce", actor, reason, outbox)
    _tell(change, "scheduled", outbox)
    return change


def cancel_price_change(change: PriceChange, *, actor: str, reason: str, outbox: Outbox) -> PriceChange:
    """Take an announced change back before it is in force.

    Raises:
        Invalid: no reason.
        Conflict: `not_scheduled` when it is in force or cancelled already.
    """
    check(reason_faults(reason))
    if not _close(change, CANCELLED, outbox.now()):
        change.refresh_from_db()
        since = "" if change.closed_at is None else f" since {rfc3339(change.closed_at)}"
        way_out = "; set or announce other prices instead" if change.state == IN_FORCE else ""
        detail = f"Price change {change.public_id} is {change.get_state_display().lower()}{since}{way_out}."
        raise Conflict("not_scheduled", detail)
    _audit(change, "cancel", actor, reason, outbox)
    _tell(change, "cancelled", outbox)
    return change


def put_due_in_force(cluster: Cluster, outbox: Outbox) -> list[PriceChange]:
    """Put every change whose moment has come in force. For the tick, which holds the cluster's lock.

    Returns:
        Those that are in force by this call; one that was cancelled at the same moment is not among them.
    """
    due = PriceChange.objects.filter(type__cluster=cluster, state=SCHEDULED, effective_at__lte=outbox.now())
    rows = due.select_related("type__cluster").order_by("effective_at", "id")
    return [change for change in rows if _put_in_force(change, outbox)]


def _put_in_force(change: PriceChange, outbox: Outbox) -> bool:
    row = AcceleratorType.objects.select_for_update(no_key=True).get(pk=change.type_id)
    if not _close(change, IN_FORCE, outbox.now()):
        return False
    before = prices_json(row.base_price_per_hour, row.cap_price_per_hour)
    AcceleratorType.objects.filter(pk=row.pk).update(
        base_price_per_hour=change.base_price_per_hour,
        cap_price_per_hour=change.cap_price_per_hour,
        version=F("version") + 1,
    )
    after = {"price_change": change.public_id, **_prices(change)}
    subject = subject_of(change.type)
    audit(outbox, change.actor, "type.set_prices", subject, before=before, after=after, reason=change.reason)
    _tell(change, "in_force", outbox)
    return True


def _close(change: PriceChange, state: PriceChange.State, now: datetime) -> bool:
    """Move a scheduled change on; False if somebody else got there."""
    moved = PriceChange.objects.filter(pk=change.pk, state=SCHEDULED).update(state=state, closed_at=now)
    if moved:
        change.state, change.closed_at = state, now
    return bool(moved)


def _refuse_a_second(row: AcceleratorType) -> None:
    scheduled = PriceChange.objects.filter(type=row, state=SCHEDULED).first()
    if scheduled is not None:
        detail = (
            f"{row.slug} has an announced change for {rfc3339(scheduled.effective_at)} ({scheduled.public_id}) "
            "already; cancel it first, or wait until it is in force."
        )
        raise Conflict("already_announced", detail)


def _class_faults(reason_class: str) -> list[Fault]:
    known = PriceChange.ReasonClass.values
    if reason_class in known:
        return []
    detail = f"The reason class is {reason_class!r}; give one of {', '.join(known)}."
    return [Fault("bad_reason_class", detail, "/reason_class")]


def _time_faults(effective_at: datetime, now: datetime, cluster: Cluster) -> list[Fault]:
    lead = timedelta(seconds=cluster.notice_seconds)
    if now + lead <= effective_at <= now + HORIZON:
        return []
    detail = (
        f"It is to take effect at {rfc3339(effective_at)}; give a time from {rfc3339(now + lead)}, one notice of "
        f"{cluster.slug} from now, to {rfc3339(now + HORIZON)}."
    )
    return [Fault("bad_time", detail, "/effective_at")]


def _prices(change: PriceChange) -> dict[str, str]:
    return prices_json(change.base_price_per_hour, change.cap_price_per_hour)


def _audit(change: PriceChange, act: str, actor: str, reason: str, outbox: Outbox) -> None:
    state = {"price_change": change.public_id, "effective_at": rfc3339(change.effective_at), **_prices(change)}
    before, after = ({**state, "state": SCHEDULED}, {**state, "state": change.state})
    subject = subject_of(change.type)
    former = None if act == "announce" else before
    audit(outbox, actor, f"price_change.{act}", subject, before=former, after=after, reason=reason)


def _tell(change: PriceChange, what: str, outbox: Outbox) -> None:
    stream = f"market:{change.type.cluster.slug}"
    data = exchanges.public_change(change)
    outbox.add(stream, f"org.laissez.market.base_price.{what}.v1", change.public_id, data)
