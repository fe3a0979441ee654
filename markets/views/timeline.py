"""A job's life drawn, as in Figure 4 of the paper: rows are hardware, bars are leases, ticks are checkpoints, arrows
are moves, and at each node stands what the job has cost by then.

Values in, positions in per cent of the width out; the template only places them. Times are real seconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

WAITING = "no device"
MOST_MARKS = 5
LAST_MARK = 0.93
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)
SHORTEST_WAIT = timedelta(seconds=1)
AMOUNT_NEEDS = {"all": 21.0, "wide": 7.0}
"""Per cent of the width that an amount takes: on a screen of any width, and on a wide one only."""
PRICE_NEEDS = {"all": 27.0, "wide": 9.0}
"""The same for a price with its time unit, inside a bar."""
RANKS = ("finished", "now", "moved", "ended", "handed_over")
"""Which nodes are written first where there is no room for all."""


@dataclass(frozen=True, slots=True)
class Stay:
    """One lease: hardware, occupation (`end` None while it lasts), the first training step, cost in micro-dollars.

    `stopped`: when it began to be given back. `price`: what it paid per hour, on average.
    """

    hardware: str
    start: datetime
    end: datetime | None
    first_step: datetime | None
    cost: int
    state: str
    stopped: datetime | None = None
    price: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A checkpoint: on which hardware, when, at which progress."""

    hardware: str
    at: datetime
    progress: float


