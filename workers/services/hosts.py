"""The life of a host: enrol with a one-time code, be approved, drain, be lost, return.

pending -> ready <-> draining -> retired ;  ready | draining -> lost -> as it was
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from laissez.credentials import digest, is_well_formed, new_token
from laissez.errors import Conflict, Fault, Invalid, NotFound, Refused
from laissez.events import Outbox
from laissez.models import AuditEntry
from workers.models import Accelerator, AcceleratorType, Cluster, EnrolmentCode, Host, Lease
from workers.services import announce, jobs, migrations

CODE_LIFE = timedelta(hours=24)
MAX_ACCELERATORS = 64
MAX_INDEX = 1023


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator as its host describes it at enrolment."""

    index: int
    type: str
    emulated: bool


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What a host gets for its code. The key is shown once."""

    host: Host
    key: str


def issue_code(cluster: Cluster, *, approves: bool, now: datetime) -> str:
    """Draw a one-time enrolment code; only its digest is stored.

    Args:
        approves: the host that uses it is ready at once, without an operator's approval.
    """
    code = f"lz_enrol_{secrets.token_urlsafe(24)}"
    EnrolmentCode.objects.create(
        digest=digest(code), cluster=cluster, approves=approves, created_at=now, expires_at=now + CODE_LIFE
    )
    return code


def enrol(
    *, code: str, name: str, isolation: str, version: str, devices: Sequence[Device], now: datetime, outbox: Outbox
) -> Enrolment:
    """Use up a code: the host, its accelerators and its key.

    Raises:
        Refused: `bad_code` when the code is unknown, expired or used; the three are told apart nowhere.
        Invalid: unknown types, repeated indexes, or a name already taken in the cluster.
    """
    row = (
        EnrolmentCode.objects.select_for_update(of=("self",), no_key=True)
        .select_related("cluster")
        .filter(digest=digest(code), used_by=None, expires_at__gt=now)
        .first()
    )
    if row is None:
        raise Refused("bad_code", "This enrolment code is unknown, used or expired. Ask for a new one.", "/code", 403)
    types = {found.slug: found for found in AcceleratorType.objects.filter(cluster=row.cluster)}
    _check_devices(devices, types)
    if Host.objects.filter(cluster=row.cluster, name=name).exists():
        raise Conflict("name_taken", f"A host named {name!r} is enrolled already; choose another name.", "/name")
    key = new_token("host")
    host = Host.objects.create(
        cluster=row.cluster,
        name=name,
        state=Host.State.READY if row.approves else Host.State.PENDING,
        isolation=isolation,
        software_version=version,
        key_digest=digest(key),
        enrolled_at=now,
        last_heard_at=now,
    )
    Accelerator.objects.bulk_create(
        Accelerator(host=host, type=types[device.type], index=device.index, emulated=device.emulated)
        for device in devices
    )
    row.used_by = host
    row.save(update_fields=["used_by"])
    announce.host(host, outbox, change="enrolled", name=name, isolation=isolation)
    return Enrolment(host=host, key=key)


def _check_devices(devices: Sequence[Device], types: dict[str, AcceleratorType]) -> None:
    faults = []
    seen: set[int] = set()
    if not 1 <= len(devices) <= MAX_ACCELERATORS:
        detail = f"A host has 1 to {MAX_ACCELERATORS} accelerators; {len(devices)} were given."
        faults.append(Fault("bad_count", detail, "/accelerators"))
    for place, device in enumerate(devices):
        at = f"/accelerators/{place}"
        if device.type not in types:
            known = ", ".join(sorted(types)) or "none yet"
            detail = f"{device.type!r} is not a type of this cluster, which has: {known}."
            faults.append(Fault("unknown_type", detail, f"{at}/type"))
        if not 0 <= device.index <= MAX_INDEX:
            detail = f"Index {device.index} is not a number from 0 to {MAX_INDEX}."
            faults.append(Fault("bad_index", detail, f"{at}/index"))
        if device.index in seen:
            faults.append(Fault("repeated_index", f"Index {device.index} is given twice.", f"{at}/index"))
        seen.add(device.index)
    if faults:
        raise Invalid(faults)


def authenticate(key: str) -> Host:
    """The host that owns a key.

    Raises:
        Refused: `bad_key`, whatever is wrong with it.
    """
    host = None
    if is_well_formed(key, kind="host"):
        host = Host.objects.filter(key_digest=digest(key)).exclude(state=Host.State.RETIRED).first()
    if host is None:
        raise Refused("bad_key", "This host key is unknown or retired. Enrol again with a new code.", status=401)
    return host


def approve(host: Host, *, actor: str, reason: str, outbox: Outbox) -> Host:
    """An operator lets a pending host take leases, or a draining one again."""
    return _move(host, Host.State.READY, (Host.State.PENDING, Host.State.DRAINING), actor, reason, outbox)


def drain(host: Host, *, actor: str, reason: str, outbox: Outbox) -> Host:
    """Give its jobs notice and hand it no more; its leases end as their notices do."""
    return _move(host, Host.State.DRAINING, (Host.State.READY,), actor, reason, outbox)


def retire(host: Host, *, actor: str, reason: str, outbox: Outbox) -> Host:
    """Forget a host for good; it must be empty."""
    if Lease.objects.filter(host=host).exclude(state=Lease.State.CLOSED).exists():
        raise Conflict("host_in_use", "The host still has leases; drain it and wait until they have ended.")
    leaving = (Host.State.PENDING, Host.State.DRAINING, Host.State.LOST)
    return _move(host, Host.State.RETIRED, leaving, actor, reason, outbox)


def _move(
    host: Host, to: Host.State, come_from: tuple[Host.State, ...], actor: str, reason: str, outbox: Outbox
) -> Host:
    before = host.state
    if not Host.objects.filter(pk=host.pk, state__in=come_from).update(state=to):
        raise Conflict("wrong_state", f"A host that is {host.state} cannot become {to}.")
    host.refresh_from_db()
    AuditEntry.objects.create(
        at=outbox.now(),
        actor=actor,
        action=f"host.{to}",
        subject=host.public_id,
        before={"state": before},
        after={"state": host.state},
        reason=reason,
    )
    announce.host(host, outbox)
    return host


def silence_limit() -> timedelta:
    """How long a host may be silent before its devices may be let again: time to live plus grace."""
    return timedelta(seconds=settings.LEASE_TTL_SECONDS + settings.LEASE_GRACE_SECONDS)


def return_from_loss(host: Host, outbox: Outbox) -> None:
    """A lost host speaks again. Its old leases are closed; it will be told to end what it still runs."""
    if host.state == Host.State.LOST:
        back = Host.State(host.state_before_loss or Host.State.READY)
        Host.objects.filter(pk=host.pk, state=Host.State.LOST).update(state=back, state_before_loss="")
        host.refresh_from_db()
        announce.host(host, outbox, change="returned")


def lose(host_id: int, *, heard_since: datetime, outbox: Outbox) -> bool:
    """Declare a silent host lost: its leases close as of its last accepted word, its jobs are queued again.

    Args:
        heard_since: the instant since which the server could have heard it; silence before does not count, so that
            an outage of the control plane does not expire every lease on return.
    """
    host = Host.objects.select_for_update(no_key=True).filter(pk=host_id).first()
    if host is None or host.state not in (Host.State.READY, Host.State.DRAINING):
        return False
    held = Lease.objects.filter(host=host).exclude(state=Lease.State.CLOSED)
    locked = jobs.lock(held.values_list("job_id", flat=True))
    now = outbox.now()
    if max(host.last_heard_at, heard_since) + silence_limit() > now:
        return False
    host.state_before_loss, host.state = host.state, Host.State.LOST
    host.save(update_fields=["state", "state_before_loss"])
    announce.host(host, outbox, change="lost", last_heard_at=host.last_heard_at.isoformat())
    for lease in held.select_related("job", "type").order_by("id"):
        job = locked[lease.job_id]
        migrations.end_lease(
            job, lease, reason=Lease.Reason.HOST_LOST, at=now, billed_until=host.last_heard_at, outbox=outbox
        )
    return True


def sweep(host_id: int, *, outbox: Outbox) -> bool:
    """Close what was handed over to a host in the moment in which it was lost."""
    host = Host.objects.select_for_update(no_key=True).get(pk=host_id)
    if host.state != Host.State.LOST:
        return False
    held = Lease.objects.filter(host=host).exclude(state=Lease.State.CLOSED)
    locked = jobs.lock(held.values_list("job_id", flat=True))
    now = outbox.now()
    for lease in held.select_related("job", "type").order_by("id"):
        migrations.end_lease(
            locked[lease.job_id],
            lease,
            reason=Lease.Reason.HOST_LOST,
            at=now,
            billed_until=host.last_heard_at,
            outbox=outbox,
        )
    return True


def lost_hosts_with_leases() -> list[int]:
    """Lost hosts that something was handed over to meanwhile."""
    open_leases = Lease.objects.exclude(state=Lease.State.CLOSED)
    rows = Host.objects.filter(state=Host.State.LOST, pk__in=open_leases.values("host_id"))
    return list(rows.order_by("pk").values_list("pk", flat=True))


def silent_hosts(now: datetime) -> list[int]:
    """Hosts that may be lost: those not heard of for the limit. `lose` looks again under their lock."""
    due = Q(state__in=[Host.State.READY, Host.State.DRAINING], last_heard_at__lt=now - silence_limit())
    return list(Host.objects.filter(due).order_by("pk").values_list("pk", flat=True))


def by_public_id(public_id: str) -> Host:
    """The host with this id."""
    host = Host.objects.filter(public_id=public_id).first()
    if host is None:
        raise NotFound("host")
    return host


def mark_health(host: Host, healthy: dict[int, bool]) -> None:
    """Note which of a host's devices work. An index that it never enrolled is ignored."""
    for flag in (True, False):
        indexes = [index for index, value in healthy.items() if value is flag]
        Accelerator.objects.filter(host=host, index__in=indexes, healthy=not flag).update(healthy=flag)
