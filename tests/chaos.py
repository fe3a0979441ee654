"""Chaos: plays the demo while processes of it are killed at seeded random instants, then looks for damage.

    python -m tests.chaos [--seed 7] [--kills 20]

Kills (-9) hit web, Celery's parents and children, the tick process, beat, host daemons, shims and workloads, all of
them started by this run. The story must still end well, every invariant hold, no device be held twice and no second
be billed twice. The seed, every kill and every fault found are printed; the exit code is 1 when there is a fault.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from laissez.stack import guard, record, servers

PROJECT = Path(__file__).resolve().parents[1]
KILL_WINDOW_SECONDS = 85.0
"""From the first workload's start; the undisturbed story takes about 100 seconds from there."""
START_SECONDS = 120.0
STORY_SECONDS = 400.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1
HOLDS = {
    "a device is held twice": """
        SELECT a.public_id, b.public_id FROM workers_lease a JOIN workers_lease b
        ON a.accelerator_id = b.accelerator_id AND a.id < b.id AND a.during && b.during""",
    "a second of a lease is billed twice": """
        SELECT a.lease_id, a.during, b.during FROM markets_billingslice a JOIN markets_billingslice b
        ON a.lease_id = b.lease_id AND a.id < b.id AND a.during && b.during""",
    "a second of a device is billed twice": """
        SELECT la.public_id, lb.public_id, a.during, b.during FROM markets_billingslice a
        JOIN workers_lease la ON la.id = a.lease_id
        JOIN workers_lease lb ON lb.accelerator_id = la.accelerator_id
        JOIN markets_billingslice b ON b.lease_id = lb.id AND a.id < b.id AND a.during && b.during""",
    "a lease's time is not billed exactly once": """
        SELECT l.public_id, l.billed_during, coalesce(sum(upper(s.during) - lower(s.during)), '0') AS billed
        FROM workers_lease l LEFT JOIN markets_billingslice s ON s.lease_id = l.id
        WHERE l.state = 'closed' AND NOT isempty(coalesce(l.billed_during, 'empty')) GROUP BY l.id
        HAVING coalesce(sum(upper(s.during) - lower(s.during)), '0')
            <> upper(l.billed_during) - lower(l.billed_during)""",
    "a lease was left open": "SELECT public_id, state FROM workers_lease WHERE state <> 'closed'",
}
"""Queries that must find nothing once all is over."""


@dataclass(frozen=True, slots=True)
class Process:
    """One live process of the run."""

    pid: int
    parent: int
    command: str


@dataclass(slots=True)
class Run:
    """The demo under test, in a state folder of its own."""

    state: Path
    demo: "subprocess.Popen[str]"
    marker: str = ""

    def processes(self) -> list[Process]:
        """Everything that descends from the demo, however it was re-parented."""
        found = (_look(pid) for pid in sorted(guard.marked(self.marker))) if self.marker else ()
        return [process for process in found if process is not None]

    def targets(self) -> dict[str, list[int]]:
        """Process ids that may be killed, by the kind of process."""
        named = {name: pid for name, pid in ((record.read(self.state) or {}).get("processes") or {}).items() if pid}
        live = self.processes()
        children = {name: [p.pid for p in live if p.parent == pid] for name, pid in named.items()}
        kinds = {
            "web": [named.get("web")],
            "celery parent": [named.get("celery")],
            "celery child": children.get("celery", []),
            "tick parent": [named.get("celery-ticks")],
            "tick child": children.get("celery-ticks", []),
            "beat": [named.get("beat")],
            "host": [pid for name, pid in named.items() if name.startswith("demo-")],
            "shim": [p.pid for p in live if "workers.host.shim" in p.command or "host/shim.py" in p.command],
            "workload": [p.pid for p in live if p.command.endswith("train.py") and "bwrap" not in p.command],
        }
        return {kind: [pid for pid in pids if pid] for kind, pids in kinds.items() if any(pids)}


