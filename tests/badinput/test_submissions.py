"""A submission with something wrong in it is refused with every row and field named, and leaves no trace."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django.plugin import DjangoDbBlocker

from tests import scenes, soundness
from tests.asking import Asker, as_tenant, faults
from tests.flushing import standing
from workers.models import Job

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
NUL, SURROGATE = "\x00", "\ud800"


@pytest.fixture(scope="module", autouse=True)
def asker(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Asker]:
    """One for all tests, and two clusters."""
    with standing(django_db_blocker):
        scenes.make_cluster()
        scenes.make_cluster("video", {"xilinx-u30": ("0.1", "1.0")})
        yield as_tenant(scenes.make_tenant())


def refused(asker: Asker, body: Any) -> list[tuple[str, str]]:
    """Submit, see that nothing was written, and return the faults."""
    before = soundness.contents()
    response = asker.post("/api/v1/jobs", body)
    assert response.status_code == 400, response.content
    assert soundness.changed(before) == set()
    return faults(response)


def rows(*given: Any) -> dict[str, Any]:
    return scenes.body((A10, "1.0")) | {"rows": list(given)}


def row(kind: Any = A10, price: Any = "1.0", **fields: Any) -> dict[str, Any]:
    return {"accelerator_type": kind, "max_price_per_hour": price, **fields}


TABLES = {
    "unknown type": ([row("nvidia-h1000")], "unknown_type", "/rows/0/accelerator_type"),
    "type of another cluster": ([row(), row("xilinx-u30")], "foreign_type", "/rows/1/accelerator_type"),
    "type that is a number": ([row(7)], "unknown_type", "/rows/0/accelerator_type"),
    "type that is a list": ([row([A10])], "unknown_type", "/rows/0/accelerator_type"),
    "no type": ([{"max_price_per_hour": "1.0"}], "unknown_type", "/rows/0/accelerator_type"),
    "repeated type": ([row(), row(L4), row()], "repeated_type", "/rows/2/accelerator_type"),
    "negative price": ([row(price="-1")], "bad_price", "/rows/0/max_price_per_hour"),
    "zero price": ([row(price="0")], "bad_price", "/rows/0/max_price_per_hour"),
    "infinite price": ([row(price="Infinity")], "bad_price", "/rows/0/max_price_per_hour"),
    "price that is no number": ([row(price="NaN")], "bad_price", "/rows/0/max_price_per_hour"),
    "price that is a word": ([row(price="dear")], "bad_price", "/rows/0/max_price_per_hour"),
    "price that is a float": ([row(price=0.7)], "bad_price", "/rows/0/max_price_per_hour"),
    "price that is a list": ([row(price=["1"])], "bad_price", "/rows/0/max_price_per_hour"),
    "no price": ([{"accelerator_type": A10}], "bad_price", "/rows/0/max_price_per_hour"),
    "too precise price": ([row(), row(L4, "0.6870001")], "bad_price", "/rows/1/max_price_per_hour"),
    "price beyond all hardware": ([row(price="1e30")], "bad_price", "/rows/0/max_price_per_hour"),
    "keep price that is a word": ([row(keep_price_per_hour="cap")], "bad_price", "/rows/0/keep_price_per_hour"),
    "maximum under base": ([row(price="0.605999")], "max_under_base", "/rows/0/max_price_per_hour"),
    "keep under maximum": ([row(keep_price_per_hour="0.99")], "keep_under_max", "/rows/0/keep_price_per_hour"),
    "keep under the cap": (
        [row(price="cap", keep_price_per_hour="1.99")],
        "keep_under_max",
        "/rows/0/keep_price_per_hour",
    ),
    "empty table": ([], "empty_table", "/rows"),
    "row that is a text": ([row(), "nvidia-l4"], "bad_row", "/rows/1"),
    "too many rows": ([row()] * 17, "too_many_rows", "/rows"),
    "unknown field of a row": ([row(price_limit="1")], "unknown_field", "/rows/0/price_limit"),
    "hours that are no number": ([row(expected_hours="long")], "bad_value", "/rows/0/expected_hours"),
    "hours too few for arithmetic": ([row(expected_hours="1e-999999")], "bad_value", "/rows/0/expected_hours"),
    "hours below zero": ([row(expected_hours="-1")], "bad_value", "/rows/0/expected_hours"),
    "artefact of a row that is not there": ([row(artifact="art_none")], "unknown_artifact", "/rows/0/artifact"),
    "command of a row that is a text": ([row(command="python x")], "bad_value", "/rows/0/command"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_bad_launch_table_is_named_by_row_and_field(asker: Asker, case: str) -> None:
    table, code, pointer = TABLES[case]
    assert refused(asker, rows(*table)) == [(code, pointer)]


def test_all_faults_are_named_at_once(asker: Asker) -> None:
    body = rows(row("nope"), row(price="-1"), row(L4, "0.1")) | {"name": "", "colour": "blue"}
    assert sorted(refused(asker, body)) == [
        ("bad_price", "/rows/1/max_price_per_hour"),
        ("bad_value", "/name"),
        ("max_under_base", "/rows/2/max_price_per_hour"),
        ("unknown_field", "/colour"),
        ("unknown_type", "/rows/0/accelerator_type"),
    ]


FIELDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown cluster": ({"cluster": "gem"}, "unknown_cluster", "/cluster"),
    "name with NUL": ({"name": f"a{NUL}b"}, "bad_value", "/name"),
    "name that no database can hold": ({"name": f"a{SURROGATE}b"}, "bad_value", "/name"),
    "too long name": ({"name": "n" * 121}, "bad_value", "/name"),
    "blank name": ({"name": "  "}, "bad_value", "/name"),
    "name that is a number": ({"name": 7}, "bad_value", "/name"),
    "command that is a text": ({"command": "python train.py"}, "bad_value", "/command"),
    "command without a word": ({"command": []}, "bad_value", "/command"),
    "command with NUL": ({"command": ["python", NUL]}, "bad_value", "/command/1"),
    "reserved variable": ({"environment": {"LAISSEZ_JOB": "x"}}, "bad_value", "/environment/LAISSEZ_JOB"),
    "variable that is a number": ({"environment": {"SEED": 7}}, "bad_value", "/environment/SEED"),
    "unknown policy": ({"agent": {"policy": "win"}}, "unknown_policy", "/agent/policy"),
    "policy that is a list": ({"agent": {"policy": ["hold"]}}, "unknown_policy", "/agent/policy"),
    "two agents": ({"agent": {"policy": "hold", "class": "a:B"}}, "bad_value", "/agent"),
    "agent that is a text": ({"agent": "hold"}, "bad_value", "/agent"),
    "callback without a command": ({"data_load": {}}, "bad_value", "/data_load/command"),
    "callback for ever": (
        {"save": {"command": ["s"], "timeout_seconds": 1e9}},
        "bad_value",
        "/save/timeout_seconds",
    ),
    "no attempts": ({"max_attempts": 0}, "bad_value", "/max_attempts"),
    "attempts that are a flag": ({"max_attempts": True}, "bad_value", "/max_attempts"),
    "negative budget": ({"budget": "-1"}, "bad_value", "/budget"),
    "budget that is a float": ({"budget": 1.5}, "bad_value", "/budget"),
    "unknown limit": ({"limits": {"gpus": 1}}, "unknown_field", "/limits/gpus"),
    "too little memory": ({"limits": {"memory_bytes": 1}}, "bad_value", "/limits/memory_bytes"),
    "unknown way to move": ({"migration": "teleport"}, "bad_value", "/migration"),
    "unknown upgrade": ({"upgrade": {}}, "bad_value", "/upgrade"),
    "standby that is a text": ({"standby": "yes"}, "bad_value", "/standby"),
    "artefact that is not there": ({"artifact": "art_none"}, "unknown_artifact", "/artifact"),
    "unknown field": ({"colour": "blue"}, "unknown_field", "/colour"),
}


@pytest.mark.parametrize("case", FIELDS)
def test_a_bad_field_is_named(asker: Asker, case: str) -> None:
    change, code, pointer = FIELDS[case]
    assert refused(asker, scenes.body((A10, "1.0"), **change)) == [(code, pointer)]


UNSTORABLE: dict[str, tuple[Callable[[str], dict[str, Any]], str]] = {
    "cluster": (lambda text: {"cluster": text}, "/cluster"),
    "type": (lambda text: {"rows": [row(text)]}, "/rows/0/accelerator_type"),
    "price": (lambda text: {"rows": [row(price=text)]}, "/rows/0/max_price_per_hour"),
    "artefact": (lambda text: {"artifact": text}, "/artifact"),
    "artefact of a row": (lambda text: {"rows": [row(artifact=text)]}, "/rows/0/artifact"),
    "variable": (lambda text: {"environment": {"A": text}}, "/environment/A"),
    "class of an agent": (lambda text: {"agent": {"class": f"a:{text}"}}, "/agent/class"),
    "parameter of an agent": (lambda text: {"agent": {"policy": "hold", "params": {"x": [text]}}}, "/agent/params/x/0"),
    "member": (lambda text: {"agent": {"policy": "hold", "params": {text: 1}}}, "/agent/params"),
}


@pytest.mark.parametrize("character", [NUL, SURROGATE], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("case", UNSTORABLE)
def test_a_character_that_no_database_can_hold_is_refused_where_it_stands(
    asker: Asker, case: str, character: str
) -> None:
    change, pointer = UNSTORABLE[case]
    found = refused(asker, scenes.body((A10, "1.0")) | change(character))
    assert [where for _, where in found] == [pointer]


BODIES = {
    "no JSON": ("{", "parse_error"),
    "bytes": (b"\xff\xfe", "parse_error"),
    "a list": ([], "bad_body"),
    "a text": ("hello", "parse_error"),
    "null": (None, "bad_body"),
    "a number that is none": ('{"name": NaN}', "parse_error"),
    "a number without end": ('{"agent": {"policy": "hold", "params": {"x": 1e999}}}', "bad_value"),
    "too many digits": ('{"name": ' + "9" * 5000 + "}", "parse_error"),
    "too deep": ("[" * 100_000, "parse_error"),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_is_no_object_is_refused(asker: Asker, case: str) -> None:
    body, code = BODIES[case]
    assert [found for found, _ in refused(asker, body)] == [code]


def test_a_body_of_another_media_type_is_refused(asker: Asker) -> None:
    response = asker.post("/api/v1/jobs", "name=x", Content_Type="application/x-www-form-urlencoded")
    assert (response.status_code, faults(response)) == (415, [("unsupported_media_type", "")])


def test_a_job_that_the_tenant_cannot_back_is_refused_with_what_is_needed_and_what_there_is() -> None:
    asker = as_tenant(scenes.make_tenant("poor", dollars=0))
    before = soundness.contents()
    response = asker.post("/api/v1/jobs", scenes.body((A10, "0.72"), (L4, "0.5")))
    assert (response.status_code, faults(response)) == (402, [("insufficient_funds", "")])
    assert "0.020000 are needed" in response.json()["detail"].replace("$", "")
    assert "0.000000 are available" in response.json()["detail"].replace("$", "")
    assert soundness.changed(before) == set()


def test_a_dry_run_of_a_bad_submission_says_the_same(asker: Asker) -> None:
    response = asker.post("/api/v1/jobs?dry_run=true", rows(row(price="0")))
    assert (response.status_code, faults(response)) == (400, [("bad_price", "/rows/0/max_price_per_hour")])


def test_a_dry_run_of_a_good_one_writes_nothing(asker: Asker) -> None:
    before = soundness.contents()
    assert asker.post("/api/v1/jobs?dry_run=true", scenes.body((A10, "1.0"))).status_code == 200
    assert soundness.changed(before) == set()
    assert not Job.objects.exists()
