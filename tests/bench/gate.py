"""`make bench-gate`: ratios of times of one run, against limits that ten recorded runs have set.

    python -m tests.bench.gate              three rounds; status 1 when a ratio's median is beyond its limit
    python -m tests.bench.gate --record     ten rounds, whose ratios set the limits

A ratio (unit "x") compares two times of the same process, so that it moves little between machines. It is not judged
while the machine is at work for others: before each round its cores are watched for a few seconds, and when they stay
busier than a quarter for a minute the gate ends with status 2 and says so. Never part of `make test`.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from laissez.stack import machine
from tests.bench.figures import Figure, Run
from tests.bench.measuring import Outcome, measure
from tests.bench.modules import MODULES
from tests.bench.report import Line, document, failures_of, lines_of, number

GATED = ("clearing", "planning")
"""Short, without servers, and with ratios that vary little from run to run."""
SHARE = 0.1
SEED = 7
ROUNDS, RECORDED_ROUNDS = 3, 10
DEVIATIONS = 4
MARGIN = 1.15
BUSY_SHARE = 0.25
WATCH_SECONDS, PATIENCE_SECONDS = 3.0, 60.0
RECORDED = Path(__file__).with_name("recorded")
LIMITS = RECORDED / "limits.json"
TOO_BUSY = 2


@dataclass(frozen=True, slots=True)
class Limit:
    """Beyond which median a ratio fails: above it where lower is better, below it where higher is."""

    value: float
    better: str

    def allows(self, ratio: float) -> bool:
        """Whether a ratio is within."""
        return ratio >= self.value if self.better == "higher" else ratio <= self.value


class TooBusy(Exception):
    """The machine is at work for others."""


def limit_of(values: Sequence[float], better: str) -> Limit:
    """The limit that recorded runs set: four median deviations from their median, and 15 % beyond the worst of them."""
    middle = median(values)
    spread = DEVIATIONS * median(abs(value - middle) for value in values)
    if better == "higher":
        return Limit(round(min(middle - spread, min(values) / MARGIN), 4), better)
    return Limit(round(max(middle + spread, max(values) * MARGIN), 4), better)


def ratios_of(outcomes: Sequence[Outcome]) -> dict[str, Line]:
    """The figures that the gate judges, by name."""
    return {line.name: line for line in lines_of(outcomes) if line.unit == "x" and line.better != "neither"}


def faults_of(ratios: Mapping[str, Line], limits: Mapping[str, Limit]) -> list[str]:
    """A sentence for each ratio beyond its limit, without one, or no longer measured."""
    beyond = [
        f"{name} is {number(ratios[name].median)}, its limit {number(limit.value)}"
        for name, limit in limits.items()
        if name in ratios and not limit.allows(ratios[name].median)
    ]
    unmeasured = [f"{name} has a limit and is no longer measured" for name in limits if name not in ratios]
    unlimited = [f"{name} has no limit: record anew" for name in ratios if name not in limits]
    return [*beyond, *unmeasured, *unlimited]


def wait_for_calm(*, patience_seconds: float = PATIENCE_SECONDS) -> None:
    """Return once the cores have been idle enough for some seconds.

    Raises:
        TooBusy: they were not for as long as the patience lasts.
    """
    deadline = time.monotonic() + patience_seconds
    while (busy := machine.busy_share(WATCH_SECONDS)) > BUSY_SHARE:
        if time.monotonic() > deadline:
            raise TooBusy(f"{busy:.0%} of the cores' time is taken by others, at most {BUSY_SHARE:.0%} may be")


def main(arguments: Sequence[str]) -> int:
    """The command line above."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="set the limits anew")
    record = parser.parse_args(arguments).record
    if not record and not LIMITS.exists():
        print("There are no limits yet: run `make bench-gate ARGS=--record` on a quiet machine.", file=sys.stderr)
        return 1
    try:
        content, outcomes = _rounds(RECORDED_ROUNDS if record else ROUNDS)
    except TooBusy as busy:
        print(f"Not judged: {busy}.", file=sys.stderr)
        return TOO_BUSY
    faults = failures_of(outcomes)
    if record and not faults:
        _record(content, ratios_of(outcomes))
    elif not record:
        limits = {name: Limit(**limit) for name, limit in json.loads(LIMITS.read_text())["limits"].items()}
        faults += faults_of(ratios_of(outcomes), limits)
        _show(ratios_of(outcomes), limits)
    print("\n".join(f"FAILED {fault}" for fault in faults), file=sys.stderr)
    return 1 if faults else 0


def _rounds(count: int) -> tuple[dict[str, Any], list[Outcome]]:
    run, began, before = Run(SEED, SHARE), datetime.now(UTC), machine.load()
    outcomes = []
    for place in range(count):
        wait_for_calm()
        print(f"round {place + 1} of {count}", file=sys.stderr)
        outcomes += [measure(MODULES[name], run, tell=_tell) for name in GATED]
    loads = (before, machine.load())
    return document(outcomes, run, at=began.isoformat(), machine=machine.facts(), load=loads), outcomes


def _tell(figure: Figure) -> None:
    print(f"  {figure.name}: {number(figure.value)} {figure.unit}", file=sys.stderr)


def _record(content: Mapping[str, Any], ratios: Mapping[str, Line]) -> None:
    """Keep the runs, and the limits that follow from them, in the repository."""
    RECORDED.mkdir(exist_ok=True)
    name = f"{content['at'][:10]}.json"
    (RECORDED / name).write_text(json.dumps(content, indent=1) + "\n")
    limits = {line.name: limit_of(line.values, line.better) for line in ratios.values()}
    body = {
        "rule": f"{DEVIATIONS} median deviations from the median, and at least {MARGIN - 1:.0%} beyond the worst",
        "recorded": name,
        "limits": {name: {"value": limit.value, "better": limit.better} for name, limit in limits.items()},
    }
    LIMITS.write_text(json.dumps(body, indent=1) + "\n")
    _show(ratios, limits)


def _show(ratios: Mapping[str, Line], limits: Mapping[str, Limit]) -> None:
    width = max(map(len, ratios), default=0)
    for name, line in ratios.items():
        bound = number(limits[name].value) if name in limits else "none"
        print(f"{name:<{width}}  {number(line.median):>8}  limit {bound:>8}  {line.detail}".rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
