"""The operator's side of the exchange: opening clusters and types, and setting base and cap prices.

Prices are whole micro-dollars per accelerator-hour. Each change is audited in its own transaction; the next tick clears
with it and tells it on the market's stream. Bids are not touched: a row under a new base price is out of the book.
"""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Max

from laissez.errors import Conflict, Fault, Invalid
from laissez.events import Outbox
from laissez.models import AuditEntry
from markets.engine.money import format_price
from markets.models import Supply
from markets.selectors import exchange
from markets.services.telling import tell_changes, tell_row
from workers.models import AcceleratorType, Cluster

MAX_REASON_LENGTH = 500


def create_cluster(slug: str, *, name: str, actor: str, reason: str, outbox: Outbox, **terms: int) -> Cluster:
    """Open a cluster. It clears from its first tick on.

    Args:
        terms: any of notice_seconds, cool_down_seconds, max_moves_per_hour, max_award_seconds.

    Raises:
        Conflict: `cluster_exists`.
        Invalid: an unusable slug, name, term or reason.
    """
    if Cluster.objects.filter(slug=slug).exists():
        raise Conflict("cluster_exists", f"There is already a cluster {slug!r}.", "/slug")
    cluster = Cluster(slug=slug, name=name, **terms)
    check([*_field_faults(cluster), *reason_faults(reason)])
    cluster.save()
    after = {"slug": slug, "name": name, **terms}
    audit(outbox, actor, "cluster.create", slug, before=None, after=after, reason=reason)
    outbox.add(f"market:{slug}", "org.laissez.market.cluster.opened.v1", slug, exchange.public_cluster(cluster))
    return cluster


def create_type(
    cluster: Cluster, slug: str, *, name: str, base: int, cap: int, actor: str, reason: str, outbox: Outbox
) -> AcceleratorType:
    """Add a kind of hardware to a cluster, at the end of its pages.

    Args:
        base: the least that a winner pays, in micro-dollars per accelerator-hour.
        cap: the most that any bid counts for, in the same unit.

    Raises:
        Conflict: `type_exists`.
        Invalid: an unusable slug, name, price or reason.
    """
    if AcceleratorType.objects.filter(cluster=cluster, slug=slug).exists():
        raise Conflict("type_exists", f"Cluster {cluster.slug} already has a type {slug!r}.", "/slug")
    last = AcceleratorType.objects.filter(cluster=cluster).aggregate(last=Max("position"))["last"]
    row = AcceleratorType(
        cluster=cluster,
        slug=slug,
        name=name,
        position=0 if last is None else last + 1,
        base_price_per_hour=base,
        cap_price_per_hour=cap,
    )
    check([*_field_faults(row), *price_faults(base, cap), *reason_faults(reason)])
    row.save()
    after = {"name": name, **prices_json(base, cap)}
    audit(outbox, actor, "type.create", subject_of(row), before=None, after=after, reason=reason)
    Supply.objects.create(type=row)
    tell_row(exchange.rows_of(cluster)[row.pk], "type.opened", outbox)
    return row


def set_prices(
    row: AcceleratorType, *, base: int, cap: int, actor: str, reason: str, expected_version: int, outbox: Outbox
) -> AcceleratorType:
    """Change a type's base and cap price. Unchanged prices change nothing and are not audited.

    Args:
        base: the new base price, in micro-dollars per accelerator-hour.
        cap: the new cap price, in the same unit.
        reason: why, in the operator's words; it stands in the audit trail.
        expected_version: the version that the operator has seen.

    Returns:
        The type as it is now.

    Raises:
        Invalid: a price that is not positive, a base above the cap, no reason.
        Conflict: `version_conflict` when somebody else has changed the prices since.
    """
    check([*price_faults(base, cap), *reason_faults(reason)])
    present = lock_type(row)
    if present.version != expected_version:
        raise Conflict(
            "version_conflict",
            f"The prices of {present.slug} are at version {present.version}, not {expected_version}: "
            "somebody has changed them meanwhile. Look at them again.",
            "/expected_version",
        )
    before = prices_json(present.base_price_per_hour, present.cap_price_per_hour)
    after = prices_json(base, cap)
    if before == after:
        return present
    rows = exchange.rows_of(present.cluster)
    AcceleratorType.objects.filter(pk=present.pk).update(
        base_price_per_hour=base, cap_price_per_hour=cap, version=F("version") + 1
    )
    present.refresh_from_db()
    audit(outbox, actor, "type.set_prices", subject_of(present), before=before, after=after, reason=reason)
    tell_changes(rows, exchange.rows_of(present.cluster), outbox)
    return present


def lock_type(row: AcceleratorType) -> AcceleratorType:
    """A type as it is, its cluster's lock taken first: a tick that is running ends before its prices change."""
    cluster = Cluster.objects.select_for_update(no_key=True).get(pk=row.cluster_id)
    present = AcceleratorType.objects.select_for_update(no_key=True).get(pk=row.pk)
    present.cluster = cluster
    return present


def prices_json(base: int, cap: int) -> dict[str, str]:
    """Both prices as an audit entry keeps them."""
    return {"base_price_per_hour": format_price(base), "cap_price_per_hour": format_price(cap)}


def price_faults(base: int, cap: int) -> list[Fault]:
    """What is wrong with a pair of prices."""
    faults = [
        Fault("bad_price", f"The {name} price must be above $0 an hour.", f"/{name}_price_per_hour")
        for name, price in (("base", base), ("cap", cap))
        if price <= 0
    ]
    if not faults and base > cap:
        detail = f"The base price ${format_price(base)}/h is above the cap price ${format_price(cap)}/h."
        faults.append(Fault("base_over_cap", detail, "/base_price_per_hour"))
    return faults


def reason_faults(reason: str) -> list[Fault]:
    """What is wrong with a reason."""
    if 0 < len(reason.strip()) <= MAX_REASON_LENGTH:
        return []
    return [Fault("reason_missing", f"Say why, in 1 to {MAX_REASON_LENGTH} characters.", "/reason")]


def _field_faults(row: models.Model) -> list[Fault]:
    """What the model's own fields object to; prices have sentences of their own."""
    try:
        row.clean_fields(exclude={"base_price_per_hour", "cap_price_per_hour"})
    except ValidationError as error:
        return [
            Fault("bad_value", f"{name}: {message}", f"/{name}")
            for name, messages in error.message_dict.items()
            for message in messages
        ]
    return []


def check(faults: list[Fault]) -> None:
    """Refuse with every fault, if there is one."""
    if faults:
        raise Invalid(faults)


def subject_of(row: AcceleratorType) -> str:
    """What an audit entry calls a type."""
    return f"{row.cluster.slug}/{row.slug}"


def audit(
    outbox: Outbox,
    actor: str,
    action: str,
    subject: str,
    *,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    reason: str,
) -> None:
    """Write down who changed what, and why."""
    AuditEntry.objects.create(
        at=outbox.now(), actor=actor, action=action, subject=subject, before=before, after=after, reason=reason.strip()
    )