@dataclass(frozen=True, slots=True)
class Move:
    """A migration: between which hardware, when the job went over, and how far it has come."""

    source: str
    destination: str
    at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class Node:
    """A point of the story, and what all leases together have cost by then. `kind`: one of RANKS."""

    hardware: str
    at: datetime
    kind: str
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A placed lease, or a placed wait for one. `dead` and `tail`: per cent of the bar before the first training step,
    and from the end of training on. `room`: on which screens its price fits in between, "" for none;
    `inset`: per cent of the bar to the right of where the price ends, so that no checkpoint crosses it.
    """

    left: str
    width: str
    dead: str
    tail: str
    state: str
    room: str
    inset: str
    stay: Stay


@dataclass(frozen=True, slots=True)
class Tick:
    """A placed checkpoint."""

    left: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Spot:
    """A placed node. `side`: where its amount is written, after or before it; `room`: on which screens it fits."""

    left: str
    side: str
    room: str
    node: Node


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of hardware with what happened on it."""

    label: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A placed move: from which row to which, by number from the top."""

    left: str
    top: int
    span: int
    goes_up: bool
    move: Move


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything placed. `axis`: position and label of each mark of the time scale."""

    rows: tuple[Row, ...]
    arrows: tuple[Arrow, ...]
    axis: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the timeline as a table: a node, or a checkpoint, which has no total of its own."""

    at: datetime
    hardware: str
    kind: str
    detail: str
    total: int | None


def draw(
    *,
    start: datetime,
    end: datetime,
    hardware: Sequence[str],
    stays: Sequence[Stay],
    marks: Sequence[Mark],
    moves: Sequence[Move],
    nodes: Sequence[Node] = (),
) -> Timeline:
    """Place a job's life.

    Args:
        start: when it was submitted.
        end: the present, or when it was over.
        hardware: the rows' order; what is not named follows.
    """
    end = max([end, start + timedelta(seconds=1), *(stay.end for stay in stays if stay.end is not None)])
    scale = _Scale(start, end)
    waits = _waits(stays, start, end)
    used = [stay.hardware for stay in stays] + [node.hardware for node in nodes if node.hardware != WAITING]
    needs_wait = waits or any(node.hardware == WAITING for node in nodes)
    labels = list(dict.fromkeys([*([WAITING] if needs_wait else []), *hardware, *used]))
    rows = tuple(_row(label, [*waits, *stays], marks, nodes, scale) for label in labels)
    arrows = tuple(_arrow(move, labels, scale) for move in moves)
    return Timeline(rows=rows, arrows=arrows, axis=_axis(scale))


def steps(nodes: Iterable[Node], marks: Iterable[Mark]) -> list[Step]:
    """The same story as lines of a table, in the order of time."""
    told = [Step(node.at, node.hardware, node.kind, node.detail, node.total) for node in nodes]
    saved = [Step(mark.at, mark.hardware, "checkpoint", f"{round(mark.progress * 100, 1):g} %", None) for mark in marks]
    return sorted([*told, *saved], key=lambda step: (step.at, step.kind in ("now", "finished")))


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime

    def at(self, moment: datetime) -> float:
        """A moment as per cent of the width, inside it."""
        share = (moment - self.start) / (self.end - self.start)
        return 100 * min(1.0, max(0.0, share))


def _row(label: str, stays: Sequence[Stay], marks: Iterable[Mark], nodes: Iterable[Node], scale: _Scale) -> Row:
    here = [(scale.at(mark.at), mark) for mark in marks if mark.hardware == label]
    cuts = [left for left, _ in here]
    return Row(
        label=label,
        bars=tuple(_bar(stay, cuts, scale) for stay in stays if stay.hardware == label),
        ticks=tuple(Tick(_shown(left), mark) for left, mark in here),
        spots=_spots([node for node in nodes if node.hardware == label], scale),
    )


def _bar(stay: Stay, cuts: Sequence[float], scale: _Scale) -> Bar:
    left, right = scale.at(stay.start), scale.at(stay.end or scale.end)
    worked = right if stay.first_step is None else min(right, scale.at(stay.first_step))
    stopped = right if stay.stopped is None else min(right, max(worked, scale.at(stay.stopped)))
    width = max(right - left, 0.2)
    free, free_until = _widest([worked, *(cut for cut in cuts if worked < cut < stopped), stopped])
    return Bar(
        left=_shown(left),
        width=_shown(width),
        dead=_shown(min(100.0, 100 * (worked - left) / width)),
        tail=_shown(min(100.0, 100 * (right - stopped) / width)),
        state=stay.state,
        room=next((screen for screen, needed in PRICE_NEEDS.items() if free >= needed), ""),
        inset=_shown(max(0.0, 100 * (right - free_until) / width)),
        stay=stay,
    )


def _widest(edges: Sequence[float]) -> tuple[float, float]:
    """The widest stretch between neighbouring edges, the last of equals: its width, and where it ends."""
    return max((upper - lower, upper) for lower, upper in pairwise(sorted(edges)))


def _spots(nodes: Sequence[Node], scale: _Scale) -> tuple[Spot, ...]:
    """The amounts of one row, the weightiest first, each beside its node where it covers no other."""
    taken: dict[str, list[tuple[float, float]]] = {screen: [] for screen in AMOUNT_NEEDS}
    placed = [_spot(node, scale.at(node.at), taken) for node in sorted(nodes, key=lambda each: RANKS.index(each.kind))]
    return tuple(sorted(placed, key=lambda spot: spot.node.at))


def _spot(node: Node, left: float, taken: dict[str, list[tuple[float, float]]]) -> Spot:
    screens = list(AMOUNT_NEEDS)
    for number, screen in enumerate(screens):
        for side in ("before", "after") if node.kind in ("now", "finished", "ended") else ("after", "before"):
            spans = {each: _span(left, AMOUNT_NEEDS[each], side) for each in screens[number:]}
            fits = _is_inside(spans[screen]) and not any(
                _overlap(spans[each], other) for each in spans for other in taken[each]
            )
            if fits:
                for each, span in spans.items():
                    taken[each].append(span)
                return Spot(_shown(left), side, screen, node)
    return Spot(_shown(left), "after", "", node)


def _span(left: float, width: float, side: str) -> tuple[float, float]:
    return (left, left + width) if side == "after" else (left - width, left)


def _is_inside(span: tuple[float, float]) -> bool:
    return span[0] >= 0 and span[1] <= 100


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _waits(stays: Sequence[Stay], start: datetime, end: datetime) -> list[Stay]:
    """The stretches without any device that are long enough to see."""
    waits = []
    free_since = start
    for stay in sorted(stays, key=lambda each: each.start):
        waits.append((free_since, stay.start))
        free_since = max(free_since, stay.end or end)
    waits.append((free_since, end))
    shortest = max(SHORTEST_WAIT, (end - start) / 100)
    return [Stay(WAITING, since, until, None, 0, "waiting") for since, until in waits if until - since >= shortest]


def _arrow(move: Move, labels: Sequence[str], scale: _Scale) -> Arrow:
    source, destination = labels.index(move.source), labels.index(move.destination)
    return Arrow(
        left=_shown(scale.at(move.at)),
        top=min(source, destination),
        span=abs(source - destination),
        goes_up=destination < source,
        move=move,
    )


def _axis(scale: _Scale) -> tuple[tuple[str, str], ...]:
    seconds = (scale.end - scale.start).total_seconds()
    step = next((step for step in STEPS if seconds / step <= MOST_MARKS), STEPS[-1])
    offsets = range(0, int(seconds) + 1, max(step, int(seconds) // (4 * MOST_MARKS)))
    shown = [offset for offset in offsets if offset <= LAST_MARK * seconds]  # one at the very end has no room
    return tuple((_shown(100 * offset / seconds), _elapsed(offset, step)) for offset in shown)


def _elapsed(seconds: int, step: int) -> str:
    if step >= 86_400:
        return f"{seconds // 86_400} d"
    if step >= 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 60}:{seconds % 60:02d}"


def _shown(share: float) -> str:
    """A number as CSS takes it, whatever the language of the page."""
    return f"{share:.3f}"
