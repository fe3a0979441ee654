"""job.yaml: what is accepted, and that every fault is named with its row and field."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from laissez.sdk.jobfile import JobFileError, load

GOOD: dict[str, Any] = {
    "name": "mine",
    "cluster": "gemm",
    "command": ["python", "train.py"],
    "rows": [
        {"accelerator_type": "nvidia-a10", "max_price_per_hour": "0.70", "expected_hours": "0.5"},
        {"accelerator_type": "nvidia-l4", "max_price_per_hour": "cap"},
    ],
}


def written(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


def faults_of(folder: Path, **changes: Any) -> list[str]:
    kept = {name: value for name, value in {**GOOD, **changes}.items() if value is not Ellipsis}
    with pytest.raises(JobFileError) as refused:
        load(written(folder, yaml.safe_dump(kept)))
    return [str(fault) for fault in refused.value.faults]


def row(**changes: Any) -> list[dict[str, Any]]:
    return [{"accelerator_type": "nvidia-a10", "max_price_per_hour": "0.70", **changes}]


def test_a_good_file_becomes_a_body_with_its_directory_beside_it(tmp_path: Path):
    found = load(written(tmp_path, yaml.safe_dump(GOOD)))
    assert found.spec == GOOD
    assert found.directories == {None: tmp_path.resolve()}
    assert found.with_artifacts({None: "art_1"})["artifact"] == "art_1"


def test_a_row_may_bring_a_directory_of_its_own(tmp_path: Path):
    (tmp_path / "l4").mkdir()
    rows = [GOOD["rows"][0], {**GOOD["rows"][1], "directory": "l4"}]
    found = load(written(tmp_path, yaml.safe_dump({**GOOD, "rows": rows})))
    assert found.directories == {None: tmp_path.resolve(), 1: (tmp_path / "l4").resolve()}
    assert found.with_artifacts({None: "art_1", 1: "art_2"})["rows"][1]["artifact"] == "art_2"
    assert "directory" not in found.spec["rows"][1]


def test_a_price_without_quotes_keeps_every_digit_written(tmp_path: Path):
    text = yaml.safe_dump(GOOD).replace("'0.70'", "0.652100")
    assert load(written(tmp_path, text)).spec["rows"][0]["max_price_per_hour"] == "0.652100"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("-1", "-1 is not above zero"),
        ("0", "0 is not above zero"),
        ("NaN", "NaN is not finite"),
        ("inf", "inf is not finite"),
        ("0.1234567", "0.1234567 has more than 6 decimals"),
        ("cheap", "'cheap' is not a price; write US dollars per hour, such as 0.652"),
        (True, "True is not a price; write US dollars per hour, such as 0.652"),
    ],
)
def test_a_bad_price_is_named_with_its_row_and_field(tmp_path: Path, value: object, why: str):
    assert faults_of(tmp_path, rows=row(max_price_per_hour=value)) == [f"rows[0].max_price_per_hour: {why}"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"rows": []}, "rows: must list at least one accelerator type to bid for"),
        ({"rows": row() + row()}, "rows[1].accelerator_type: nvidia-a10 stands in the table twice"),
        (
            {"rows": row(keep_price_per_hour="0.5")},
            "rows[0].keep_price_per_hour: is under max_price_per_hour: a job that runs would be worth less to itself",
        ),
        (
            {"rows": [{"accelerator_type": "x"}]},
            "rows[0].max_price_per_hour: is required; the word cap bids the cap price",
        ),
        ({"rows": row(expected_hours="-2")}, "rows[0].expected_hours: -2 is not above zero"),
        ({"cluster": ...}, "cluster: is required, as text"),
        ({"command": "python train.py"}, "command: must be a list of words, such as [python, train.py]"),
        ({"directory": "nowhere"}, "directory: 'nowhere' is not a directory beside the job file"),
        ({"upgrade": "sometimes"}, "upgrade: is 'sometimes'; choose one of never, at_checkpoint, now"),
        ({"heartbeat_seconds": 0}, "heartbeat_seconds: is 0; it must be a whole number of at least 1"),
        ({"agent": {"policy": "hold", "command": ["x"]}}, "agent: must name one of policy, class and command"),
        ({"environment": {"SEED": 3}}, "environment: must map names to text; quote numbers"),
        (
            {"agent": {"policy": "hold", "timeout_seconds": "soon"}},
            "agent.timeout_seconds: 'soon' is not a number of seconds",
        ),
        ({"data_load": {"command": "x"}}, "data_load.command: must be a list of words, such as [python, train.py]"),
    ],
)
def test_each_fault_says_where_and_what(tmp_path: Path, changes: dict[str, Any], fault: str):
    assert faults_of(tmp_path, **changes) == [fault]


def test_amounts_become_text_and_seconds_numbers(tmp_path: Path):
    text = yaml.safe_dump({**GOOD, "budget": 5}) + "agent: {policy: hold, timeout_seconds: 2.5}\n"
    spec = load(written(tmp_path, text)).spec
    assert (spec["budget"], spec["agent"]["timeout_seconds"]) == ("5", 2.5)


def test_an_unknown_field_is_a_fault_since_it_may_be_a_typing_error(tmp_path: Path):
    assert faults_of(tmp_path, max_price=1)[0].startswith("max_price: is not a field of a job")
    assert faults_of(tmp_path, rows=row(max="1"))[0].startswith("rows[0].max: is not a field of a row")


def test_all_faults_are_told_at_once(tmp_path: Path):
    assert len(faults_of(tmp_path, cluster=..., upgrade="x", rows=row(max_price_per_hour="0"))) == 3


@pytest.mark.parametrize(
    ("text", "why"), [("- a\n- b\n", "must be a mapping"), ("a: [", "is not YAML"), ("!!python/none x", "is not YAML")]
)
def test_what_is_not_a_job_file_is_said_plainly(tmp_path: Path, text: str, why: str):
    with pytest.raises(JobFileError, match=why):
        load(written(tmp_path, text))


def test_a_missing_file_is_said_plainly(tmp_path: Path):
    with pytest.raises(JobFileError, match="cannot be read"):
        load(tmp_path / "job.yaml")
