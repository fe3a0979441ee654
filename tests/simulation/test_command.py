import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOWHERE = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing", "REDIS_URL": "redis://127.0.0.1:1/0"}


def simulate(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "manage.py", "simulate", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ | NOWHERE, capture_output=True, text=True, timeout=60)


def test_the_paper_is_one_json_object_and_needs_no_database():
    done = simulate("paper", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    expected = {"a10_prices", "bids", "leases", "migrations", "bills", "finish_minute"}
    assert expected <= report.keys()
    assert [point["price"][:5] for point in report["a10_prices"]] == ["0.606", "0.687", "0.652", "0.606"]


def test_settings_change_the_run_and_text_is_for_reading():
    done = simulate("paper", "--restore-seconds", "5")
    assert done.returncode == 0, done.stderr
    assert "app-b    pays $0.147983 and ends at 16.445 min" in done.stdout


def test_nonsense_is_refused_by_name():
    done = simulate("paper", "--notice-seconds", "-1")
    assert done.returncode != 0
    assert "'-1' is not between 0 and 86400 seconds" in done.stderr
