"""A host's sync: what it has seen goes in, what it should do comes out, in one transaction.

Everything is judged by the server's own clock and by fences. A message repeated or delayed is refused by its
sequence number, a report repeated by its own number; a lease with a stale fence is refused and reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DataError, IntegrityError

from laissez.errors import Refused
from laissez.events import Outbox, touch
from workers.models import Host, Job, Lease
from workers.selectors import desired
from workers.services import announce, hosts, jobs, leases, migrations, reports

HEARTBEAT_SECONDS = 2.0
LEAST_HEARTBEAT_SECONDS = 0.5
REPORT_FAILED = "report_failed"
TOUCHING = {"progress": "progress", "first_step": "progress", "log": "log"}
"""Reports of which a job's page is only told that there are some, and what of."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One lease as its host sees it: ready, standby, running, saving or ended."""

    lease: str
    fence: int
    state: str


@dataclass(frozen=True, slots=True)
class Message:
    """One sync message. `sequence` grows for ever per host, `reports` carry ids that grow for ever per host."""

    sequence: int
    healthy: Mapping[int, bool]
    observed: Sequence[Observed]
    reports: Sequence[reports.Report]


@dataclass(slots=True)
class Answer:
    """What a sync tells the host."""

    host: Host
    acknowledged: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    leases: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "host": {"id": self.host.public_id, "state": self.host.state},
            "lease_ttl_seconds": settings.LEASE_TTL_SECONDS,
            "heartbeat_seconds": self._heartbeat(),
            "checkpoint_store": settings.CHECKPOINT_STORE_URL,
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "results": self.results,
            "leases": self.leases,
        }

    def _heartbeat(self) -> float:
        """How often the host should call: half as long as its most impatient agent waits, within limits."""
        patience = [entry["spec"]["heartbeat_seconds"] for entry in self.leases]
        return max(LEAST_HEARTBEAT_SECONDS, min([HEARTBEAT_SECONDS, *(seconds / 2 for seconds in patience)]))


def sync(host_id: int, message: Message, *, outbox: Outbox) -> Answer:
    """Take in a message and answer with the desired state.

    Raises:
        Refused: `replayed_message` when the sequence number is not larger than the last accepted one.
    """
    host = Host.objects.select_for_update(no_key=True).get(pk=host_id)
    if message.sequence <= host.last_sequence:
        raise Refused(
            "replayed_message",
            f"Sequence {message.sequence} is not above {host.last_sequence}, the last one accepted.",
            "/sequence",
            409,
        )
    held = {lease.public_id: lease for lease in _open_leases(host)}
    named = {report.lease for report in message.reports} - set(held)
    past = Lease.objects.filter(host=host, public_id__in=named).select_related("job", "type")
    known = held | {lease.public_id: lease for lease in past}
    locked = jobs.lock(lease.job_id for lease in known.values())
    now = outbox.now()
    host.last_sequence, host.last_heard_at = message.sequence, now
    host.save(update_fields=["last_sequence", "last_heard_at"])
    hosts.return_from_loss(host, outbox)
    hosts.mark_health(host, dict(message.healthy))
    _leave_failed_devices(message.healthy, held.values(), now, outbox)
    answer = Answer(host=host)
    _renew(message.observed, held, now)
    _activate(message.observed, held, locked, now, answer, outbox)
    _take_reports(message.reports, known, locked, now, answer, outbox)
    _end(message.observed, known, locked, now, answer, outbox)
    if answer.refused:
        Host.objects.filter(pk=host.pk).update(refusals=host.refusals + len(answer.refused))
        announce.host(host, outbox, change="refused", refused=answer.refused[:20])
    _ask_agents(held.values(), locked, now)
    answer.leases = desired.leases_of(host, now=now)
    return answer


def _open_leases(host: Host) -> list[Lease]:
    rows = Lease.objects.filter(host=host).exclude(state=Lease.State.CLOSED)
    return list(rows.select_related("job", "type", "accelerator").order_by("id"))


def _matches(seen: Observed, known: Mapping[str, Lease], answer: Answer) -> Lease | None:
    """The lease that an observation is about; one with a foreign id or an old fence is refused and reported."""
    lease = known.get(seen.lease)
    if lease is not None and lease.fence == seen.fence:
        return lease
    if lease is not None:
        detail = f"Lease {seen.lease} has fence {lease.fence}, not {seen.fence}."
        answer.refused.append({"id": 0, "lease": seen.lease, "code": "stale_fence", "detail": detail})
    return None


