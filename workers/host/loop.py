"""The daemon's loop: say what is, hear what should be, decide, obey; at every heartbeat, ring and event."""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.host import decisions, doorbell, processes, shims
from workers.host.client import ControlPlane, Refused, Unreachable
from workers.host.devices import Device
from workers.host.journal import Journal
from workers.host.links import Link, Surroundings
from workers.host.orders import Order
from workers.host.protocol import SyncAnswer
from workers.host.sandbox import current_tenant_uid

logger = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 2.0
GATHER_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.2
LAST_PAUSE_SECONDS = 2.0
ADOPTION_SECONDS = 3.0
LEAVE_SECONDS = 10.0


class KeyRefused(RuntimeError):
    """The control plane does not know this host's key."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the host's owner has decided; `bwrap` None runs tenants' code without a sandbox."""

    state_dir: Path
    devices: tuple[Device, ...]
    bwrap: Path | None
    speedup: float


class HostLoop:
    """One host's connection between its control plane and its leases."""

    def __init__(self, settings: Settings, control_plane: ControlPlane, journal: Journal) -> None:
        self._settings, self._control_plane, self._journal = settings, control_plane, journal
        self._folder = settings.state_dir / "leases"
        artifacts = settings.state_dir / "artifacts"
        for folder in (self._folder, artifacts):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._around = Surroundings(journal, control_plane, artifacts, self.wake)
        self._links: dict[str, Link] = {}
        self._children: list[Any] = []
        self._bell = asyncio.Event()
        self._gathering: asyncio.TimerHandle | None = None
        self._heartbeat = HEARTBEAT_SECONDS
        self._pause = 0.0
        self._stale: set[str] = set()
        self._leaving = False
        self._detaching = False

    def wake(self, urgent: bool) -> None:
        """Sync soon: at once, or after gathering for a moment."""
        if urgent:
            self._bell.set()
        elif self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._bell.set)

    def leave(self) -> None:
        """End all leases, say so, and return from `run`."""
        self._leaving = True
        self.wake(urgent=True)

    def detach(self) -> None:
        """Return from `run` and leave the leases running for the next daemon."""
        self._detaching = True
        self.wake(urgent=True)

    async def run(self) -> None:
        """Serve until told to leave or to detach; raises `KeyRefused` when the control plane knows no such host."""
        await self._adopt()
        ringing = asyncio.ensure_future(doorbell.listen(self._control_plane, lambda: self.wake(urgent=True)))
        try:
            while not self._leaving and not self._detaching:
                await self._turn()
                await self._rest()
            if self._leaving:
                await self._leave()
        finally:
            ringing.cancel()
            await asyncio.gather(ringing, *(link.let_go() for link in self._links.values()), return_exceptions=True)

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._heartbeat):
                await self._bell.wait()
        except TimeoutError:
            pass
        if self._pause and not self._leaving:
            await asyncio.sleep(self._pause)

    async def _adopt(self) -> None:
        """Take up every lease that an earlier daemon of this host knew: living ones by proof, dead ones as ended."""
        for known in self._journal.leases():
            directory = self._folder / known.lease
            try:
                order = Order.read(directory)
            except (OSError, ValueError):
                self._journal.end(known.lease, known.fence, _never_started())
                continue
            self._links[known.lease] = Link(directory, order, self._around)
        contacts = [asyncio.ensure_future(link.first_contact.wait()) for link in self._links.values()]
        if contacts:
            _, late = await asyncio.wait(contacts, timeout=ADOPTION_SECONDS)
            for waiting in late:
                waiting.cancel()

    async def _turn(self) -> None:
        """One sync and what follows from its answer."""
        self._bell.clear()
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for link in self._links.values():
            link.check()
            link.report_progress()
        body, sent_at = self._message(), processes.now()
        try:
            answer = SyncAnswer.of(await self._control_plane.sync(body))
        except Refused as error:
            self._refused(error)
        except (Unreachable, KeyError, TypeError, ValueError) as error:
            self._later(f"the control plane is out of reach: {error}")
        else:
            if self._pause:
                logger.info("the control plane is back")
            self._pause = 0.0
            self._settle(answer, body)
            self._obey(answer, sent_at)

    def _message(self) -> dict[str, Any]:
        views = [view for view in self._observed() if view.connected or view.state == "ended"]
        return {
            "sequence": self._journal.next_message(),
            "accelerators": [{"index": d.index, "healthy": d.healthy} for d in self._settings.devices],
            "leases": [{"lease": view.lease, "fence": view.fence, "state": view.state} for view in views],
            "reports": self._journal.pending(),
        }

    def _observed(self) -> list[decisions.ObservedLease]:
        """Every known lease; one that was ended without ever having a shim has no link."""
        views = [link.observed() for link in self._links.values()]
        for known in self._journal.leases():
            if known.lease not in self._links:
                reported = not self._journal.has_pending(known.lease)
                views.append(
                    decisions.ObservedLease(known.lease, known.fence, known.accelerator, "ended", reported=reported)
                )
        return views

    def _refused(self, error: Refused) -> None:
        if error.status == 401:
            raise KeyRefused(str(error))
        if error.code == "replayed_message":
            logger.warning("the control plane has heard a later message of this host; going on after it")
            self._journal.new_boot()
        self._later(f"the control plane refused the sync: {error}")

    def _later(self, why: str) -> None:
        if not self._pause:
            logger.warning(why)
        self._pause = min(LAST_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, 2 * self._pause))
        self._bell.set()

    def _settle(self, answer: SyncAnswer, body: dict[str, Any]) -> None:
        for entry in body["leases"]:
            if entry["state"] == "ended" and (link := self._links.get(entry["lease"])) is not None:
                link.told_ended = True
        leases = {report["id"]: report["lease"] for report in body["reports"]}
        for refusal in answer.refused:
            lease = refusal.lease or leases.get(refusal.id, "")
            logger.warning("the control plane refused what was said of %s: %s", lease or "a lease", refusal.detail)
            if refusal.code == "stale_fence":
                self._stale.add(lease)
        self._journal.settle(answer.acknowledged, answer.results, [refusal.id for refusal in answer.refused])
        if self._journal.pending(most=1):
            self.wake(urgent=True)
        for problem in answer.unreadable:
            logger.error(problem)

    def _obey(self, answer: SyncAnswer, sent_at: float) -> None:
        self._heartbeat = answer.heartbeat_seconds
        now = processes.now()
        commands = decisions.decide(
            [] if self._leaving else answer.leases,
            self._observed(),
            self._settings.devices,
            sent_at=sent_at,
            now=now,
            lease_ttl_seconds=answer.lease_ttl_seconds,
            stale=frozenset(self._stale),
        )
        for command in commands:
            self._apply(command, now + answer.lease_ttl_seconds)
        self._around.store = answer.checkpoint_store
        for link in self._links.values():
            link.commit()

    def _apply(self, command: decisions.Command, first_until: float) -> None:
        match command:
            case decisions.Start(desired):
                self._start(desired, first_until)
            case decisions.Refuse(desired, reason, detail):
                report = {"kind": "exit", "reason": reason, "exit_code": None, "signal": None, "detail": detail}
                self._journal.know(desired.lease, desired.fence, desired.index)
                self._journal.end(desired.lease, desired.fence, report)
                self.wake(urgent=True)
            case decisions.Renew(lease, until):
                self._links[lease].send("renew", until=until)
            case decisions.Save(lease, until):
                self._links[lease].send("save", until=until)
            case decisions.Checkpoint(lease, wanted):
                self._links[lease].send("checkpoint", wanted=wanted)
            case decisions.Continue(lease):
                self._links[lease].send("continue")
            case decisions.Stop(lease, until, why):
                logger.info("lease %s: %s", lease, why)
                self._links[lease].send("stop", until=until)
            case decisions.Resume(lease, point):
                self._links[lease].resume(point)
            case decisions.Ask(lease, number):
                self._links[lease].ask(number)
            case decisions.Forget(lease):
                self._forget(lease)

    def _start(self, desired: Any, until: float) -> None:
        device = next(device for device in self._settings.devices if device.index == desired.index)
        order = Order.of(
            desired,
            device,
            speedup=self._settings.speedup,
            bwrap=self._settings.bwrap,
            uid=current_tenant_uid(device.index) if self._settings.bwrap is not None else None,
            until=until,
        )
        self._journal.know(desired.lease, desired.fence, desired.index)
        directory = self._folder / desired.lease
        try:
            self._children.append(shims.start(directory, order))
        except OSError as error:
            report = {**_never_started(), "detail": f"the host could not start the lease: {error}"}
            self._journal.end(desired.lease, desired.fence, report)
            self.wake(urgent=True)
            return
        self._links[desired.lease] = Link(directory, order, self._around)

    def _forget(self, lease: str) -> None:
        self._links.pop(lease, None)
        shutil.rmtree(self._folder / lease, ignore_errors=True)
        self._journal.forget(lease)
        self._stale.discard(lease)
        self._children = [child for child in self._children if child.poll() is None]

    async def _leave(self) -> None:
        """Stop every lease, wait for their ends and report them."""
        for link in self._links.values():
            link.send("stop", until=processes.now() + decisions.END_GRACE_SECONDS)
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                while not all(link.ended for link in self._links.values()):
                    self._bell.clear()
                    await self._bell.wait()
                await self._turn()
        except (TimeoutError, KeyRefused):
            logger.warning("not every lease has ended; their shims end them at their deadlines")


def _never_started() -> dict[str, Any]:
    return {
        "kind": "exit",
        "reason": "host_lost",
        "exit_code": None,
        "signal": None,
        "detail": "the host stopped before it had started the lease",
    }
