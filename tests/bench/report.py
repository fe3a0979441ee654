"""What a run of measurements came to: a table to read, and JSON to compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.figures import Better, Figure, Run
from tests.bench.measuring import Outcome

HEADINGS = ("figure", "value", "unit", "goal", "met", "detail")
LARGE, SMALL = 1_000, 0.001


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over all rounds: its values in the order in which they were measured."""

    name: str
    unit: str
    better: Better
    goal: float | None
    detail: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """What the table shows."""
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the goal; None where there is none."""
        if self.goal is None or self.better == "neither":
            return None
        return self.median <= self.goal if self.better == "lower" else self.median >= self.goal

    def as_json(self) -> dict[str, Any]:
        """As one object, with least, median and greatest."""
        return {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "goal": self.goal,
            "met": self.met,
            "median": self.median,
            "least": min(self.values),
            "greatest": max(self.values),
            "values": list(self.values),
            "detail": self.detail,
        }


def lines_of(outcomes: Sequence[Outcome]) -> list[Line]:
    """The figures of all rounds, each once, in the order in which they first came. The newest detail stays."""
    rounds: dict[str, list[Figure]] = {}
    for outcome in outcomes:
        for figure in outcome.figures:
            rounds.setdefault(figure.name, []).append(figure)
    return [
        Line(name, same[-1].unit, same[-1].better, same[-1].goal, same[-1].detail, tuple(each.value for each in same))
        for name, same in rounds.items()
    ]


def failures_of(outcomes: Sequence[Outcome]) -> list[str]:
    """A sentence for each run of a module that failed."""
    return [f"{outcome.module}: {outcome.error}" for outcome in outcomes if outcome.error]


def table(lines: Sequence[Line]) -> str:
    """The lines in columns, numbers to the right."""
    rows = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS) - 1)]
    return "\n".join(_aligned(row, widths).rstrip() for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    name, value, unit, goal, met = (cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True))
    return "  ".join((name.strip().ljust(widths[0]), value, unit.strip().ljust(widths[2]), goal, met, row[-1]))


def _cells(line: Line) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: ""}[line.met]
    return (line.name, number(line.median), line.unit, _goal(line), met, line.detail)


def _goal(line: Line) -> str:
    if line.goal is None:
        return ""
    return f"{'>=' if line.better == 'higher' else '<='} {number(line.goal)}"


def number(value: float) -> str:
    """Three significant digits, whole from a thousand on."""
    if value == 0 or abs(value) >= LARGE:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= SMALL else f"{value:.1e}"


def document(
    outcomes: Sequence[Outcome], run: Run, *, at: str, machine: dict[str, Any], load: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """Everything as JSON.

    Args:
        at: when the run began, RFC 3339.
        load: load averages before and after.
    """
    return {
        "at": at,
        "seed": run.seed,
        "share": run.share,
        "machine": machine,
        "load_before": list(load[0]),
        "load_after": list(load[1]),
        "seconds": {
            name: round(sum(each.seconds for each in outcomes if each.module == name), 1)
            for name in dict.fromkeys(each.module for each in outcomes)
        },
        "failures": failures_of(outcomes),
        "figures": [line.as_json() for line in lines_of(outcomes)],
    }
