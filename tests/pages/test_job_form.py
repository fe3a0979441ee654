"""The job form: the API's own check at the fields, nothing typed is lost, and one form queues one job."""

import json
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.utils.html import escape

from laissez.events import transact
from laissez.sdk import archive, jobfile
from markets.services import submission
from tenants.models import Hold, Member
from tests import scenes
from tests.asking import as_tenant
from tests.pages.floor import A10, L4, TRAINIUM, Floor, make_member
from tests.pages.reading import reader, text_of
from workers.models import Artifact, Job

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('1')</script>\N{RIGHT-TO-LEFT OVERRIDE}{{ 7 }}"


@pytest.fixture(autouse=True)
def own_artifacts(settings: Any, tmp_path: Path) -> None:
    settings.ARTIFACT_DIR = tmp_path / "artifacts"


@pytest.fixture
def ben(floor: Floor) -> Client:
    """Somebody with funds."""
    return reader("ben")


def typed(*rows: Mapping[str, str], **fields: str) -> dict[str, str]:
    """What a browser sends: `agent_policy` is the field `agent-policy`."""
    job = {"name": "sweep", "cluster": "gemm", "command": "python train.py", "key": "k1"}
    job |= {
        (name.replace("_", "-", 1) if name.startswith(("agent_", "save_", "limits_")) else name): value
        for name, value in fields.items()
    }
    for place, row in enumerate(rows or ({"accelerator_type": L4, "max_price_per_hour": "0.5"},)):
        job |= {f"rows-{place}-{name}": value for name, value in row.items()}
    return job


def bid(kind: str, price: str, **fields: str) -> dict[str, str]:
    return {"accelerator_type": kind, "max_price_per_hour": price, **fields}


def values(page: HttpResponse) -> dict[str, str]:
    """The text fields of a page by their names."""
    found = re.findall(r'<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"', page.content.decode())
    return dict(found)


def fault_at(page: HttpResponse, name: str) -> str:
    found = re.search(rf'<span class="error" id="e-{re.escape(name)}"[^>]*>([^<]*)</span>', page.content.decode())
    assert found is not None, name
    return found[1].strip()


def test_the_form_opens_with_one_row_and_the_prices_of_today(floor: Floor) -> None:
    text = text_of(reader("ben").get("/jobs/new"))
    assert "$0.6060/h now, base $0.6060/h, cap $2.0000/h" in text
    assert "Available $100.0000" in text


def test_a_submitted_form_queues_the_job_and_shows_it(floor: Floor) -> None:
    answer = reader("ben").post("/jobs/new", typed())
    job = Job.objects.get()
    assert answer["Location"] == f"/jobs/{job.public_id}"
    assert (job.tenant, job.name, job.state) == (floor.birch, "sweep", Job.State.QUEUED)
    assert job.spec["command"] == ["python", "train.py"]


def test_a_double_click_queues_one_job(floor: Floor) -> None:
    ben = reader("ben")
    first, second = ben.post("/jobs/new", typed()), ben.post("/jobs/new", typed())
    assert first["Location"] == second["Location"]
    assert Job.objects.count() == 1


def test_a_form_sent_again_with_other_values_asks_first(floor: Floor) -> None:
    ben = reader("ben")
    ben.post("/jobs/new", typed())
    again = ben.post("/jobs/new", typed(name="other"))
    assert again.status_code == 422
    assert "This form has queued a job already" in text_of(again)
    assert ben.post("/jobs/new", typed(name="other", key=values(again)["key"])).status_code == 302
    assert Job.objects.count() == 2


