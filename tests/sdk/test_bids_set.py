"""`laissez bids set`: a table of bids from a file, against a server in memory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from laissez.sdk import bidfile
from laissez.sdk.bidfile import BidFileError, Line
from laissez.sdk.cli import cli
from tests.sdk.fake_server import TOKEN, FakeServer, running

HEAD = "job,accelerator_type,max_price_per_hour"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running(FakeServer()) as server:
        yield server


def bids_set(server: FakeServer, content: str | bytes, *words: str) -> Result:
    environment = {"LAISSEZ_TOKEN": TOKEN, "LAISSEZ_URL": server.url, "LAISSEZ_PROFILE": None, "HOME": "/nowhere"}
    return CliRunner().invoke(cli, ["bids", "set", "-", *words], env=environment, input=content)


def answered(server: FakeServer, *results: dict[str, Any]) -> None:
    counts = {state: sum(each["result"] == state for each in results) for state in ("changed", "unchanged", "refused")}
    server.refusals.append((200, counts | {"rows": list(results)}))


def result(job: str, state: str = "changed", **more: str) -> dict[str, Any]:
    return {"job": job, "accelerator_type": "nvidia-a10", "result": state} | more


def test_each_line_is_sent_as_a_row_and_counted(server: FakeServer) -> None:
    answered(server, result("job_1"), result("job_2", "unchanged"))
    outcome = bids_set(
        server, f"{HEAD},keep_price_per_hour,expected_version\njob_1,nvidia-a10,0.7,0.8,3\njob_2,x,cap,,\n"
    )
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout == "1 changed, 1 unchanged, 0 refused.\n"
    method, path, body = server.requests[0]
    assert (method, path) == ("POST", "bids/bulk")
    assert body["rows"] == [
        {
            "job": "job_1",
            "accelerator_type": "nvidia-a10",
            "max_price_per_hour": "0.7",
            "keep_price_per_hour": "0.8",
            "expected_version": 3,
        },
        {"job": "job_2", "accelerator_type": "x", "max_price_per_hour": "cap"},
    ]
    assert server.keys[0]


def test_what_is_refused_is_shown_by_its_line_and_ends_with_a_code_of_its_own(server: FakeServer) -> None:
    together = "Row 2 is of the same job and was refused, so none of the job's rows was changed."
    wrong = "Row 2, max_price_per_hour: '=1+1' is not a decimal number."
    answered(
        server,
        result("job_1", "refused", code="job_refused", detail=together),
        result("job_1", "refused", code="bad_price", detail=wrong),
    )
    outcome = bids_set(server, f"{HEAD}\n\njob_1,nvidia-a10,0.7\n\njob_1,nvidia-l4,=1+1\n")
    assert outcome.exit_code == 5
    assert "2 refused" in outcome.stdout
    assert "Line 5 is of the same job" in outcome.stdout
    assert "Line 5, max_price_per_hour: '=1+1'" in outcome.stdout


def test_control_characters_of_an_answer_drive_no_terminal(server: FakeServer) -> None:
    answered(server, result("job_1", "refused", code="bad_value", detail="\x1b[2J"))
    assert "\x1b" not in bids_set(server, f"{HEAD}\njob_1,a,1\n").stdout


def test_programs_get_one_object_a_row(server: FakeServer) -> None:
    answered(server, result("job_1"))
    (line,) = bids_set(server, f"{HEAD}\njob_1,nvidia-a10,0.7\n", "--json").stdout.splitlines()
    assert json.loads(line) == {"line": 2, **result("job_1")}


def test_a_dry_run_says_that_nothing_was_written(server: FakeServer) -> None:
    answered(server, result("job_1"))
    assert "(nothing was written)" in bids_set(server, f"{HEAD}\njob_1,nvidia-a10,0.7\n", "--dry-run").stdout


def test_a_spreadsheets_mark_semicolons_and_blanks_are_taken_as_they_are(server: FakeServer) -> None:
    answered(server, result("job_1"))
    text = "\ufeff" + HEAD.replace(",", ";") + "\r\n job_1 ; nvidia-a10 ; 0.7 \r\n;;\r\n"
    assert bids_set(server, text.encode()).exit_code == 0
    assert server.requests[0][2]["rows"][0]["max_price_per_hour"] == "0.7"


WRONG = [
    (b"", "does not name job, accelerator_type, max_price_per_hour"),
    (b"job,accelerator_type,price\n", "does not name max_price_per_hour"),
    (f"{HEAD},note\n".encode(), "'note' in the first line is not a column here"),
    (f"{HEAD},job\n".encode(), "names a column twice"),
    (f"{HEAD}\njob_1,a\n".encode(), "line 2 has 2 cells, not 3"),
    (f"{HEAD}\njob_1,,1\n".encode(), "line 2: accelerator_type is empty; fill it in or drop the line"),
    (f"{HEAD},expected_version\njob_1,a,1,x\n".encode(), "line 2: expected_version is 'x', not a whole number"),
    (f"{HEAD}\njob_1,a,1\nj\xf6b,a,1\n".encode("latin-1"), "line 3 is not UTF-8: save the table as"),
    (f"{HEAD}\n".encode("utf-16-le"), "contains NULs"),
    (f'{HEAD}\n"job_1,a,1\n'.encode(), "is it a CSV file?"),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_a_file_that_cannot_be_read_is_refused_with_line_field_and_remedy(
    server: FakeServer, content: bytes, said: str
) -> None:
    outcome = bids_set(server, content)
    assert outcome.exit_code == 2
    assert said in outcome.stderr
    assert server.requests == []


def test_every_fault_of_a_file_is_named_but_no_more_than_can_be_read(server: FakeServer) -> None:
    outcome = bids_set(server, f"{HEAD}\n" + "job_1,,1\n" * 30)
    assert outcome.stderr.count("accelerator_type is empty") == bidfile.SHOWN_FAULTS
    assert "... and 10 more" in outcome.stderr


def test_a_file_that_is_not_there_is_said_so(server: FakeServer, tmp_path: Path) -> None:
    environment = {"LAISSEZ_TOKEN": TOKEN, "LAISSEZ_URL": server.url, "HOME": str(tmp_path)}
    outcome = CliRunner().invoke(cli, ["bids", "set", str(tmp_path / "none.csv")], env=environment)
    assert outcome.exit_code == 2
    assert "cannot be read" in outcome.stderr


def test_rows_of_one_job_are_sent_together_however_many_requests_it_takes() -> None:
    lines = [Line(number, {"job": f"job_{number % 4}"}) for number in range(12)]
    parts = list(bidfile.batches(lines, most=7))
    assert [len(part) for part in parts] == [6, 6]
    assert [len({line.row["job"] for line in part}) for part in parts] == [2, 2]
    with pytest.raises(BidFileError):
        bidfile.parse(b"x", name="it")
