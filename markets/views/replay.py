"""The paper's Figure 4 from the simulator's own output: where two applications ran, when they saved and moved, and what
the A10 cost meanwhile.

A report in, positions in per cent of width and height out; the template only places them. Nothing of it is written down
here: change the scenario or a policy, and the figure changes.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

from markets.simulation.report import LeasePart, Move, PricePoint, Report
from markets.simulation.scenarios import A10, MINUTE, PAPER, Scenario
from markets.simulation.simulator import simulate

TICK_MINUTES = 5
ROOM = 0.86
"""How much of the plot's height the span of the prices takes; the rest is for the labels above."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A placed lease. `dead`: per cent of it before the job moved in; `spoken`: the same in words."""

    left: str
    width: str
    dead: str
    cost: int
    has_room: bool
    spoken: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A placed checkpoint."""

    left: str
    progress: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One kind of hardware under one application."""

    type: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A placed move between two lanes of one application, by number from the top."""

    left: str
    top: int
    span: int
    goes_up: bool


@dataclass(frozen=True, slots=True)
class App:
    """One application: its lanes, its moves, and its bill in micro-dollars."""

    name: str
    lanes: tuple[Lane, ...]
    arrows: tuple[Arrow, ...]
    bill: int


@dataclass(frozen=True, slots=True)
class Step:
    """A placed price. `bottom`: its height in the plot."""

    left: str
    bottom: str
    price: int


@dataclass(frozen=True, slots=True)
class Caption:
    """What happens at one instant. `share`: which part of the whole has passed by then, from 0 to 1."""

    minute: str
    share: str
    sentences: tuple[str, ...]
    price: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Everything placed. `line`: the price as the points of an SVG polyline in a box of 100 by 100."""

    type: str
    apps: tuple[App, ...]
    steps: tuple[Step, ...]
    line: str
    axis: tuple[tuple[str, str], ...]
    captions: tuple[Caption, ...]
    leases: tuple[LeasePart, ...]
    minutes: str


@cache
def paper() -> Replay:
    """The paper's scenario, simulated when it is first asked for in this process (a fifth of a second)."""
    return draw(PAPER, simulate(PAPER), A10)


def draw(scenario: Scenario, report: Report, accelerator_type: str) -> Replay:
    """Place a report; `accelerator_type` is the one whose price is drawn. There is at least one price and one lease."""
    end = max(lease.end for lease in report.leases)
    prices = report.prices_of(accelerator_type)
    steps = _steps(prices, end)
    return Replay(
        type=accelerator_type,
        apps=tuple(_app(job.name, [row.type for row in job.rows], report, end) for job in scenario.jobs),
        steps=steps,
        line=_line(steps),
        axis=tuple(
            (_share(minute * MINUTE, end), str(minute)) for minute in range(0, int(0.97 * end / MINUTE), TICK_MINUTES)
        ),
        captions=_captions(scenario, report, prices, end),
        leases=report.leases,
        minutes=minutes(end),
    )


def title(name: str) -> str:
    """How an application is called on the page: `app-b` as `App B`."""
    head, _, tail = name.partition("-")
    return f"{head.capitalize()} {tail.upper()}".strip()


def minutes(instant: int) -> str:
    """An instant as minutes and seconds: `6:54`."""
    seconds = round(instant * 60 / MINUTE)
    return f"{seconds // 60}:{seconds % 60:02d}"


def _app(name: str, order: list[str], report: Report, end: int) -> App:
    leases = [lease for lease in report.leases if lease.job == name]
    used = [each for each in order if any(lease.type == each for lease in leases)]
    moves = [move for move in report.moves if move.job == name]
    return App(
        name=title(name),
        lanes=tuple(
            Lane(
                type=each,
                bars=tuple(_bar(lease, moves, end) for lease in leases if lease.type == each),
                ticks=tuple(
                    Tick(_share(saved.at, end), float(saved.progress))
                    for saved in report.checkpoints
                    if (saved.job, saved.type) == (name, each)
                ),
            )
            for each in used
        ),
        arrows=tuple(
            Arrow(
                left=_share(move.at, end),
                top=min(used.index(move.source), used.index(move.destination)),
                span=abs(used.index(move.source) - used.index(move.destination)),
                goes_up=used.index(move.destination) < used.index(move.source),
            )
            for move in moves
        ),
        bill=report.bills[name],
    )


def _bar(lease: LeasePart, moves: list[Move], end: int) -> Bar:
    length = lease.end - lease.start
    arrivals = [move.at for move in moves if move.destination == lease.type and lease.start <= move.at <= lease.end]
    return Bar(
        left=_share(lease.start, end),
        width=_share(length, end),
        dead=_share(min(arrivals, default=lease.start) - lease.start, max(length, 1)),
        cost=lease.cost,
        has_room=length >= 0.22 * end,
        spoken=f"{title(lease.job)} on {lease.type} from {minutes(lease.start)} to {minutes(lease.end)}",
    )


def _steps(prices: tuple[PricePoint, ...], end: int) -> tuple[Step, ...]:
    lowest, highest = min(point.price for point in prices), max(point.price for point in prices)
    span = max(highest - lowest, 1)
    return tuple(
        Step(_share(point.at, end), f"{100 * ROOM * (point.price - lowest) / span:.2f}", point.price)
        for point in prices
    )


def _line(steps: tuple[Step, ...]) -> str:
    """The steps joined: level until the next price, then straight up or down."""
    points: list[str] = []
    for step, until in zip(steps, [*(step.left for step in steps[1:]), "100"], strict=True):
        height = f"{100 - float(step.bottom):.2f}"
        points += [f"{step.left},{height}", f"{until},{height}"]
    return " ".join(points)


def _captions(scenario: Scenario, report: Report, prices: tuple[PricePoint, ...], end: int) -> tuple[Caption, ...]:
    """What happens, by instant: arrivals, moves, ends, and what they do to the price."""
    said: defaultdict[int, list[str]] = defaultdict(list)
    moved_to = {(move.job, move.destination) for move in report.moves}
    for lease in report.leases:
        if (lease.job, lease.type) not in moved_to:
            said[lease.start].append(f"{title(lease.job)} arrives and starts on {lease.type}.")
    for move in report.moves:
        said[move.at].append(f"{title(move.job)} saves its state and moves from {move.source} to {move.destination}.")
    for job, at in report.finished.items():
        said[at].append(f"{title(job)} is done.")
    for point in prices:
        said[point.at].append(_because(scenario, report, point))
    return tuple(Caption(minutes(at), f"{at / end:.5f}", tuple(said[at]), _price_at(prices, at)) for at in sorted(said))


def _because(scenario: Scenario, report: Report, point: PricePoint) -> str:
    """Why the price is what it is: the losing bid that equals it, else the base price."""
    base = next(spec.base for spec in scenario.types if spec.name == point.type)
    if point.price == base:
        return f"Nobody is outbid on {point.type}: it costs its base price."
    latest = {bid.job: bid.value for bid in report.bids if bid.type == point.type and bid.at <= point.at}
    losers = [title(job) for job, value in latest.items() if value == point.price]
    return f"The price of {point.type} is now what {' and '.join(losers) or 'a loser'} bids for it."


def _price_at(prices: tuple[PricePoint, ...], at: int) -> int:
    return [point.price for point in prices if point.at <= at][-1]


def _share(part: int, whole: int) -> str:
    """A part as per cent, as CSS takes it, whatever the language of the page."""
    return f"{100 * part / whole:.3f}"
