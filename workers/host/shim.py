"""The process that keeps one lease: it outlives the daemon, and ends the lease's programs at its own deadline.

It needs nobody for that: the life granted last is on its own clock, its journal is a file, and the kernel kills the
programs when it dies. `python -m workers.host.shim DIRECTORY`, started by the daemon with the lease's lock inherited.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from workers.host import control, processes
from workers.host.deadlines import Deadlines
from workers.host.eventlog import EventLog, OutputLog
from workers.host.executors import CannotRun, Executor, Exit, Running
from workers.host.executors.process import ProcessExecutor
from workers.host.orders import Order
from workers.host.outcomes import Outcome, of_data_load, of_workload
from workers.host.pipes import wait_for
from workers.host.programs import Programs
from workers.host.protocol import BadMessage, Callback
from workers.host.sandbox import Sandbox, SandboxUnavailable, make_user_namespace
from workers.host.sidecar import Sidecar
from workers.host.tenure import Tenure
from workers.host.watch import Watch
from workers.host.workload import WorkloadSocket

CONTROL = "control.sock"
IDENTITY = "shim.json"
EVENTS = "events.jsonl"
TENANT = "tenant"
STATUS_SECONDS = 0.5


class Shim:
    """One lease's life: unpack, load data, run, save, end."""

    def __init__(self, order: Order, directory: Path, executor: Executor) -> None:
        loop = asyncio.get_running_loop()
        self.order, self.directory, self.executor = order, directory, executor
        self.spec = order.job_spec()
        self.events = EventLog(directory / EVENTS)
        log = OutputLog(self.events, self.spec.limits.output_bytes)
        self.programs = Programs(order, executor, log, self.notify)
        checkpoints = directory / TENANT / "checkpoints"
        self.tenure = Tenure(self.events, checkpoints, Deadlines(order.until), order.pacer(), self.notify)
        self.socket = WorkloadSocket(directory / TENANT / "run/socket", self.tenure)
        self.watch = Watch(self.tenure, self.spec.limits, directory / TENANT, executor)
        self.running: Running | None = None
        self.sidecar: Sidecar | None = None
        self.artifact: asyncio.Future[Path | None] = loop.create_future()
        self.resume_order: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.failed: asyncio.Future[Outcome] = loop.create_future()
        self._daemon: control.Line | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._status_due: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Live the lease to its end and leave its exit report in the journal."""
        outcome = await self._outcome()
        for task in self._beside:
            task.cancel()
        with contextlib.suppress(OSError):
            self.executor.clean()
        await self.programs.drain()
        self.events.append(outcome.report())
        self.tenure.enter("ended")
        self.notify(urgent=True)

    async def _outcome(self) -> Outcome:
        if self.order.artifact is None:
            self.artifact.set_result(None)
        if self.order.resume_state == "none":
            self.resume_order.set_result({"state": "none"})
        work = asyncio.ensure_future(self._guarded(self._work()))
        watch = asyncio.ensure_future(self._guarded(self.watch.until_over()))
        done, rest = await asyncio.wait({work, watch, self.failed}, return_when=asyncio.FIRST_COMPLETED)
        first = next(task for task in (work, self.failed, watch) if task in done)
        for task in rest:
            task.cancel()
        return first.result()

    async def _guarded(self, part: Coroutine[Any, Any, Outcome]) -> Outcome:
        try:
            return await part
        except (CannotRun, SandboxUnavailable) as error:
            return Outcome("sandbox_failed", str(error))
        except (OSError, ValueError) as error:
            return Outcome("failed", f"the host could not run the lease: {error}")

    # ---- the lease's programs

    async def _work(self) -> Outcome:
        """From the artifact to the workload's end."""
        self.executor.prepare()
        await self.socket.open()
        refused = await self.programs.unpack(await self.artifact, self.executor.places.job)
        if refused is not None:
            return Outcome("failed", f"the artifact was refused: {refused}")
        if self.spec.data_load is not None and (failed := await self._load_data(self.spec.data_load)) is not None:
            return failed
        early = self.order.resume_state == "wait" and self.spec.standby
        if early:
            self._beside_work(self._go_on())
        else:
            await self._go_on()
        ended = await self._run_workload()
        return of_workload(ended, saved=self.tenure.saved, terminated=self.watch.terminated)

    async def _run_workload(self) -> Exit:
        self.running = self.programs.start_workload()
        self.watch.running = self.running
        self.tenure.begin_pace()
        self.tenure.enter("running" if self.tenure.resumed.done() else "standby")
        self.sidecar = self.programs.agent()
        if self.sidecar is not None:
            self._beside_work(self.sidecar.start())
        ended = await wait_for(self.executor, self.running)
        await self.programs.drain()
        return ended

    async def _go_on(self) -> None:
        """Bring the checkpoint in, run the restore callback, wake the workload."""
        order = await asyncio.shield(self.resume_order)
        if order["state"] == "none":
            self.tenure.go_on_from(None, 0.0)
        else:
            refused = await self.programs.unpack(Path(order["archive"]), self.executor.places.resume)
            if refused is not None:
                self.fail(f"the checkpoint cannot be restored: {refused}")
                return
            if self.spec.restore is not None:
                ended, tail = await self.programs.call("restore", self.spec.restore)
                if ended is None or not ended.clean:
                    self.fail(f"the restore callback failed: {tail}")
                    return
            self.tenure.go_on_from(str(self.executor.places.resume), float(order["progress"]))
        if self.running is not None:
            self.tenure.enter("running")

    async def _load_data(self, callback: Callback) -> Outcome | None:
        ended, tail = await self.programs.call("data_load", callback)
        if ended is not None and ended.clean:
            return None
        return of_data_load(ended, callback.timeout_seconds, tail)

    def fail(self, detail: str) -> None:
        """End the lease for this reason."""
        if not self.failed.done():
            self.failed.set_result(Outcome("failed", detail))

    def _beside_work(self, part: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await part
            except (CannotRun, OSError, ValueError) as error:
                self.fail(str(error))

        task = asyncio.ensure_future(guarded())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # ---- the daemon

    async def serve_daemon(self, line: control.Line) -> None:
        """Obey one daemon; a newer one replaces it."""
        if not await control.admit(line, self.order.secret):
            return
        if self._daemon is not None:
            self._daemon.close()
        self._daemon = line
        self.notify(urgent=True)
        async for message in line.messages():
            try:
                self.obey(message)
            except (KeyError, TypeError, ValueError) as error:
                print(f"shim: a message of the daemon cannot be obeyed: {error!r}", file=sys.stderr, flush=True)
        if self._daemon is line:
            self._daemon = None

    def obey(self, message: dict[str, Any]) -> None:
        """Do what the daemon says; every message may come again."""
        tenure, now = self.tenure, processes.now()
        match message["op"]:
            case "renew":
                tenure.deadlines = tenure.deadlines.renewed(float(message["until"]))
            case "artifact" if not self.artifact.done():
                self.artifact.set_result(Path(message["path"]))
            case "resume" if not self.resume_order.done():
                self.resume_order.set_result(message)
            case "fail":
                self.fail(str(message["detail"]))
            case "save" if tenure.deadlines.told == "run":
                tenure.deadlines = tenure.deadlines.saving(float(message["until"]))
                self._save()
            case "checkpoint" if tenure.deadlines.told == "run":
                self._checkpoint(wanted=bool(message["wanted"]))
            case "continue":
                tenure.deadlines = tenure.deadlines.staying()
                self.socket.say_save()
                tenure.enter("running" if tenure.phase == "saving" else tenure.phase)
            case "stop":
                tenure.deadlines = tenure.deadlines.stopping(now, float(message["until"]))
            case "ask" if int(message["ask"]) > tenure.asked:
                tenure.asked = int(message["ask"])
                self._beside_work(self._ask(tenure.asked, message["context"]))
            case "commit":
                tenure.committed(int(message["sequence"]), message)
        self.watch.changed.set()
        self.notify(urgent=False)

    def _checkpoint(self, *, wanted: bool) -> None:
        """Ask the workload for a checkpoint after which it goes on, or take that back."""
        begins = wanted and not self.tenure.checkpointing
        self.tenure.checkpointing = wanted
        self.socket.say_save()
        if begins and self.spec.save is not None and self.tenure.phase == "running":
            self._beside_work(self._save_by_callback(self.spec.save))

    def _save(self) -> None:
        self.socket.say_save()
        if self.tenure.phase == "running":
            self.tenure.enter("saving")
            if self.spec.save is not None:
                self._beside_work(self._save_by_callback(self.spec.save))

    async def _save_by_callback(self, callback: Callback) -> None:
        """Run the tenant's own save command on a fresh directory and commit what it left there."""
        name = f"saved-{self.events.count:06d}"
        folder = self.tenure.checkpoints / name
        folder.mkdir()
        if self.order.uid is not None:
            os.chown(folder, self.order.uid, self.order.uid)
        inside = {"LAISSEZ_CHECKPOINT_DIR": str(self.executor.places.checkpoints / name)}
        ended, _ = await self.programs.call("save", callback, inside)
        if ended is None or not ended.clean:
            self.programs.note("the save callback failed; its directory is not a checkpoint")
            return
        fraction, step = self.tenure.reached()
        await self.tenure.checkpoint(name, fraction, step, 0.0)
        if self.tenure.saved:
            self.watch.terminate_now()

    async def _ask(self, number: int, context: dict[str, Any]) -> None:
        if self.sidecar is None:
            return
        answer = await self.sidecar.ask(number, context)
        self.events.append(
            {
                "kind": "answer",
                "ask": answer.ask,
                "outcome": answer.outcome,
                "detail": answer.detail,
                "decision": answer.decision,
            }
        )
        self.notify(urgent=True)

    def notify(self, urgent: bool) -> None:
        """Send the daemon the present status: at once, or gathered for a moment."""
        if urgent:
            self._send_status()
        elif self._status_due is None:
            self._status_due = asyncio.get_running_loop().call_later(STATUS_SECONDS, self._send_status)

    def _send_status(self) -> None:
        if self._status_due is not None:
            self._status_due.cancel()
            self._status_due = None
        if self._daemon is not None:
            self._daemon.send({"status": self.tenure.status()})


def make_executor(order: Order, directory: Path) -> ProcessExecutor:
    """The executor that an order names."""
    limits = order.job_spec().limits
    sandbox = None
    if order.bwrap is not None:
        namespace = make_user_namespace(order.uid) if order.uid is not None else None
        sandbox = Sandbox(Path(order.bwrap), namespace, limits)
    return ProcessExecutor(directory / TENANT, limits, sandbox, order.uid, order.mark)


def identify(directory: Path) -> None:
    """Write down which process this is, so that a later daemon can tell it from one that got its number."""
    identity = {"pid": os.getpid(), "ticks": processes.start_ticks(os.getpid())}
    temporary = directory / f".{IDENTITY}"
    temporary.write_text(json.dumps(identity))
    temporary.rename(directory / IDENTITY)


async def live(directory: Path) -> None:
    """Keep the lease of this directory until its end."""
    order = Order.read(directory)
    try:
        shim = Shim(order, directory, make_executor(order, directory))
    except BadMessage as error:
        EventLog(directory / EVENTS).append(Outcome("failed", str(error)).report())
        return
    except SandboxUnavailable as error:
        EventLog(directory / EVENTS).append(Outcome("sandbox_failed", str(error)).report())
        return
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, shim.fail, "the host ended the lease's shim")
    async with await control.serve(directory / CONTROL, shim.serve_daemon):
        await shim.run()


def main(arguments: list[str]) -> int:
    """Keep the lease whose directory is the only argument."""
    directory = Path(arguments[0])
    os.umask(0o077)
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    identify(directory)
    asyncio.run(live(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
