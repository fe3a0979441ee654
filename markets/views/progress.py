"""A job's progress and loss as a chart: thinned out, with its gaps, as JSON for the drawing, as CSV, and in a sentence.

All of them come from the same points, so that a table or a file is exactly what is drawn.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from itertools import pairwise
from typing import Any

from markets.selectors.history import Reported, Sample
from markets.templatetags.figures import duration, percent

MOST_POINTS = 1000


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch without reports, between two leases."""

    since: datetime
    until: datetime


def thinned(samples: Sequence[Sample], most: int = MOST_POINTS) -> list[Sample]:
    """At most about `most` samples: of each of equally many in a row the ones with the least and the greatest loss.

    The first and the last of every lease stay, so that the ends of a stretch are where they were.
    """
    if len(samples) <= most:
        return list(samples)
    width = -(-len(samples) // (most // 2))
    kept = {0, len(samples) - 1}
    for start in range(0, len(samples), width):
        bucket = range(start, min(start + width, len(samples)))
        kept.add(min(bucket, key=lambda place: _height(samples[place])))
        kept.add(max(bucket, key=lambda place: _height(samples[place])))
    for place in range(1, len(samples)):
        if samples[place].lease != samples[place - 1].lease:
            kept |= {place - 1, place}
    return [samples[place] for place in sorted(kept)]


def _height(sample: Sample) -> float:
    return sample.progress if sample.loss is None else sample.loss


def gaps(samples: Sequence[Sample]) -> list[Gap]:
    """Where the job changed its lease, between the last report of one and the first of the next."""
    return [Gap(one.at, other.at) for one, other in pairwise(samples) if one.lease != other.lease]


def series(samples: Sequence[Sample], *, as_of: datetime) -> dict[str, Any]:
    """What the chart is drawn from. Each gap has a point of its own with no value, and is never bridged."""
    points = list(_points(samples))
    has_loss = any(sample.loss is not None for sample in samples)
    shown = [{"name": "Progress", "unit": "%", "kind": "line", "y": [_percent(each) for _, each in points]}]
    if has_loss:
        loss = [None if each is None else each.loss for _, each in points]
        shown.append({"name": "Loss", "unit": "", "kind": "line", "y": loss})
    return {
        "title": "Progress and loss",
        "as_of": _time(as_of),
        "x": [_time(at) for at, _ in points],
        "series": shown,
        "gaps": [
            {"from": _time(gap.since), "to": _time(gap.until), "why": "between two leases"} for gap in gaps(samples)
        ],
    }


def as_csv(samples: Sequence[Sample]) -> str:
    """The same points as a table in a file."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["time", "progress", "step", "loss"])
    for sample in samples:
        writer.writerow([_time(sample.at), sample.progress, _or_nothing(sample.step), _or_nothing(sample.loss)])
    return text.getvalue()


def summary(seen: Reported, *, loss: float | None) -> str:
    """The chart in one sentence; `loss` is the last that was told."""
    if seen.first is None or seen.last is None:
        return ""
    text = f"{percent(seen.last.progress)} after {duration(seen.last.at - seen.first.at)} of reports"
    if seen.first_loss is not None and seen.lowest_loss is not None and loss is not None:
        text += f"; the loss went from {seen.first_loss:.4g} to {loss:.4g}, lowest {seen.lowest_loss:.4g}"
    breaks = seen.leases - 1
    if breaks > 0:
        text += f"; {breaks} {'gap' if breaks == 1 else 'gaps'} while it changed its hardware"
    return f"{text}."


def _points(samples: Sequence[Sample]) -> Iterator[tuple[datetime, Sample | None]]:
    before: Sample | None = None
    for sample in samples:
        if before is not None and before.lease != sample.lease:
            yield before.at + (sample.at - before.at) / 2, None
        yield sample.at, sample
        before = sample


def _percent(sample: Sample | None) -> float | None:
    return None if sample is None else round(sample.progress * 100, 4)


def _or_nothing(value: object) -> object:
    return "" if value is None else value


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
