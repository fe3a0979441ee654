"""The report of a run: one HTML file with everything in it, plots drawn by the installed Plotly, light and dark."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import accumulate
from math import ceil
from typing import Any

import numpy as np
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from markets.engine.money import MICRO_PER_DOLLAR

PLOTLY = files("plotly") / "package_data" / "plotly.min.js"
WINDOW_SECONDS = 30
COLOURS = 10
"""How many the page has."""

Json = dict[str, Any]


def render(result: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        result: of `markets.scale.driving.drive`, with `machine`, `load_before` and `load_after` beside it.
    """
    context = {
        "title": f"A market of {result['settings']['nodes']:,} hosts",
        "lede": _lede(result),
        "cards": cards(result),
        "violations": result["violations"],
        "plots": plots(result),
        "tables": tables(result),
        "plotly": mark_safe(PLOTLY.read_text()),  # noqa: S308 - the installed package's own script
    }
    return render_to_string("scale/report.html", context)


def _lede(result: Mapping[str, Any]) -> str:
    began = datetime.fromtimestamp(result["began"], UTC)
    minutes = (result["ended"] - result["began"]) / 60
    return f"{minutes:.1f} minutes of market time from {began:%Y-%m-%d %H:%M:%S} UTC, which were as long in real time."


def cards(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The figures to know, each a name and a value with its unit."""
    ticks = _seconds(result, "ticks", "tick_seconds")
    meters = _seconds(result, "meters", "meter_seconds")
    counts = _totals_of(result["per_minute"])
    checks = result["checks"]
    return [
        ("Ticks", f"{ticks.size:,}"),
        ("Tick, median and p95", f"{_ms(ticks, 50)} and {_ms(ticks, 95)}"),
        ("Metering, median and p95", f"{_ms(meters, 50)} and {_ms(meters, 95)}"),
        ("Hand-overs", f"{counts['hand-overs']:,}"),
        ("Notices", f"{counts['notices']:,}"),
        ("Moves done", f"{counts['moves done']:,}"),
        ("Bids changed", f"{result['acts'].get('bid changes', 0):,}"),
        ("Billed", _dollars(result["money"]["slices"])),
        ("Invariants", f"{len(checks)} checks, {len(result['violations'])} violations"),
    ]


def plots(result: Mapping[str, Any]) -> list[Json]:
    """Each plot: id, title, the unit of its vertical axis, a sentence, traces of Plotly. Times are minutes."""
    return [
        _prices(result),
        _utilisation(result),
        _durations(result),
        _movements(result),
        _money(result),
        _checks(result),
    ]


def _plot(name: str, title: str, unit: str, text: str, traces: Sequence[Json]) -> Json:
    return {"id": name, "title": title, "unit": unit, "text": text, "traces": list(traces)}


def _line(name: str, x: Iterable[float], y: Iterable[float], **more: Any) -> Json:
    return {
        "name": name,
        "mode": "lines",
        "x": [round(each, 3) for each in x],
        "y": [round(each, 6) for each in y],
    } | more


def _prices(result: Mapping[str, Any]) -> Json:
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in result["prices"]:
        points[row["name"]].append((_minute(result, row["at"]), row["price_per_hour"] / MICRO_PER_DOLLAR))
    end = _minute(result, result["ended"])
    traces = [
        _line(name, [*(x for x, _ in each), end], [*(y for _, y in each), each[-1][1]], line=_step(place))
        for place, (name, each) in enumerate(points.items())
    ]
    return _plot("prices", "Public price of each type", "$ per accelerator-hour", "As quoted, tick by tick.", traces)


def _step(place: int) -> Json:
    """Steps; dotted where the colours begin anew."""
    return {"shape": "hv", "dash": "solid" if place < COLOURS else "dot"}


def _utilisation(result: Mapping[str, Any]) -> Json:
    x = [_minute(result, row["at"]) for row in result["samples"]]

    def share(name: str) -> list[float]:
        return [100 * row[name] / max(1, row["usable"]) for row in result["samples"]]

    traces = [_line(name, x, share(name)) for name in ("active", "pending", "closing")]
    text = "Leases by state, in per cent of the accelerators that are healthy and on a ready host."
    return _plot("utilisation", "Utilisation", "% of usable accelerators", text, traces)


def _durations(result: Mapping[str, Any]) -> Json:
    traces = []
    for part, kind, field in (("tick", "ticks", "tick_seconds"), ("metering", "meters", "meter_seconds")):
        windows: dict[int, list[float]] = defaultdict(list)
        for row in result[kind]:
            windows[int((row["at"] - result["began"]) // WINDOW_SECONDS)].append(1000 * row[field])
        x = [(window + 0.5) * WINDOW_SECONDS / 60 for window in windows]
        for name, percent, dash in (("median", 50, "solid"), ("p95", 95, "dot")):
            y = [float(np.percentile(values, percent)) for values in windows.values()]
            traces.append(_line(f"{part}, {name}", x, y, mode="lines+markers", line={"dash": dash}))
    text = (
        f"Durable ticks and the billing beside them, over {WINDOW_SECONDS} s each; hosts and tenants run beside them."
    )
    return _plot("durations", "How long a tick takes", "ms", text, traces)


def _movements(result: Mapping[str, Any]) -> Json:
    by_name: dict[str, dict[int, int]] = defaultdict(dict)
    for row in result["per_minute"]:
        by_name[row["what"]][row["minute"]] = row["count"]
    minutes = range(_minutes(result))
    traces = [
        _line(name, [m + 0.5 for m in minutes], [counts.get(m, 0) for m in minutes], mode="lines+markers")
        for name, counts in by_name.items()
        if name != "bids opened"
    ]
    return _plot("movements", "What happened", "a minute", "Bids are counted in the table below.", traces)


def _money(result: Mapping[str, Any]) -> Json:
    rows = result["billed_per_minute"]
    x = [0.0, *(row["minute"] + 1.0 for row in rows)]

    def running(name: str) -> list[float]:
        return [total / MICRO_PER_DOLLAR for total in accumulate((row[name] or 0 for row in rows), initial=0)]

    traces = [
        _line("billed by slices", x, running("slices"), line={"width": 5}),
        _line("taken in the ledger", x, running("ledger"), line={"dash": "dot"}),
    ]
    money = result["money"]
    text = (
        f"Slices {_dollars(money['slices'])}, leases {_dollars(money['leases'])}, revenue in the ledger "
        f"{_dollars(money['revenue'])}, of which {_dollars(money['probing'])} for withdrawn awards; "
        f"waived {_dollars(money['waived'])}."
    )
    return _plot("money", "Billed, and taken in the ledger", "$ since the beginning", text, traces)


def _checks(result: Mapping[str, Any]) -> Json:
    x = [_minute(result, row["at"]) for row in result["checks"]]
    y = [row["seconds"] for row in result["checks"]]
    text = "Each looks at the whole database with every detector of check_invariants."
    return _plot("checks", "Checks of the invariants", "s each", text, [_line("check", x, y, mode="lines+markers")])


def tables(result: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles, and rows of a name and a value."""
    machine = result["machine"]
    return [
        ("Settings", [(name.replace("_", " "), _text(value)) for name, value in result["settings"].items()]),
        (
            "Machine",
            [
                *((name.replace("_", " "), _text(machine[name])) for name in ("cores", "cpu", "memory_gb", "system")),
                ("load before", _text(result["load_before"])),
                ("load after", _text(result["load_after"])),
                ("commit", machine["commit"]),
                *machine["versions"].items(),
            ],
        ),
        (
            "Acts",
            [
                ("seeding, s", f"{result['seeding_seconds']:.1f}"),
                *((name, _text(value)) for name, value in result["acts"].items()),
                ("turns that took longer than their second", _text(result["late_turns"])),
            ],
        ),
        (
            "Left in the database",
            [
                *((name, f"{count:,}") for name, count in sorted(_totals_of(result["per_minute"]).items())),
                *((row["what"], f"{row['count']:,}") for row in result["totals"]),
            ],
        ),
    ]


def _minute(result: Mapping[str, Any], at: float) -> float:
    return float((at - result["began"]) / 60)


def _minutes(result: Mapping[str, Any]) -> int:
    """Minutes that have begun."""
    return max(1, ceil(_minute(result, result["ended"])))


def _totals_of(per_minute: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    totals: dict[str, int] = defaultdict(int)
    for row in per_minute:
        totals[row["what"]] += row["count"]
    return totals


def _seconds(result: Mapping[str, Any], kind: str, name: str) -> "np.ndarray[Any, Any]":
    return np.array([row[name] for row in result[kind]] or [0.0])


def _ms(seconds: "np.ndarray[Any, Any]", percent: float) -> str:
    return f"{1000 * float(np.percentile(seconds, percent)):,.0f} ms"


def _dollars(microdollars: int) -> str:
    return f"${microdollars / MICRO_PER_DOLLAR:,.2f}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
