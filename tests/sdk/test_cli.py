"""The `laissez` command against a server in memory, over real HTTP: output, exit codes, profiles."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from laissez.sdk.cli import cli
from tests.sdk.fake_server import EXPLANATION, TOKEN, FakeServer, problem, running

JOB_YAML = """
name: mine
cluster: gemm
command: [python, train.py]
rows:
  - {accelerator_type: nvidia-a10, max_price_per_hour: 0.70}
  - {accelerator_type: nvidia-l4, max_price_per_hour: cap}
"""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running(FakeServer()) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text("print(1)")
    (tmp_path / "job" / "job.yaml").write_text(JOB_YAML)
    return tmp_path / "job" / "job.yaml"


def laissez(server: FakeServer, home: Path, *words: str, token: str | None = TOKEN, url: str | None = "") -> Result:
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": None, "LAISSEZ_TOKEN": token, "LAISSEZ_PROFILE": None}
    environment["LAISSEZ_URL"] = server.url if url == "" else url
    return CliRunner().invoke(cli, words, env=environment)


def test_a_job_is_packed_uploaded_and_submitted_from_any_folder(server: FakeServer, home: Path, job_file: Path):
    result = laissez(server, home, "job", "submit", str(job_file))
    assert result.exit_code == 0
    assert "Submitted job_0." in result.stdout
    assert EXPLANATION in result.stdout
    assert "$0.7000/h" in result.stdout
    assert server.jobs["job_0"]["artifact"] == "art_0"
    assert server.jobs["job_0"]["rows"][0]["max_price_per_hour"] == "0.70"


def test_a_dry_run_uploads_and_writes_nothing(server: FakeServer, home: Path, job_file: Path):
    result = laissez(server, home, "job", "submit", str(job_file), "--dry-run")
    assert result.exit_code == 0
    assert "Nothing was written" in result.stdout
    assert "warning: the L4 row is below the price" in result.stdout
    assert not server.jobs
    assert not server.artifacts


def test_one_key_never_submits_twice(server: FakeServer, home: Path, job_file: Path):
    for _ in range(2):
        result = laissez(server, home, "job", "submit", str(job_file), "-q", "--idempotency-key", "monday")
        assert result.stdout == "job_0\n"
    assert len(server.jobs) == 1


def test_a_bad_job_file_is_refused_before_anything_is_sent(server: FakeServer, home: Path, job_file: Path):
    job_file.write_text(JOB_YAML.replace("0.70", "-1"))
    result = laissez(server, home, "job", "submit", str(job_file))
    assert result.exit_code == 2
    assert "rows[0].max_price_per_hour: -1 is not above zero" in result.stderr
    assert not server.requests


def test_waiting_ends_with_the_job(server: FakeServer, home: Path, job_file: Path):
    server.states_to_come = ["running", "succeeded"]
    assert laissez(server, home, "job", "submit", str(job_file), "--wait").exit_code == 0
    server.states_to_come = ["failed"]
    result = laissez(server, home, "job", "submit", str(job_file), "--wait")
    assert result.exit_code == 1
    assert f"failed: {EXPLANATION}" in result.stderr


def test_a_wait_that_times_out_says_that_the_job_goes_on(server: FakeServer, home: Path, job_file: Path):
    result = laissez(server, home, "job", "submit", str(job_file), "--wait", "--timeout", "0")
    assert result.exit_code == 9
    assert "job_0 is still queued; it goes on" in result.stderr


def test_showing_a_job_says_why_it_is_where_it_is(server: FakeServer, home: Path):
    server.jobs["job_0"] = {
        "job": "job_0",
        "name": "mine",
        "cluster": "gemm",
        "state": "queued",
        "explanation": EXPLANATION,
        "progress": 0.358,
        "cost": "0.072300",
        "award": {"accelerator_type": "nvidia-l4", "since": None},
        "rows": [{"accelerator_type": "nvidia-a10", "max_price_per_hour": "0.652", "keep_price_per_hour": None}],
        "leases": [{"lease": "lse_1", "accelerator_type": "nvidia-a10", "state": "closed", "reason": "outbid"}],
        "migrations": [{"from": "nvidia-a10", "to": "nvidia-l4", "state": "done", "resume_seconds": "0.61"}],
        "checkpoints": [],
    }
    text = laissez(server, home, "job", "show", "job_0").stdout
    for part in (f"queued: {EXPLANATION}", "35.8 %", "$0.0723", "nvidia-l4", "$0.6520/h", "outbid", "0.61 s"):
        assert part in text
    assert json.loads(laissez(server, home, "job", "show", "job_0", "--json").stdout) == server.jobs["job_0"]


def test_a_name_cannot_drive_the_terminal(server: FakeServer, home: Path):
    server.jobs["job_0"] = {"job": "job_0", "name": "\x1b[2Jgone", "cluster": "gemm", "state": "queued"}
    assert "\x1b" not in laissez(server, home, "job", "show", "job_0").stdout


def test_lists_are_tables_or_a_json_object_a_line_or_ids(server: FakeServer, home: Path):
    assert "Submit one" in laissez(server, home, "job", "list").stdout
    for name in ("job_0", "job_1"):
        server.jobs[name] = {"job": name, "name": name, "state": "running", "cost": None}
    assert laissez(server, home, "job", "list").stdout.splitlines()[0].split()[:3] == ["job", "name", "state"]
    assert [json.loads(line)["job"] for line in laissez(server, home, "job", "list", "--json").stdout.splitlines()] == [
        "job_0",
        "job_1",
    ]
    assert laissez(server, home, "job", "list", "--quiet", "--state", "running").stdout == "job_0\njob_1\n"
    assert laissez(server, home, "job", "list", "--quiet", "--state", "queued").stdout == ""


def test_logs_are_read_to_their_end_and_errors_go_to_standard_error(server: FakeServer, home: Path):
    server.jobs["job_0"] = {"job": "job_0", "state": "succeeded"}
    server.logs = [
        {"offset": 0, "stream": "stdout", "text": "step 1\n"},
        {"offset": 0, "stream": "stderr", "text": "careful\n"},
        {"offset": 7, "stream": "stdout", "text": "step 2\n"},
    ]
    for options in ((), ("-f",)):
        result = laissez(server, home, "job", "logs", "job_0", *options)
        assert result.stdout == "step 1\nstep 2\n"
        assert result.stderr == "careful\n"


def test_the_events_of_a_stream_are_read_to_their_end(server: FakeServer, home: Path):
    server.events = [
        {
            "type": "org.laissez.market.lease.active.v1",
            "subject": f"lse_{number}",
            "time": "2026-01-01T00:00:00Z",
            "sequence": str(number),
            "data": {"state": "active", "reason": None},
        }
        for number in (1, 2, 3)
    ]
    shown = laissez(server, home, "events", "job:job_0").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["1", "2", "3"]
    assert shown[0].endswith("market.lease.active             lse_1  state=active")
    told = laissez(server, home, "events", "job:job_0", "--after", "2", "--json").stdout
    assert json.loads(told) == server.events[2]
    assert laissez(server, home, "events", "job:job_0", "--quiet").stdout == "1\n2\n3\n"


def test_following_logs_ends_with_the_job(server: FakeServer, home: Path):
    server.jobs["job_0"] = {"job": "job_0", "state": "running"}
    server.logs = [{"offset": 0, "stream": "stdout", "text": "step 1\n"}]
    server.states_to_come = ["running", "succeeded"]
    assert laissez(server, home, "job", "logs", "job_0", "-f").stdout == "step 1\n"


def test_every_verb_reaches_its_endpoint(server: FakeServer, home: Path):
    server.jobs["job_0"] = {"job": "job_0", "state": "running", "explanation": "Runs."}
    for verb in ("stop", "resume", "checkpoint", "cancel"):
        assert laissez(server, home, "job", verb, "job_0").exit_code == 0
    assert laissez(server, home, "job", "migrate", "job_0", "--moment", "now").exit_code == 0
    assert [path for _, path, _ in server.requests] == [
        f"jobs/job_0/{verb}" for verb in ("stop", "resume", "checkpoint", "cancel", "migrate")
    ]
    assert server.requests[-1][2] == {"moment": "now"}


def test_bids_are_changed_row_by_row_and_the_others_stay(server: FakeServer, home: Path):
    server.jobs["job_0"] = {
        "job": "job_0",
        "state": "running",
        "rows": [
            {"accelerator_type": "nvidia-a10", "max_price_per_hour": "0.652", "state": "outbid"},
            {"accelerator_type": "nvidia-l4", "max_price_per_hour": "2", "keep_price_per_hour": None},
        ],
    }
    result = laissez(server, home, "job", "bids", "job_0", "--set", "nvidia-a10=0.80", "--keep", "nvidia-l4=cap")
    assert result.exit_code == 0
    assert server.jobs["job_0"]["rows"] == [
        {"accelerator_type": "nvidia-a10", "max_price_per_hour": "0.80", "keep_price_per_hour": None},
        {"accelerator_type": "nvidia-l4", "max_price_per_hour": "2", "keep_price_per_hour": "cap"},
    ]
    for change in ("nvidia-a10=-1", "nvidia-h100=1", "nvidia-a10"):
        assert laissez(server, home, "job", "bids", "job_0", "--set", change).exit_code == 2


def test_a_row_can_be_added_and_another_dropped(server: FakeServer, home: Path):
    server.jobs["job_0"] = {
        "job": "job_0",
        "state": "queued",
        "rows": [{"accelerator_type": "nvidia-a10", "max_price_per_hour": "0.652", "keep_price_per_hour": None}],
    }
    words = ("job", "bids", "job_0", "--add", "nvidia-l4=0.60", "--drop", "nvidia-a10")
    assert laissez(server, home, *words).exit_code == 0
    assert server.jobs["job_0"]["rows"] == [{"accelerator_type": "nvidia-l4", "max_price_per_hour": "0.60"}]
    assert laissez(server, home, "job", "bids", "job_0", "--drop", "nvidia-h100").exit_code == 2


def test_the_market_shows_prices_with_their_unit_and_their_age(server: FakeServer, home: Path):
    for words in (["market", "show"], ["market", "show", "gemm"]):
        text = laissez(server, home, *words).stdout
        assert "gemm, 0.4 s old" in text
        assert "$0.6872/h" in text


def test_the_history_of_a_price_shows_a_dash_where_nothing_is_known(server: FakeServer, home: Path):
    lines = laissez(server, home, "market", "history", "gemm", "nvidia-a10").stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["2026-11-29", "12:00:00", "UTC", "$0.6872/h", "$0.6500/h"],
        ["2026-11-29", "12:30:00", "UTC", "—", "—"],
    ]


def test_a_receipt_says_what_set_each_price_and_where_to_look_next(server: FakeServer, home: Path):
    text = laissez(server, home, "market", "receipt", "gemm", "42").stdout
    assert "gemm #42, 2026-11-29 12:00:00 UTC, rule launch_table v1" in text
    assert "losing bid" in text
    assert "previous #40" in text
    assert "next" not in text


@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [(401, None, 3), (404, None, 4), (409, None, 5), (422, "insufficient_funds", 7), (500, None, 8)],
)
def test_a_refusal_becomes_its_exit_code_and_a_sentence(
    server: FakeServer, home: Path, status: int, code: str | None, exit_code: int
):
    server.refusals = [(status, problem(status, "Not today.", code=code))]
    result = laissez(server, home, "job", "show", "job_0")
    assert result.exit_code == exit_code
    assert result.stderr.startswith("laissez: Not today.")


def test_without_a_server_it_says_how_to_name_one(server: FakeServer, home: Path):
    result = laissez(server, home, "job", "list", url=None)
    assert result.exit_code == 2
    assert "laissez login" in result.stderr


def test_login_stores_a_private_profile_that_later_commands_use(server: FakeServer, home: Path):
    assert laissez(server, home, "login", "--url", server.url, "--token", TOKEN, token=None, url=None).exit_code == 0
    path = home / ".config" / "laissez" / "config.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert laissez(server, home, "job", "list", token=None, url=None).exit_code == 0


def test_login_stores_nothing_that_the_server_refuses(server: FakeServer, home: Path):
    result = laissez(server, home, "login", "--url", server.url, "--token", "lz_live_wrong", token=None, url=None)
    assert result.exit_code == 3
    assert not (home / ".config").exists()


def test_a_stored_token_is_never_sent_to_another_address(server: FakeServer, home: Path):
    words = ("login", "--url", "http://laissez.test", "--token", TOKEN, "--no-verify")
    assert laissez(server, home, *words, token=None, url=None).exit_code == 0
    assert laissez(server, home, "job", "list", "--url", server.url, token=None, url=None).exit_code == 3


def test_doctor_finds_what_is_wrong_and_says_what_to_do(server: FakeServer, home: Path):
    assert laissez(server, home, "doctor").exit_code == 0
    result = laissez(server, home, "doctor", token="lz_live_wrong")
    assert result.exit_code == 3
    assert "PROBLEM  token: No valid token." in result.stdout
    laissez(server, home, "login", "--url", server.url, "--token", TOKEN)
    (home / ".config" / "laissez" / "config.toml").chmod(0o644)
    assert "chmod 600" in laissez(server, home, "doctor").stdout


def test_version_and_completion_are_printed(server: FakeServer, home: Path):
    assert laissez(server, home, "version").stdout.startswith("laissez ")
    assert "_LAISSEZ_COMPLETE" in laissez(server, home, "completion", "bash").stdout
