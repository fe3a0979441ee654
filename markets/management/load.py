"""`manage.py simulate scale`: servers of its own, a process in which Django is set up for them, and what that says."""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from laissez.stack import machine, private, servers
from laissez.stack.places import PROJECT
from laissez.stack.process import ProcessSpec, signal_group, spawn
from markets.scale.driving import Settings

HELP = "the real market under load, with simulated hosts"
DESCRIPTION = (
    "Drive the real tick, database, metering and ledger of a large cluster for some minutes, and write a report with"
    " plots. Only hosts and workloads are simulated. It starts a PostgreSQL and a Valkey of its own, as durable as in"
    " production, in a temporary folder and removes them: an installation's data are neither read nor written,"
    " whatever DATABASE_URL says. The exit status is 1 when an invariant is violated."
)
JOBS_PER_NODE = 2
INSIDE = (
    "import django, sys; django.setup();"
    " from laissez.management.commands.check_invariants import look;"
    " from markets.scale.driving import main; main(sys.argv[1:], look)"
)


class RunFailed(Exception):
    """The run ended without a result; what it said is above."""


def add_arguments(parser: ArgumentParser) -> None:
    """How large, how long, how lively, and where to."""
    parser.add_argument("--nodes", type=_count, default=10_000, help="hosts, with an accelerator each (default 10000)")
    parser.add_argument("--jobs", type=_count, help=f"jobs at the beginning (default {JOBS_PER_NODE} a node)")
    parser.add_argument(
        "--minutes", type=_positive, default=10.0, help="of market time, which is real time (default 10)"
    )
    parser.add_argument(
        "--changes-percent-per-minute",
        type=_positive,
        default=1.0,
        help="how many of the open bids change in a minute (default 1)",
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=PROJECT / "build" / "scale.html", help="the report")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print everything as one JSON object too")


def settings_of(options: Mapping[str, Any]) -> Settings:
    """What the command line asks for."""
    names = ("nodes", "minutes", "seed", "changes_percent_per_minute")
    jobs = options["jobs"] or options["nodes"] * JOBS_PER_NODE
    return Settings(jobs=jobs, **{name: options[name] for name in names})


def run(settings: Settings, *, say: Callable[[str], object]) -> dict[str, Any]:
    """Run it, and return its result with the machine's facts.

    Raises:
        RunFailed: the process inside ended early.
    """
    before = machine.load()
    with tempfile.TemporaryDirectory(prefix="laissez-scale-", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        environment = private.production(state) | {"LAISSEZ_METER_SPEEDUP": "1"}
        with servers.running(state, purpose="manage.py simulate scale", durable=True):
            migrate = [sys.executable, str(PROJECT / "manage.py"), "migrate", "--verbosity", "0"]
            subprocess.run(migrate, env=os.environ | environment, check=True)
            result = _inside(settings, folder, environment, say)
    return result | {"machine": machine.facts(), "load_before": before, "load_after": machine.load()}


def _inside(
    settings: Settings, folder: str, environment: Mapping[str, str], say: Callable[[str], object]
) -> dict[str, Any]:
    command = (sys.executable, "-c", INSIDE, json.dumps(asdict(settings)), folder)
    spec = ProcessSpec(name="scale", command=command, environment=environment, stop_rank=0)
    child = spawn(spec, output=subprocess.PIPE)
    result: dict[str, Any] | None = None
    try:
        assert child.stdout is not None
        with child.stdout as lines:
            for line in lines:
                told = _told(line.decode(errors="replace"))
                result = told.get("result", result)
                if "say" in told:
                    say(told["say"])
        if child.wait() or result is None:
            raise RunFailed(f"the run ended with status {child.returncode}; what it said is above")
    finally:
        signal_group(child.pid, spec.death_signal)
        child.wait()
    return result


def _told(line: str) -> dict[str, Any]:
    """One line of the process inside; what is no JSON object is a log line, to be shown."""
    try:
        told = json.loads(line)
    except ValueError:
        return {"say": line.rstrip("\n")}
    return told if isinstance(told, dict) else {"say": line}


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ArgumentTypeError(f"{text} is not at least 1")
    return count


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"{text} is not above 0")
    return number
