"""`manage.py simulate paper --json`: a scenario in virtual time. Needs no database and writes nothing.

`manage.py simulate scale` lets the real market live under load, on servers that it starts and removes.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.sdk.policies import POLICIES
from laissez.stack.places import StackError
from markets.engine.clearing import RULES
from markets.engine.money import MICROSECONDS_PER_SECOND, format_price
from markets.management import load
from markets.scale.report import render
from markets.simulation.report import Report
from markets.simulation.scenarios import MINUTE, SCENARIOS, Scenario
from markets.simulation.simulator import simulate

DAY_SECONDS = 24 * 3600
TIMINGS = {
    "notice": "how long a notice runs",
    "heartbeat": "between two rounds of all agents",
    "reaction": "from an event to the agent that it concerns",
    "activation": "from a hand-over until the device is ready and billed",
    "restore": "from a ready device to the first step after a checkpoint",
    "release": "from telling a lease to leave until its device is free",
    "cool_down": "the first cool-down of a row after a failed upgrade",
}


class Command(BaseCommand):
    """Simulates one named scenario, with other timings, another rule or another policy on request."""

    help = "Simulate a market in virtual time on the live engine and policies."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """A scenario each, with what may be changed about it."""
        scenarios = parser.add_subparsers(dest="scenario", required=True, metavar="SCENARIO")
        for name in sorted(SCENARIOS):
            self._add_scenario(scenarios.add_parser(name, help="in virtual time"))
        load.add_arguments(scenarios.add_parser("scale", help=load.HELP, description=load.DESCRIPTION))

    def _add_scenario(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
        parser.add_argument("--rule", choices=sorted(RULES), help="clear by this rule instead of the scenario's")
        parser.add_argument("--policy", choices=sorted(POLICIES), help="let every agent follow this policy instead")
        for name, meaning in TIMINGS.items():
            option = f"--{name.replace('_', '-')}-seconds"
            parser.add_argument(option, type=_microseconds, metavar="SECONDS", help=meaning)

    def handle(self, *_args: Any, scenario: str, as_json: bool, **options: Any) -> None:
        """Run it and print what came of it."""
        if scenario == "scale":
            self._scale(as_json=as_json, **options)
            return
        try:
            report = simulate(_changed(SCENARIOS[scenario], options))
        except RuntimeError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(_as_json(report) if as_json else _as_text(report))

    def _scale(self, *, out: Path, as_json: bool, **options: Any) -> None:
        try:
            result = load.run(load.settings_of(options), say=self.stderr.write)
        except (StackError, load.RunFailed, ValueError) as error:
            raise CommandError(str(error)) from error
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render(result))
        self.stderr.write(f"The report is {out}")
        if as_json:
            self.stdout.write(json.dumps(result))
        if result["violations"]:
            raise CommandError("\n".join(result["violations"]))


def _microseconds(text: str) -> int:
    """Read seconds of at least zero from the command line."""
    try:
        seconds = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 <= seconds <= DAY_SECONDS:
        raise ArgumentTypeError(f"{text!r} is not between 0 and {DAY_SECONDS} seconds")
    return int(seconds * MICROSECONDS_PER_SECOND)


def _changed(scenario: Scenario, options: dict[str, Any]) -> Scenario:
    """Return the scenario with what the command line changes about it."""
    given = {f"{name}_us": options[f"{name}_seconds"] for name in TIMINGS}
    timing = replace(scenario.timing, **{name: value for name, value in given.items() if value is not None})
    policy = options["policy"]
    jobs = scenario.jobs if policy is None else tuple(replace(job, policy=policy) for job in scenario.jobs)
    return replace(scenario, timing=timing, jobs=jobs, rule=options["rule"] or scenario.rule)


def _as_json(report: Report) -> str:
    return json.dumps(report.to_json())


def _as_text(report: Report) -> str:
    """Return the leases, bills and prices as lines to read."""
    lines = [f"{report.scenario}"]
    for lease in report.leases:
        when = f"{lease.start / MINUTE:8.3f} to {lease.end / MINUTE:8.3f} min"
        lines.append(f"  {lease.job:8} {lease.type:14} {when}  ${format_price(lease.cost)}")
    for job, bill in report.bills.items():
        end = f"ends at {report.finished[job] / MINUTE:.3f} min" if job in report.finished else "does not end"
        lines.append(f"  {job:8} pays ${format_price(bill)} and {end}")
    lines += [
        f"  {point.type:14} ${format_price(point.price)} per hour from {point.at / MINUTE:.3f} min"
        for point in report.prices
    ]
    return "\n".join(lines)