def main() -> int:
    """Plays, kills, looks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that a time limit from outside leaves nothing behind
    say(f"seed {options.seed}, {options.kills} kills; the same again: python -m tests.chaos --seed {options.seed}")
    state = Path(tempfile.mkdtemp(prefix="laissez-chaos-"))
    faults = list(trial(state, random.Random(options.seed), options.kills))
    for fault in faults:
        say(f"FAULT: {fault}")
    if faults:
        say(f"seed {options.seed} failed; what is left to look at is in {state}")
        return 1
    shutil.rmtree(state)
    say(f"seed {options.seed} passed: the story ended and nothing is held or billed twice.")
    return 0


def trial(state: Path, chance: random.Random, kills: int) -> Iterator[str]:
    """One run in a state folder; yields every fault in words."""
    with (state / "told.log").open("w") as told:
        command = [
            sys.executable,
            "manage.py",
            "demo",
            "--exit",
            "--json",
            "--port",
            "0",
            "--deadline",
            f"{STORY_SECONDS}",
        ]
        environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
        environment["LAISSEZ_STATE_DIR"] = str(state)
        demo = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            start_new_session=True,
        )
    run = Run(state, demo)
    try:
        done = disturb(run, chance, kills)
        if done < kills:
            yield f"only {done} of {kills} kills were made before the story ended"
        output = demo.communicate(timeout=STORY_SECONDS)[0]
    except subprocess.TimeoutExpired:
        yield f"the story did not end within {STORY_SECONDS:.0f} seconds"
        return
    finally:
        stop(run)
    yield from story_faults(state, demo.returncode, output)
    yield from leftovers(run)
    yield from damage(state)


def disturb(run: Run, chance: random.Random, kills: int) -> int:
    """Kills at instants drawn beforehand; returns how many were made."""
    instants = sorted(chance.uniform(0, KILL_WINDOW_SECONDS) for _ in range(kills))
    if not wait_until(run, lambda: found_marker(run) and bool(run.targets().get("workload")), START_SECONDS):
        return 0
    began = time.monotonic()
    made = 0
    for instant in instants:
        if not wait_until(run, lambda due=began + instant: time.monotonic() >= due, KILL_WINDOW_SECONDS):
            break
        targets = run.targets()
        kind = chance.choice(sorted(targets))
        pid = chance.choice(targets[kind])
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            say(f"{instant:5.1f} s: {kind} {pid} had just ended")
            continue
        made += 1
        say(f"{instant:5.1f} s: killed {kind} {pid}")
    return made


def found_marker(run: Run) -> bool:
    """Whether the run can be told from every other process of this machine; the web process knows its mark."""
    if not run.marker and (pid := ((record.read(run.state) or {}).get("processes") or {}).get("web")):
        variables = _read(Path(f"/proc/{pid}/environ")).split("\0")
        run.marker = next((v.split("=", 1)[1] for v in variables if v.startswith("LAISSEZ_SUPERVISOR=")), "")
    return bool(run.marker)


def wait_until(run: Run, condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition came to hold while the demo runs."""
    deadline = time.monotonic() + seconds
    while run.demo.poll() is None and time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(POLL_SECONDS)
    return False


def stop(run: Run) -> None:
    """Ends the demo, as Ctrl-C would and then less kindly."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if run.demo.poll() is None:
            run.demo.send_signal(number)
            wait_until(run, lambda: False, STOP_SECONDS)


def story_faults(state: Path, exit_code: int, output: str) -> Iterator[str]:
    """What the demo itself says about its end."""
    try:
        ended: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        yield f"the demo said nothing and ended with exit code {exit_code}: {_read(state / 'told.log').strip()[-800:]}"
        return
    yield from (f"{app} ended as {found}" for app, found in ended["states"].items() if found != "succeeded")
    yield from ended["invariants"]
    if exit_code != 0:
        yield f"the demo ended with exit code {exit_code}"
    say(", ".join(f"{name} {ended[name]}" for name in ("states", "bills", "finish_minute", "bit_exact")))


def leftovers(run: Run) -> Iterator[str]:
    """Processes that outlived the stack."""
    yield from (f"process {left.pid} was left behind: {left.command[:120]}" for left in run.processes())


def damage(state: Path) -> Iterator[str]:
    """What the database holds that it must not, read after a fresh start of PostgreSQL."""
    with servers.running(state, purpose="tests.chaos") as addresses:
        environment = os.environ | addresses | {"LAISSEZ_STATE_DIR": str(state)}
        check = [sys.executable, "manage.py", "check_invariants"]
        checked = subprocess.run(check, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
        yield from (f"invariant: {line}" for line in checked.stdout.splitlines() if line.strip())
        if checked.returncode != 0:
            yield f"check_invariants ended with {checked.returncode}: {checked.stderr.strip()[-400:]}"
        with psycopg.connect(addresses["DATABASE_URL"]) as connection:
            for fault, query in HOLDS.items():
                yield from (f"{fault}: {row}" for row in connection.execute(query).fetchall())


def say(text: str) -> None:
    """To whoever watches, at once."""
    print(f"chaos: {text}", flush=True)


def _look(pid: int) -> Process | None:
    """The process as it is now; None when it has ended."""
    stat = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    command = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()
    return Process(pid, int(stat[1]), command) if stat and stat[0] != "Z" else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
