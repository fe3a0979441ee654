"""The report of a run: what it says, with units, and that nothing is loaded from elsewhere."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from markets.scale.report import cards, plots, render, tables

ROOT = Path(__file__).parents[2]
NOWHERE = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing", "REDIS_URL": "redis://127.0.0.1:1/0"}


def result(**changes: Any) -> dict[str, Any]:
    """Two minutes of a tiny market."""
    turns = [
        {"at": 1000.0 + second, "outcome": "cleared", "advise_seconds": 0.0, "tick_seconds": 0.02}
        for second in range(120)
    ]
    meters = [{"at": 1000.5 + second, "meter_seconds": 0.01, "billed": 0} for second in range(120)]
    made = {
        "settings": {"nodes": 12_000, "jobs": 24_000, "minutes": 2.0, "seed": 7},
        "seeding_seconds": 1.5,
        "began": 1000.0,
        "ended": 1120.0,
        "ticks": turns,
        "meters": meters,
        "samples": [{"at": 1000.0, "usable": 10, "active": 9, "pending": 1, "closing": 0}],
        "checks": [{"at": 1060.0, "seconds": 0.5, "violations": []}],
        "violations": [],
        "late_turns": 0,
        "acts": {"arrivals": 3, "bid changes": 1234},
        "prices": [
            {"name": "<b>Fast</b>", "at": 1000.0, "price_per_hour": 1_500_000},
            {"name": "<b>Fast</b>", "at": 1060.0, "price_per_hour": 2_000_000},
        ],
        "per_minute": [
            {"what": "hand-overs", "minute": 0, "count": 4},
            {"what": "hand-overs", "minute": 1, "count": 5},
            {"what": "bids opened", "minute": 1, "count": 1234},
        ],
        "billed_per_minute": [{"minute": 1, "slices": 1_250_000, "ledger": 1_250_000}],
        "money": {"slices": 1_250_000, "waived": 0, "leases": 1_250_000, "probing": 0, "revenue": 1_250_000},
        "totals": [{"what": "events", "count": 99}],
        "machine": {"cores": 2, "cpu": "a CPU", "memory_gb": 25.3, "system": "Linux", "commit": "abc",
                    "versions": {"python": "3.11"}},
        "load_before": [0.1, 0.2, 0.3],
        "load_after": [1.0, 1.0, 1.0],
    }  # fmt: skip
    return made | changes


def test_the_figures_have_units() -> None:
    shown = dict(cards(result()))
    assert shown["Tick, median and p95"] == "20 ms and 20 ms"
    assert shown["Hand-overs"] == "9"
    assert shown["Bids changed"] == "1,234"
    assert shown["Billed"] == "$1.25"
    assert shown["Invariants"] == "1 checks, 0 violations"


def test_a_price_is_drawn_in_dollars_from_minute_to_minute_until_the_end() -> None:
    (trace,) = plots(result())[0]["traces"]
    assert (trace["x"], trace["y"]) == ([0.0, 1.0, 2.0], [1.5, 2.0, 2.0])


def test_every_plot_says_in_which_unit_it_is() -> None:
    assert [plot["id"] for plot in plots(result())] == [
        "prices", "utilisation", "durations", "movements", "money", "checks",
    ]  # fmt: skip
    assert all(plot["unit"] and plot["text"] and plot["traces"] for plot in plots(result()))


def test_settings_machine_versions_and_seed_are_listed() -> None:
    rows = dict(row for _, lines in tables(result()) for row in lines)
    assert {"seed", "cpu", "cores", "load before", "python", "commit", "arrivals", "events"} <= rows.keys()


def test_the_page_says_what_is_simulated_and_needs_nothing_else() -> None:
    page = render(result())
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "Hosts and workloads are simulated; tick, database, metering, ledger and events are real." in own
    assert "A market of 12,000 hosts" in own
    assert "Every check found all invariants kept." in own
    assert not re.search(r"(src|href)=", own)
    assert "plotly.js v" in page


def test_names_are_no_markup() -> None:
    own = re.sub(r"<script>.*?</script>", "", render(result()), flags=re.DOTALL)
    assert "<b>Fast" not in own


def test_violations_stand_on_top() -> None:
    page = render(result(violations=["I1: accelerator <x> is held twice"]))
    assert "1 violations ended the run" in page
    assert "I1: accelerator &lt;x&gt; is held twice" in page


@pytest.mark.slow
def test_the_command_runs_on_servers_of_its_own_and_writes_its_report(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    command = [sys.executable, "manage.py", "simulate", "scale", "--nodes", "20", "--minutes", "0.2", "--json"]
    done = subprocess.run(
        [*command, "--out", str(out)], cwd=ROOT, env=os.environ | NOWHERE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["violations"] == []
    assert told["ticks"]
    assert "A market of 20 hosts" in out.read_text()


def test_a_size_that_is_none_is_refused() -> None:
    command = [sys.executable, "manage.py", "simulate", "scale", "--nodes", "0"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | NOWHERE, capture_output=True, text=True)
    assert done.returncode != 0
    assert "0 is not at least 1" in done.stderr
