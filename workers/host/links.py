"""The daemon's hold on one lease: talks to its shim, reads its journal, carries artifacts, checkpoints, questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from laissez.sdk.agents import Decision
from workers.host import control, eventlog, processes, shims
from workers.host.client import ControlPlane, Refused, Unreachable
from workers.host.decisions import ObservedLease
from workers.host.journal import Journal
from workers.host.orders import Order
from workers.host.protocol import Artifact, Observed, ResumePoint
from workers.host.shim import CONTROL, EVENTS
from workers.host.transfers import TransferFailed, fetch, sha256_of, upload

logger = logging.getLogger(__name__)
RETRY_SECONDS = 0.01
SILENT_TRIES = 3
SILENT_SECONDS = 2.0
ARTIFACT_BYTES = 64 << 20
HOST_LOST = {"kind": "exit", "reason": "host_lost", "exit_code": None, "signal": None}
NOT_COMMITTED = {"accepted": False, "then": "continue"}


class Hopeless(RuntimeError):
    """The lease cannot go on; the message becomes its exit report's detail."""


class Wake(Protocol):
    """Has the loop sync soon."""

    def __call__(self, *, urgent: bool) -> None:
        """At once, or after gathering for a moment."""


@dataclass(slots=True)
class Surroundings:
    """What every link shares; `store` is where checkpoints go, empty until the control plane has said so."""

    journal: Journal
    control_plane: ControlPlane
    artifacts: Path
    wake: Wake
    store: str = ""


