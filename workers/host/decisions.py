"""What the daemon does next, as pure functions: (desired leases, observed leases, devices, time) -> commands.

Level-triggered: called with the same facts again it answers the same commands, and every command may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workers.host.deadlines import TERM_SECONDS
from workers.host.devices import Device
from workers.host.protocol import DesiredLease, Observed, ResumePoint

END_GRACE_SECONDS = 5.0  # between TERM and KILL for a lease that the control plane no longer lists


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """What this host knows of one of its leases."""

    lease: str
    fence: int
    index: int
    state: Observed
    connected: bool = True
    asked: int = 0
    resumed: bool = True
    told: Literal["run", "save", "stop"] = "run"
    checkpointing: bool = False  # asked for a checkpoint, after which it goes on
    reported: bool = False  # ended, and everything it said has been acknowledged


@dataclass(frozen=True, slots=True)
class Start:
    """Start a shim for this lease."""

    desired: DesiredLease


@dataclass(frozen=True, slots=True)
class Refuse:
    """Report this lease as ended without ever starting it."""

    desired: DesiredLease
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Renew:
    """Let the lease live until this instant (seconds since boot)."""

    lease: str
    until: float


@dataclass(frozen=True, slots=True)
class Save:
    """Ask for a checkpoint; TERM at `until`."""

    lease: str
    until: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Ask for a checkpoint after which the lease goes on, or take that back."""

    lease: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class Continue:
    """Take back a Save: the lease may stay."""

    lease: str


@dataclass(frozen=True, slots=True)
class Stop:
    """TERM now, KILL at `until`."""

    lease: str
    until: float
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Tell a waiting lease where it goes on."""

    lease: str
    point: ResumePoint


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the economic agent."""

    lease: str
    ask: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the last traces of an ended lease that the control plane has closed."""

    lease: str


Command = Start | Refuse | Renew | Save | Checkpoint | Continue | Stop | Resume | Ask | Forget


def decide(
    desired: Sequence[DesiredLease],
    observed: Iterable[ObservedLease],
    devices: Sequence[Device],
    *,
    sent_at: float,
    now: float,
    lease_ttl_seconds: float,
    stale: frozenset[str] = frozenset(),
) -> list[Command]:
    """Compare what is wanted with what is.

    `sent_at` is when the answered sync was sent, on the host's own clock: leases are renewed from there, so that they
    end here before the control plane, which counts from its receipt, lends the device again. `stale` names leases
    whose fence the control plane has refused.
    """
    views = {view.lease: view for view in observed}
    busy = {view.index for view in views.values() if view.state != "ended"}
    commands: list[Command] = []
    for wish in desired:
        view = views.get(wish.lease)
        if view is None:
            first = _first(wish, devices, busy)
            busy |= {wish.index} if isinstance(first, Start) else set()
            commands += [first] if first is not None else []
        elif view.state != "ended":
            outdated = view.fence != wish.fence or wish.lease in stale
            commands += _end(view, now, "its fence is stale") if outdated else _steer(wish, view, now)
            commands += [] if outdated else [Renew(wish.lease, _life(wish, sent_at, now, lease_ttl_seconds))]
    listed = {wish.lease for wish in desired}
    for view in views.values():
        if view.lease not in listed:
            commands += _unlisted(view, now)
    return commands


def _first(wish: DesiredLease, devices: Sequence[Device], busy: set[int]) -> Start | Refuse | None:
    """A lease that was never seen here: start it, refuse it, or wait until its device is free."""
    if wish.desired != "run":
        return Refuse(wish, "stopped", "the lease was told to leave before it was started here")
    device: Mapping[int, Device] = {device.index: device for device in devices}
    if wish.index not in device:
        return Refuse(wish, "failed", f"this host has no accelerator {wish.index}")
    if device[wish.index].accelerator_type != wish.accelerator_type:
        return Refuse(wish, "failed", f"accelerator {wish.index} is no {wish.accelerator_type}")
    return None if wish.index in busy or not device[wish.index].healthy else Start(wish)


def _steer(wish: DesiredLease, view: ObservedLease, now: float) -> list[Command]:
    if not view.connected:
        return []
    commands: list[Command] = []
    if wish.desired == "stop" and view.told != "stop":
        commands.append(Stop(wish.lease, now + wish.grace_seconds, "the control plane ended the lease"))
    elif wish.desired == "save" and view.told == "run":
        commands.append(Save(wish.lease, _last_moment(wish, now)))
    elif wish.desired == "run" and view.told == "save":
        commands.append(Continue(wish.lease))
    elif wish.desired == "run" and view.told == "run" and wish.checkpoint != view.checkpointing:
        commands.append(Checkpoint(wish.lease, wish.checkpoint))
    if wish.resume.state != "wait" and not view.resumed:
        commands.append(Resume(wish.lease, wish.resume))
    if wish.ask > view.asked and wish.desired != "stop" and view.state in ("running", "saving"):
        commands.append(Ask(wish.lease, wish.ask))
    return commands


def _last_moment(wish: DesiredLease, now: float) -> float:
    """When a lease that has not saved gets TERM: at the end of its grace, and before the hard deadline's KILL."""
    if wish.deadline_seconds is None:
        return now + wish.grace_seconds
    warning = min(TERM_SECONDS, wish.deadline_seconds / 2)
    return now + min(wish.grace_seconds, wish.deadline_seconds - warning)


def _life(wish: DesiredLease, sent_at: float, now: float, lease_ttl_seconds: float) -> float:
    until = sent_at + lease_ttl_seconds
    return until if wish.deadline_seconds is None else min(until, now + wish.deadline_seconds)


def _unlisted(view: ObservedLease, now: float) -> list[Command]:
    if view.state == "ended":
        return [Forget(view.lease)] if view.reported else []
    return _end(view, now, "the control plane no longer lists the lease")


def _end(view: ObservedLease, now: float, why: str) -> list[Command]:
    return [] if view.told == "stop" or not view.connected else [Stop(view.lease, now + END_GRACE_SECONDS, why)]
