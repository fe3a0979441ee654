"""A run: a seeded cluster, ticks every second, hosts and tenants that act, detectors at intervals, and what came of it.

Time is the database's own, so that a minute of the market lasts a minute.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from laissez import clock
from markets.scale import lived, ticking
from markets.scale.acting import Actors, Rates
from markets.scale.hosts import Hosts
from markets.scale.seeding import Shape, seed
from tenants.models import Tenant
from workers.models import Cluster
from workers.services import reconciling

TURN_SECONDS = 1.0
RECONCILE_SECONDS = 5.0
SAMPLE_SECONDS = 5.0
END_SECONDS = 120
TICKING = "import django, sys; django.setup(); from markets.scale.ticking import main; main(sys.argv[1:])"
"""The ticks in a process of their own and the meters in another, as Celery runs them."""

Look = Callable[[], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run is asked for."""

    nodes: int
    jobs: int
    minutes: float
    seed: int
    types: int = 20
    rows_per_job: int = 5
    occupied_share: float = 0.98
    changes_percent_per_minute: float = 1.0
    turnover_percent_per_minute: float = 0.5
    price_changes_per_minute: float = 0.5
    failures_per_minute: float = 1.0
    drains_per_minute: float = 0.5
    check_seconds: float = 60.0

    def shape(self) -> Shape:
        """The market at its beginning."""
        running = min(self.jobs, int(self.nodes * self.occupied_share))
        tenants = max(2, min(200, self.jobs // 50))
        return Shape(
            hosts=self.nodes,
            jobs=self.jobs,
            running=running,
            types=min(self.types, self.nodes),
            rows_per_job=min(self.rows_per_job, self.types, self.nodes),
            tenants=tenants,
        )

    def rates(self) -> Rates:
        """What happens in a minute."""
        turnover = self.nodes * self.turnover_percent_per_minute / 100
        return Rates(
            changes=self.jobs * self.shape().rows_per_job * self.changes_percent_per_minute / 100,
            arrivals=turnover,
            completions=turnover,
            price_changes=self.price_changes_per_minute,
            failures=self.failures_per_minute,
            drains=self.drains_per_minute,
        )


Turns = dict[str, list[dict[str, Any]]]
"""What there was of each kind in `ticking.WHAT`, as JSON."""


class Ticks(Protocol):
    """Who ticks and meters."""

    def turn(self) -> None:
        """Called once a turn."""

    def end(self) -> Turns:
        """Stop; every tick and every meter of the run."""


class Inline:
    """Ticks and meters between the turns, in this very process: for small runs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns: Turns = {what: [] for what in ticking.WHAT}

    def turn(self) -> None:
        """Tick once, and meter once."""
        for what, act in ticking.WHAT.items():
            self._turns[what].append(asdict(act(self._cluster.pk)))

    def end(self) -> Turns:
        """What there was."""
        return self._turns


class Beside:
    """Ticks and meters every second in a process each beside this one, whose lines are kept in files of a folder."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._paths = {what: folder / f"{what}.jsonl" for what in ticking.WHAT}
        self._processes = {what: _ticking(what, cluster, path) for what, path in self._paths.items()}

    def turn(self) -> None:
        """See that they live."""
        for what, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"the {what} ended with status {process.returncode}")

    def end(self) -> Turns:
        """Let the last ones end."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return {
            what: [json.loads(line) for line in path.read_text().splitlines()] for what, path in self._paths.items()
        }


def _ticking(what: str, cluster: Cluster, path: Path) -> "subprocess.Popen[bytes]":
    with path.open("wb") as output:
        command = [sys.executable, "-c", TICKING, what, str(cluster.pk)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output)


@dataclass(slots=True)
class Drive:
    """A run while it lasts."""

    settings: Settings
    cluster: Cluster
    actors: Actors
    ticks: Ticks
    look: Look
    say: Callable[[str], None]
    samples: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    late_turns: int = 0

    def run(self, *, least_seconds: float) -> None:
        """Turn until the time is over or a detector finds something.

        Args:
            least_seconds: of one turn; what it does not need is slept away.
        """
        began = former = time.monotonic()
        due = dict.fromkeys((self._reconcile, self._sample, self._check), began)
        every = {
            self._reconcile: RECONCILE_SECONDS,
            self._sample: SAMPLE_SECONDS,
            self._check: self.settings.check_seconds,
        }
        while (elapsed := time.monotonic() - began) < self.settings.minutes * 60 and not self.violations():
            turn, former = time.monotonic() - former, time.monotonic()
            completions = self.settings.rates().completions * turn / 60
            count = int(self.actors.generator.poisson(completions))
            self.actors.hosts.turn(completions=count, seconds=TURN_SECONDS)
            self.actors.act(seconds=turn, elapsed=elapsed)
            self.ticks.turn()
            for act, at in due.items():
                if time.monotonic() >= at:
                    act()
                    due[act] = time.monotonic() + every[act]
            rest = least_seconds - (time.monotonic() - former)
            self.late_turns += rest < 0
            time.sleep(max(0.0, rest))

    def violations(self) -> list[str]:
        """What the detectors have found."""
        return [sentence for check in self.checks for sentence in check["violations"]]

    def check(self) -> None:
        """Look once more, when nothing moves any longer."""
        self._check()

    def _reconcile(self) -> None:
        reconciling.reconcile()

    def _sample(self) -> None:
        self.samples.append(lived.sample(self.cluster))

    def _check(self) -> None:
        at, started = clock.now().timestamp(), time.perf_counter()
        found = self.look()
        seconds = time.perf_counter() - started
        self.checks.append({"at": at, "seconds": seconds, "violations": found})
        self.say(f"{len(self.checks)}. check of the invariants: {len(found)} violations, {seconds:.1f} s")


def drive(
    settings: Settings,
    *,
    look: Look,
    say: Callable[[str], None],
    ticks_of: Callable[[Cluster], Ticks],
    turn_seconds: float = TURN_SECONDS,
) -> dict[str, Any]:
    """Seed a market and let it live.

    Args:
        look: finds violations of the invariants.
        say: is told in sentences how it goes.
        ticks_of: who ticks and meters the cluster.

    Returns:
        What a report shows, as JSON.
    """
    generator = np.random.default_rng(settings.seed)
    started = time.perf_counter()
    cluster = seed(settings.shape(), generator=generator)
    seeding_seconds = time.perf_counter() - started
    say(f"{settings.nodes:,} hosts and {settings.jobs:,} jobs seeded in {seeding_seconds:.1f} s")
    began = clock.now()
    hosts = Hosts(cluster, generator)
    tenants = list(Tenant.objects.order_by("id"))
    actors = Actors(cluster, hosts, settings.rates(), generator, settings.shape().rows_per_job, tenants)
    run = Drive(settings, cluster, actors, ticks_of(cluster), look, say)
    try:
        run.run(least_seconds=turn_seconds)
    finally:
        turns = run.ticks.end()
    if not run.violations():
        run.check()
    return {
        "settings": asdict(settings),
        "seeding_seconds": seeding_seconds,
        "began": began.timestamp(),
        "ended": clock.now().timestamp(),
        **turns,
        "samples": run.samples,
        "checks": run.checks,
        "violations": run.violations(),
        "late_turns": run.late_turns,
        "acts": actors.done | {"host messages": hosts.messages, "refused host messages": hosts.refused},
        **lived.figures(cluster, began),
    }


def main(arguments: Sequence[str], look: Look) -> None:
    """Run in a process of its own: settings as JSON, a folder; each line of output is a JSON object."""

    def tell(what: str, value: Any) -> None:
        sys.stdout.write(json.dumps({what: value}) + "\n")
        sys.stdout.flush()

    settings, folder = Settings(**json.loads(arguments[0])), Path(arguments[1])
    say = partial(tell, "say")
    tell("result", drive(settings, look=look, say=say, ticks_of=lambda cluster: Beside(cluster, folder)))