class Link:
    """One lease on this host, from the start of its shim until it is forgotten."""

    def __init__(self, directory: Path, order: Order, around: Surroundings) -> None:
        self.directory, self.order, self._around = directory, order, around
        self.status: dict[str, Any] | None = None
        self.ended = False
        self.told_ended = False  # the control plane has heard it
        self.first_contact = asyncio.Event()
        self._line: control.Line | None = None
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, Any] | None = None
        self._asked = 0
        self._phase: Observed = "ready"
        self._main = asyncio.ensure_future(self._keep())

    # ---- what the loop sees

    def observed(self) -> ObservedLease:
        """The lease as the decisions see it."""
        status = self.status or {}
        told = status.get("told", "run")
        return ObservedLease(
            lease=self.order.lease,
            fence=self.order.fence,
            index=self.order.index,
            state="ended" if self.ended else self._phase,
            connected=self._line is not None and self.status is not None,
            asked=max(self._asked, int(status.get("asked", 0))),
            resumed=bool(status.get("resumed")) or "resume" in self._busy,
            told=told,
            checkpointing=bool(status.get("checkpointing")),
            reported=self.told_ended and not self._around.journal.has_pending(self.order.lease),
        )

    def report_progress(self) -> None:
        """Keep the newest progress as a report, if there is any since the last time."""
        latest = (self.status or {}).get("progress")
        if latest is not None and latest != self._progress:
            self._progress = latest
            self._around.journal.report(self.order.lease, self.order.fence, {"kind": "progress", **latest})

    def check(self) -> None:
        """Raise what has gone wrong in talking to the shim: the daemon then ends, and the next one adopts."""
        if self._main.done() and not self._main.cancelled():
            self._main.result()

    # ---- what the loop says

    def send(self, op: str, **fields: Any) -> None:
        """Tell the shim something; without a line it is dropped, and the loop will want it again."""
        if self._line is not None:
            self._line.send({"op": op, **fields})

    def resume(self, point: ResumePoint) -> None:
        """Bring the checkpoint here and hand it to the shim."""
        self._once("resume", self._resume(point))

    def ask(self, number: int) -> None:
        """Have the agent asked with a fresh context."""
        self._once(f"ask {number}", self._ask(number))

    def commit(self) -> None:
        """Carry on with the checkpoint that the workload waits for: upload it, or hand it the answer."""
        pending = (self.status or {}).get("pending")
        if pending is None:
            return
        sequence, journal = int(pending["sequence"]), self._around.journal
        answer = journal.checkpoint_result(self.order.lease, sequence)
        if answer is not None:
            self.send("commit", sequence=sequence, **answer)
        elif self._around.store and not journal.checkpoint_reported(self.order.lease, sequence):
            self._once(f"commit {sequence}", self._upload(self._around.store, pending))

    async def let_go(self) -> None:
        """Stop talking to the shim and leave it alone."""
        for task in (self._main, *self._busy.values()):
            task.cancel()
        await asyncio.gather(self._main, *self._busy.values(), return_exceptions=True)
        if self._line is not None:
            self._line.close()

    # ---- the shim

    async def _keep(self) -> None:
        """Talk to the shim until it is gone, then see to its remains."""
        silent = 0
        while shims.lives(self.directory):
            try:
                self._line = await control.connect(self.directory / CONTROL, self.order.secret)
            except control.Unproved as error:
                silent += 1
                logger.warning("lease %s: %s", self.order.lease, error)
                if silent >= SILENT_TRIES:
                    self._end_shim()
            except OSError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                silent = 0
                await self._listen(self._line)
                self._line = self.status = None
                await asyncio.sleep(RETRY_SECONDS)
        await self._see_to_remains()
        self.first_contact.set()
        self._around.wake(urgent=True)

    async def _listen(self, line: control.Line) -> None:
        """Take in what the shim says until the line ends; one that stays silent is no keeper any more."""
        silent = 0
        while silent < SILENT_TRIES:
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    message = await line.receive()
            except TimeoutError:
                silent += 1
                line.send({"op": "ping"})
                continue
            if message is None:
                return
            silent = 0
            self._hear(message)
        logger.warning("lease %s: its shim has fallen silent and is ended", self.order.lease)
        self._end_shim()

    def _end_shim(self) -> None:
        """Kill a shim that cannot be talked to, if it provably is the one; its programs die with it."""
        pid = shims.proved_pid(self.directory)
        if pid is not None:
            processes.kill(pid)

    def _hear(self, message: dict[str, Any]) -> None:
        before, self.status = self.status, message["status"]
        if message["status"]["phase"] != "ended":  # until its shim is gone the device is not free
            self._phase = message["status"]["phase"]
        urgent = self._take_in() or self._differs(before)
        if before is None and self.order.artifact is not None and self.status["phase"] == "ready":
            self._once("artifact", self._bring_artifact(Artifact(**self.order.artifact)))
        self.commit()
        self.first_contact.set()
        self._around.wake(urgent=urgent)

    def _differs(self, before: dict[str, Any] | None) -> bool:
        """Whether the control plane should hear of it at once. The end is told when the shim is gone, in one go."""
        assert self.status is not None
        if before is None:
            return True
        return self.status["phase"] != "ended" and any(before[n] != self.status[n] for n in ("phase", "resumed"))

    def _take_in(self) -> bool:
        """Read on in the shim's journal; whether the control plane should hear of it at once."""
        journal, order = self._around.journal, self.order
        known = journal.lease(order.lease)
        if known is None or known.ended:
            return False
        events, offset = eventlog.read(self.directory / EVENTS, known.offset)
        if not events:
            return False
        reports = [{name: value for name, value in event.items() if name != "n"} for event in events]
        journal.take_in(order.lease, order.fence, [body for body in reports if body["kind"] != "answer"], offset)
        for body in reports:
            if body["kind"] == "answer":
                self._once(f"answer {body['ask']}", self._hand_in(body))
        return any(body["kind"] == "first_step" for body in reports)

    async def _see_to_remains(self) -> None:
        clean = await asyncio.to_thread(shims.sweep, self.directory, self.order.mark)
        if not clean:
            logger.error("lease %s: a process does not die; its device stays occupied", self.order.lease)
        while not clean:
            clean = await asyncio.to_thread(shims.sweep, self.directory, self.order.mark)
        self._take_in()
        words = shims.last_words(self.directory)
        detail = f"the lease's shim died {words}".strip()
        self._around.journal.end(self.order.lease, self.order.fence, {**HOST_LOST, "detail": detail})
        self.ended = True

    # ---- what takes time

    def _once(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        """Run something beside the loop, unless it runs already."""
        if name in self._busy:
            part.close()
            return
        task = asyncio.ensure_future(self._guarded(name, part))
        self._busy[name] = task
        task.add_done_callback(lambda _: self._busy.pop(name, None))

    async def _guarded(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        try:
            await part
        except Hopeless as error:
            self.send("fail", detail=str(error))
        except (Refused, Unreachable, TransferFailed, OSError, ValueError) as error:
            logger.warning("lease %s: %s: %s", self.order.lease, name, error)

    async def _bring_artifact(self, artifact: Artifact) -> None:
        target = self._around.artifacts / f"{artifact.sha256}.tar"
        while not target.exists():
            try:
                await self._around.control_plane.download(artifact.url, target, most_bytes=ARTIFACT_BYTES)
            except Unreachable as error:
                logger.warning("lease %s: the artifact is out of reach: %s", self.order.lease, error)
                await asyncio.sleep(1.0)
            except Refused as error:
                raise Hopeless(f"the artifact cannot be fetched: {error}") from error
        if await asyncio.to_thread(sha256_of, target) != artifact.sha256:
            target.unlink(missing_ok=True)
            raise Hopeless("the artifact is not what its sha256 says")
        self.send("artifact", path=str(target))

    async def _resume(self, point: ResumePoint) -> None:
        if point.state != "ready":
            self.send("resume", state="none")
            return
        target = self.directory / "resume.tar"
        try:
            await asyncio.to_thread(fetch, point.uri, point.sha256, target)
        except TransferFailed as error:
            raise Hopeless(str(error)) from error
        self.send("resume", state="ready", archive=str(target), progress=point.progress, step=point.step)

    async def _upload(self, store: str, pending: dict[str, Any]) -> None:
        order, sequence = self.order, int(pending["sequence"])
        folder = self.directory / "tenant/checkpoints" / str(pending["name"])
        uri = f"{store.rstrip('/')}/{order.job}/{order.lease}-{sequence}.tar"
        began = processes.now()
        try:
            stored = await asyncio.to_thread(upload, folder, uri)
        except TransferFailed as error:
            logger.warning("lease %s: %s", order.lease, error)
            self.send("commit", sequence=sequence, **NOT_COMMITTED)
            return
        body = {
            "kind": "checkpoint",
            "sequence": sequence,
            "uri": stored.uri,
            "sha256": stored.sha256,
            "size_bytes": stored.size_bytes,
            "progress": pending["progress"],
            "step": pending["step"],
            "seconds": round(pending["seconds"] + processes.now() - began, 6),
            "requested": pending["requested"],
        }
        self._around.journal.report(order.lease, order.fence, body, checkpoint=sequence)
        self._around.wake(urgent=True)

    async def _ask(self, number: int) -> None:
        context = await self._around.control_plane.context(self.order.lease, self.order.fence)
        self._asked = max(self._asked, number)
        self.send("ask", ask=number, context=context)

    async def _hand_in(self, answer: dict[str, Any]) -> None:
        """Check what an agent answered; whatever is wrong with it means "stay" and is reported."""
        outcome, detail = str(answer["outcome"]), str(answer["detail"])
        if outcome == "ok":
            try:
                decision = Decision.from_json(answer["decision"]).to_json()
            except ValueError as error:
                outcome, detail = "invalid", str(error)
        if outcome != "ok":
            decision = Decision("stay", reason=f"the agent gave no decision ({outcome}): {detail}"[:300]).to_json()
            report = {"kind": "agent", "outcome": outcome, "detail": detail}
            self._around.journal.report(self.order.lease, self.order.fence, report)
            self._around.wake(urgent=True)
        body = {"fence": self.order.fence, "ask": answer["ask"], "decision": decision}
        await self._around.control_plane.decide(self.order.lease, body)