def _leave_failed_devices(healthy: Mapping[int, bool], held: Iterable[Lease], now: datetime, outbox: Outbox) -> None:
    """A job on a device that has failed holds it no more: it saves what it can and looks elsewhere."""
    for lease in held:
        if healthy.get(lease.accelerator.index) is False:
            leases.begin_closing(
                lease, reason=Lease.Reason.DEVICE_FAILED, ending=Lease.Ending.SAVE, now=now, outbox=outbox
            )


def _renew(observed: Sequence[Observed], held: Mapping[str, Lease], now: datetime) -> None:
    """Extend what the host has just shown to be alive, from the moment of receipt."""
    shown = {seen.lease: seen for seen in observed}
    for lease in held.values():
        seen = shown.get(lease.public_id)
        if seen is None or seen.fence != lease.fence:
            continue
        lease.expires_at = now + timedelta(seconds=settings.LEASE_TTL_SECONDS)
        lease.last_heard_at = now
        lease.observed = seen.state
        lease.save(update_fields=["expires_at", "last_heard_at", "observed"])


def _activate(
    observed: Sequence[Observed],
    held: Mapping[str, Lease],
    locked: Mapping[int, Job],
    now: datetime,
    answer: Answer,
    outbox: Outbox,
) -> None:
    for seen in observed:
        lease = _matches(seen, held, answer)
        if lease is None or seen.state == "ended" or lease.state != Lease.State.PENDING:
            continue
        if leases.activate(lease, now=now, outbox=outbox):
            migrations.destination_confirmed(locked[lease.job_id], lease, now=now, outbox=outbox)


def _take_reports(
    sent: Sequence[reports.Report],
    known: Mapping[str, Lease],
    locked: Mapping[int, Job],
    now: datetime,
    answer: Answer,
    outbox: Outbox,
) -> None:
    """Each report in a savepoint of its own: a bad one is refused, and the ones behind it still count."""
    host = answer.host
    touched: set[tuple[str, str]] = set()
    for report in sorted(sent, key=lambda each: each.id):
        if report.id <= host.last_report:
            answer.results[str(report.id)] = reports.answer_again(report, known.get(report.lease))
            continue
        try:
            with outbox.savepoint():
                answer.results[str(report.id)] = reports.take(report, known, locked, now=now, outbox=outbox)
            if report.kind in TOUCHING:
                touched.add((locked[known[report.lease].job_id].public_id, TOUCHING[report.kind]))
        except Refused as refusal:
            answer.refused.append({"id": report.id, "code": refusal.code, "detail": refusal.detail})
        except (DataError, IntegrityError) as error:
            answer.refused.append({"id": report.id, "code": REPORT_FAILED, "detail": str(error).splitlines()[0]})
            locked[known[report.lease].job_id].refresh_from_db()
        host.last_report = report.id
    for job, what in sorted(touched):
        touch(f"job:{job}", what=what)
    answer.acknowledged = host.last_report
    host.save(update_fields=["last_report"])


def _end(
    observed: Sequence[Observed],
    known: Mapping[str, Lease],
    locked: Mapping[int, Job],
    now: datetime,
    answer: Answer,
    outbox: Outbox,
) -> None:
    for seen in observed:
        if seen.state != "ended":
            continue
        lease = _matches(seen, known, answer)
        if lease is not None and lease.state != Lease.State.CLOSED:
            lease.refresh_from_db()
            reason = Lease.Reason.NEVER_STARTED if lease.active_at is None else Lease.Reason.FAILED
            migrations.end_lease(locked[lease.job_id], lease, reason=reason, at=now, outbox=outbox)


def _ask_agents(held: Iterable[Lease], locked: Mapping[int, Job], now: datetime) -> None:
    """Have agents asked that nothing has had asked for a while."""
    for lease in held:
        if lease.observed == "running" and leases.is_primary(lease) and lease.state == Lease.State.ACTIVE:
            jobs.ask_if_due(locked[lease.job_id], now=now)


def report_refusal(host_id: int, refusal: Refused, outbox: Outbox) -> None:
    """Count and tell operators of a message that was refused whole."""
    host = Host.objects.select_for_update(no_key=True).get(pk=host_id)
    host.refusals += 1
    host.save(update_fields=["refusals"])
    announce.host(host, outbox, change="refused", code=refusal.code, detail=refusal.detail)
