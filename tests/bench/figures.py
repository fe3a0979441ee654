"""One measured number, and how a module of measurements hands its numbers over.

Each module beside this one has a function `figures(run)` that yields them one by one, so that a long run shows what it
has so far.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    name: lower-case words with dots from coarse to fine, such as "clearing.cold", the same in every run.
    unit: "ms", "s", "x" for a ratio of two times of the same run, "rows/s", "bytes/row", "MB" and the like.
    goal: what it is to reach: at most that where lower is better, at least that where higher is; None: only reported.
    detail: how it came about, in a few words: counts, medians of how many rounds, p95 beside a median.
    """

    name: str
    value: float
    unit: str
    better: Better = "lower"
    goal: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What all measurements of one run share. share: 1.0 measures in full; less shrinks sizes, to try the bench out."""

    seed: int
    share: float = 1.0

    def of(self, count: int) -> int:
        """Return a size as this run takes it."""
        return max(1, round(count * self.share))


Measurement = Callable[[Run], Iterator[Figure]]
