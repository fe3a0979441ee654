"""What to simulate, as frozen values, and the scenarios that ship with the project.

Instants and durations are microseconds from the start of the scenario, prices micro-dollars per accelerator-hour,
shares of a job and its hours are exact fractions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from markets.engine.money import MICROSECONDS_PER_SECOND, parse_price

Upgrade = Literal["never", "at_checkpoint", "now"]
Mode = Literal["stop_and_copy", "overlap"]
MINUTE = 60 * MICROSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """An accelerator type and how many units of it the cluster has."""

    name: str
    units: int
    base: int
    cap: int


@dataclass(frozen=True, slots=True)
class RowSpec:
    """A row of a launch table. max_price None bids the cap; keep_price None is max_price; hours for the whole job."""

    type: str
    max_price: int | None
    hours: Fraction
    keep_price: int | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job and the policy that decides for it.

    checkpoint_every: the share of the job after which it saves, None for never. saves_any_time: it also saves
    whenever it is told to leave; otherwise it falls back to its last checkpoint. upgrade: at_checkpoint is never for a
    job that saves nothing. seek_us: how long it keeps an unused destination, None for ever.
    """

    name: str
    rows: tuple[RowSpec, ...]
    submit_at: int = 0
    tenant: str = ""
    policy: str = "hold"
    params: Mapping[str, object] = field(default_factory=dict)
    checkpoint_every: Fraction | None = None
    upgrade: Upgrade = "at_checkpoint"
    mode: Mode = "stop_and_copy"
    saves_any_time: bool = False
    seek_us: int | None = None

    @property
    def seeks(self) -> bool:
        """Whether the job wants rows above the one it runs on."""
        saves = self.saves_any_time or self.checkpoint_every is not None
        return self.upgrade == "now" or (self.upgrade == "at_checkpoint" and saves)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take. Zero is the ideal run.

    notice_us: a notice. heartbeat_us: between two rounds of all agents. reaction_us: from an event to the agent that
    it concerns. activation_us: from a hand-over until the device is ready and billing starts. restore_us: from a ready
    device to the first step of a job that has a checkpoint. release_us: from telling a lease to leave to a free unit.
    cool_down_us: the first cool-down of a row.
    """

    notice_us: int = 0
    heartbeat_us: int = 10 * MICROSECONDS_PER_SECOND
    reaction_us: int = MICROSECONDS_PER_SECOND
    activation_us: int = 0
    restore_us: int = 0
    release_us: int = 0
    cool_down_us: int = 60 * MICROSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Failure:
    """At this instant the n-th unit of a type (from 0) becomes unusable, or usable again."""

    at: int
    type: str
    unit: int
    usable: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, its jobs and its clearing rule. The simulation ends when all jobs have, or at the horizon."""

    name: str
    types: tuple[TypeSpec, ...]
    jobs: tuple[JobSpec, ...]
    rule: str = "launch_table"
    timing: Timing = Timing()
    failures: tuple[Failure, ...] = ()
    horizon: int = 24 * 60 * MINUTE


def minutes(value: str) -> int:
    """Return decimal minutes as microseconds."""
    return round(Fraction(value) * MINUTE)


A10, L4, TRAINIUM = "nvidia-a10", "nvidia-l4", "aws-trainium"
TWO_DOLLARS = parse_price("2.000000")

PAPER_TYPES = (
    TypeSpec(A10, 1, parse_price("0.606000"), TWO_DOLLARS),
    TypeSpec(L4, 4, parse_price("0.475500"), TWO_DOLLARS),
    TypeSpec(TRAINIUM, 4, parse_price("0.804000"), TWO_DOLLARS),
)
APP_A = JobSpec(
    name="app-a",
    tenant="tenant-a",
    policy="break_even",
    checkpoint_every=Fraction("0.2"),
    rows=(
        RowSpec(A10, TWO_DOLLARS, Fraction("0.351")),
        RowSpec(TRAINIUM, TWO_DOLLARS, Fraction("0.300")),
        RowSpec(L4, TWO_DOLLARS, Fraction("0.5145")),
    ),
)
APP_B = JobSpec(
    name="app-b",
    tenant="tenant-b",
    policy="break_even",
    checkpoint_every=Fraction("0.25"),
    rows=(
        RowSpec(A10, TWO_DOLLARS, Fraction("0.230")),
        RowSpec(L4, TWO_DOLLARS, Fraction("0.3154")),
    ),
)
SECOND_ARRIVAL = minutes("4.944")


def _baseline(name: str, first: JobSpec, second: JobSpec, upgrade: Upgrade) -> Scenario:
    """Return the two applications at posted prices, first come first served."""
    jobs = (
        replace(first, policy="hold", upgrade=upgrade),
        replace(second, policy="hold", upgrade=upgrade, submit_at=SECOND_ARRIVAL),
    )
    return Scenario(name, PAPER_TYPES, jobs, rule="first_come")


PAPER = Scenario("paper", PAPER_TYPES, (APP_B, replace(APP_A, submit_at=SECOND_ARRIVAL)))
"""LaissezCloud 2025, sections 2 and 5: profiles that round to its Table 1 and match its percentages."""

STATIC_A_FIRST = _baseline("static-a-first", APP_A, APP_B, "never")
STATIC_B_FIRST = _baseline("static-b-first", APP_B, APP_A, "never")
"""The paper's Table 1: who came first keeps the A10, whoever values it more."""

BLIND = _baseline("blind", APP_A, APP_B, "now")
"""The paper's Figure 1: B moves to the faster A10 as soon as it is free, between two checkpoints, and ends later."""

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario for scenario in (PAPER, STATIC_A_FIRST, STATIC_B_FIRST, BLIND)
}