BAD: dict[str, tuple[dict[str, str], str, str]] = {
    "no name": (typed(name=""), "name", "name is ''"),
    "too long name": (typed(name="n" * 121), "name", "must be a text of 1 to 120"),
    "name with NUL": (typed(name="a\x00b"), "name", "contains a NUL"),
    "no command": (typed(command=""), "command", "list of words"),
    "open quote": (typed(command="python 'train"), "command", "list of words"),
    "unknown cluster": (typed(cluster="gem"), "cluster", "There is no cluster 'gem'"),
    "reserved variable": (typed(environment="LAISSEZ_JOB=1"), "environment", "reserved"),
    "variable without a value": (typed(environment="SEED"), "environment", "not a variable"),
    "unknown type": (typed(bid("nvidia-h1000", "1")), "rows-0-accelerator_type", "not an accelerator type"),
    "repeated type": (typed(bid(L4, "1"), bid(L4, "2")), "rows-1-accelerator_type", "Row 2 repeats"),
    "no price": (typed(bid(L4, "")), "rows-0-max_price_per_hour", "not a decimal"),
    "price under base": (typed(bid(A10, "1"), bid(L4, "0.4")), "rows-1-max_price_per_hour", "under its base price"),
    "keep under maximum": (
        typed(bid(L4, "1", keep_price_per_hour="0.5")),
        "rows-0-keep_price_per_hour",
        "under the maximum",
    ),
    "hours in words": (typed(bid(L4, "1", expected_hours="long")), "rows-0-expected_hours", "must be a decimal"),
    "row's command": (typed(bid(L4, "1", command="'")), "rows-0-command", "list of words"),
    "row's files": (typed(bid(L4, "1", artifact="art_none")), "rows-0-artifact", "no artefact"),
    "files": (typed(artifact="art_none"), "artifact", "There is no artefact"),
    "unknown policy": (typed(agent_policy="win"), "agent-policy", "is not a policy"),
    "no class": ({**typed(), "agent-kind": "class"}, "agent-kind", "exactly one of"),
    "class without module": ({**typed(), "agent-kind": "class", "agent-class": "Agent"}, "agent-class", "module:Class"),
    "parameters too deep": (typed(agent_params="[" * 70 + "]" * 70, agent_policy="hold"), "agent-params", "not an obj"),
    "half a surrogate pair": (
        typed(agent_params=r'{"a": "\ud800"}', agent_policy="hold"),
        "agent-params",
        "not an obj",
    ),
    "parameters that are none": (typed(agent_params="[1]", agent_policy="hold"), "agent-params", "not an object"),
    "callback's time": (
        {**typed(), "data_load-command": "load", "data_load-timeout_seconds": "0"},
        "data_load-timeout_seconds",
        "must be from 1",
    ),
    "budget": (typed(budget="-1"), "budget", "not above zero"),
    "attempts": (typed(max_attempts="three"), "max_attempts", "'three'; it must be a whole number"),
    "heartbeat": (typed(heartbeat_seconds="0"), "heartbeat_seconds", "from 1 to 3600"),
    "time-out": (typed(queue_timeout_seconds="1.5"), "queue_timeout_seconds", "whole number"),
    "memory": (typed(limits_memory_bytes="1"), "limits-memory_bytes", "whole number"),
    "way to move": (typed(migration="teleport"), "migration", "must be one of"),
    "upgrade": (typed(upgrade="soon"), "upgrade", "must be one of"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_field_is_told_at_the_field_and_keeps_what_was_typed(ben: Client, case: str) -> None:
    sent, name, words = BAD[case]
    answer = ben.post("/jobs/new", sent)
    assert answer.status_code == 400
    assert escape(words) in fault_at(answer, name)
    page = answer.content.decode()
    assert f'href="#f-{name}"' in page
    assert f'id="f-{name}"' in page
    kept = values(answer)
    for field in ("name", "command", "budget", "max_attempts", "rows-0-max_price_per_hour", "rows-0-command"):
        assert kept.get(field, "") == escape(sent.get(field, "")), field
    assert not Job.objects.exists()
    assert not Hold.objects.exists()


def test_the_form_and_the_api_name_the_same_faults(floor: Floor) -> None:
    sent = typed(bid("nope", "x"), bid(L4, "0.1"), name="", budget="much")
    page = reader("ben").post("/jobs/new", sent)
    body = scenes.body(("nope", "x"), (L4, "0.1"), name="", budget="much", agent={"policy": "hold"})
    told = as_tenant(floor.birch).post("/api/v1/jobs", body).json()["errors"]
    assert len(told) == 5 - 1
    for fault in told:
        assert escape(fault["detail"]) in page.content.decode()


def test_the_shown_file_submitted_through_the_api_gives_the_same_job(floor: Floor, tmp_path: Path) -> None:
    ben = reader("ben")
    files = SimpleUploadedFile("train.py", b"print('hello')\n")
    sent = typed(
        bid(A10, "0.65", expected_hours="0.25", keep_price_per_hour="0.7"),
        {"accelerator_type": TRAINIUM, "cap": "on", "command": "python 'on trainium.py'"},
        environment="SEED=7\nNAME=a b=c",
        budget="5.00",
        agent_policy="break_even",
        agent_params='{"x": 0.5, "y": [1, "2"]}',
        agent_timeout_seconds="2.5",
        save_command="python save.py",
        limits_processes="64",
        heartbeat_seconds="5",
        upgrade="now",
        migration="overlap",
        standby="on",
    )
    page = ben.post("/jobs/new", sent | {"act": "upload", "upload": files})
    sent |= {name: value for name, value in values(page).items() if name.startswith("artifact")}
    checked = ben.post("/jobs/new/check", sent).content.decode()
    shown = re.search(r'<code id="as-yaml">(.*?)</code>', checked, re.DOTALL)
    assert shown is not None
    file = tmp_path / "job.yaml"
    file.write_text(unescape(shown[1]))
    described = jobfile.load(file)
    assert described.directories == {}
    assert as_tenant(floor.birch).post("/api/v1/jobs", described.spec).status_code == 201
    assert ben.post("/jobs/new", sent).status_code == 302
    by_file, by_form = Job.objects.order_by("pk")
    assert by_form.spec == by_file.spec
    assert by_form.artifact == by_file.artifact == Artifact.objects.get()
    assert (by_form.budget_microdollars, by_form.policy_params) == (by_file.budget_microdollars, by_file.policy_params)
    assert list(by_form.bids.values_list("type", "max_price_per_hour", "keep_price_per_hour")) == list(
        by_file.bids.values_list("type", "max_price_per_hour", "keep_price_per_hour")
    )


def test_checking_tells_only_of_touched_fields_and_writes_nothing(floor: Floor) -> None:
    sent = typed(bid(L4, "0.1", expected_hours="2"), name="", touched="rows-0-max_price_per_hour")
    answer = reader("ben").post("/jobs/new/check", sent)
    assert "under its base price" in fault_at(answer, "rows-0-max_price_per_hour")
    assert fault_at(answer, "name") == ""
    assert not Job.objects.exists()


def test_the_costs_are_those_that_submitting_sets_aside(floor: Floor) -> None:
    ben = reader("ben")
    sent = typed(bid(L4, "1.0", expected_hours="2"), bid(A10, "0.7", expected_hours="1"))
    text = " ".join(re.sub(r"<[^>]+>", " ", ben.post("/jobs/new/check", sent).content.decode()).split())
    ben.post("/jobs/new", sent)
    held = Hold.objects.get().amount_microdollars
    assert f"Held now ${held / 1e6:.4f}" in text
    assert "Estimate $0.6060 to $0.9510" in text
    assert "At worst $2.0000" in text
    assert "Ready to submit." in text


def test_a_policy_that_bids_again_may_cost_up_to_the_cap(floor: Floor) -> None:
    sent = typed(bid(A10, "0.7", expected_hours="1"), bid(L4, "0.5", expected_hours="1"), agent_policy="break_even")
    text = " ".join(re.sub(r"<[^>]+>", " ", reader("ben").post("/jobs/new/check", sent).content.decode()).split())
    assert "At worst $2.0000 at $2.0000/h, which it may come to bid" in text
    assert "At worst $0.5000" in text


def test_a_job_that_cannot_be_backed_is_refused_with_the_figures(floor: Floor) -> None:
    poor = scenes.make_tenant("Poor", dollars=0)
    make_member(poor, "pia")
    answer = reader("pia").post("/jobs/new", typed())
    assert answer.status_code == 402
    assert "are needed" in text_of(answer)


ACTS = {
    "add": (["a", "b", "?"], "f-rows-2-accelerator_type"),
    "up-1": (["b", "a"], "act-down-0"),
    "down-0": (["b", "a"], "act-up-1"),
    "up-0": (["a", "b"], ""),
    "remove-0": (["b"], "act-remove-0"),
    "sort": (["b", "a"], "act-sort"),
    "rubbish": (["a", "b"], ""),
    "up-99999": (["a", "b"], ""),
}


@pytest.mark.parametrize("act", ACTS)
def test_the_buttons_of_the_table_work_without_scripts(ben: Client, act: str) -> None:
    kinds, focus = ACTS[act]
    sent = typed(bid(A10, "0.65", expected_hours="1"), bid(L4, "0.5", expected_hours="1"), name="kept")
    answer = ben.post("/jobs/new", sent | {"act": act})
    named = {"a": A10, "b": L4, "?": TRAINIUM}
    page = answer.content.decode()
    chosen = re.findall(r'name="rows-\d+-accelerator_type".*?<option selected>([^<]+)<', page, re.DOTALL)
    assert chosen == [named[kind] for kind in kinds]
    assert values(answer)["name"] == "kept"
    assert re.findall(r'id="([^"]+)"[^>]*autofocus', page) == [focus] * bool(focus)
    assert not Job.objects.exists()


def test_files_are_kept_by_a_rejected_form_under_their_hash(floor: Floor, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "train.py").write_bytes(b"print(1)\n")
    (tmp_path / "tree" / "words.txt").write_bytes(b"a b\n")
    files = [SimpleUploadedFile("words.txt", b"a b\n"), SimpleUploadedFile("train.py", b"print(1)\n")]
    answer = reader("ben").post("/jobs/new", typed(name="") | {"upload": files})
    stored = Artifact.objects.get(tenant=floor.birch)
    assert answer.status_code == 400
    assert values(answer)["artifact"] == stored.public_id
    text = text_of(answer)
    assert "2 files: words.txt, train.py" in text
    assert stored.sha256 in text
    assert (tmp_path / "artifacts" / stored.sha256[:2] / stored.sha256).read_bytes() == archive.pack(tmp_path / "tree")


def test_an_archive_is_stored_as_it_is_and_a_false_one_refused(floor: Floor) -> None:
    ben = reader("ben")
    packed = archive.pack_files({"train.py": b"print(1)\n"})
    good = ben.post("/jobs/new", typed() | {"act": "upload-0", "rows-0-upload": SimpleUploadedFile("t.tar.gz", packed)})
    assert values(good)["rows-0-artifact"] == Artifact.objects.get().public_id
    bad = ben.post("/jobs/new", typed() | {"act": "upload", "upload": SimpleUploadedFile("t.tar.gz", b"not packed")})
    assert bad.status_code == 400
    assert "is not a tar archive" in fault_at(bad, "artifact")


def test_too_much_is_refused_at_its_field(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.services.artifacts.MAX_BYTES", 10)
    answer = reader("ben").post("/jobs/new", typed() | {"upload": SimpleUploadedFile("a.py", b"x" * 11)})
    assert "at most 10 fit" in fault_at(answer, "artifact")
    assert not Job.objects.exists()


def test_a_form_of_before_the_tenant_was_switched_queues_nothing(floor: Floor) -> None:
    page = reader("ben").get("/jobs/new").content.decode()
    assert f'name="acting_for" value="{floor.birch.public_id}"' in page
    assert reader("anna").post("/jobs/new", typed() | {"acting_for": floor.birch.public_id}).status_code == 409
    assert not Job.objects.exists()


def test_files_of_another_tenant_are_not_there(floor: Floor) -> None:
    reader("anna").post("/jobs/new", typed() | {"act": "upload", "upload": SimpleUploadedFile("a.py", b"secret")})
    foreign = Artifact.objects.get()
    answer = reader("ben").post("/jobs/new", typed(artifact=foreign.public_id))
    assert "There is no artefact" in fault_at(answer, "artifact")
    assert foreign.sha256 not in answer.content.decode()


def test_a_job_is_a_template_for_another(floor: Floor) -> None:
    body = scenes.body((A10, "cap"), (L4, "0.5"), name=HOSTILE, environment={"A": "b c"}, budget="3.00")
    body |= {"save": {"command": ["save", "a b"], "timeout_seconds": 2.5}, "agent": {"class": "mine:Agent"}}
    job = transact(lambda outbox: submission.submit(floor.birch, body, outbox=outbox))
    ben = reader("ben")
    page = ben.get(f"/jobs/new?from={job.public_id}")
    assert "<script>alert" not in page.content.decode()
    checked = ben.post("/jobs/new", {**_unescaped(values(page)), **_chosen(page), "environment": "A=b c"})
    assert checked.status_code == 302, checked.content.decode()
    copy = Job.objects.exclude(pk=job.pk).get()
    assert copy.spec == job.spec
    assert reader("anna").get(f"/jobs/new?from={job.public_id}").status_code == 404


def _unescaped(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: unescape(value) for name, value in fields.items()}


def _chosen(page: HttpResponse) -> dict[str, str]:
    """What is selected, and what is ticked."""
    content = page.content.decode()
    chosen: dict[str, str] = {}
    for name, options in re.findall(r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', content, re.DOTALL):
        option = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)<', options)
        assert option is not None, name
        chosen[name] = option[1] or option[2]
    for tag in re.findall(r"<input[^>]* checked[^>]*>", content):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]+)"', tag)
        assert name is not None
        chosen[name[1]] = value[1] if value else "on"
    for name in re.findall(r'type="(?:radio|checkbox)" name="([^"]+)"', content):
        chosen.setdefault(name, "")
    return chosen


def test_who_may_not_submit_gets_no_form(floor: Floor) -> None:
    make_member(floor.birch, "vera", role=Member.Role.VIEWER)
    assert reader("vera").get("/jobs/new").status_code == 403
    assert reader("vera").post("/jobs/new", typed()).status_code == 403
    assert Client().get("/jobs/new")["Location"].startswith("/login/")
    assert Client(enforce_csrf_checks=True).post("/jobs/new", typed()).status_code == 403


def test_the_request_that_is_shown_is_the_job(floor: Floor) -> None:
    page = reader("ben").post("/jobs/new/check", typed(name="it's")).content.decode()
    assert "curl http://testserver/api/v1/jobs" in page
    assert json.dumps("it's") not in page
