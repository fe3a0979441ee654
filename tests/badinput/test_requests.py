"""Requests about jobs that are not one's own, not there, or not in a state for it; and keys used twice."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.plugin import DjangoDbBlocker

from markets.models import Bid
from tests import scenes, soundness
from tests.asking import Asker, as_tenant, faults
from tests.flushing import standing
from tests.tenancy import a_tenant
from workers.models import Artifact, Cluster, Job

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"


@pytest.fixture(scope="module")
def cluster(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Cluster]:
    """One for all tests."""
    with standing(django_db_blocker):
        yield scenes.make_cluster()


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Asker:
    return as_tenant(scenes.make_tenant("alice"))


def submit(asker: Asker, **fields: Any) -> str:
    response = asker.post("/api/v1/jobs", scenes.body((A10, "1.0"), (L4, "1.0"), **fields))
    assert response.status_code == 201, response.content
    return f"/api/v1/jobs/{response.json()['job']}"


def refused(asker: Asker, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, list[Any]]:
    before = soundness.contents()
    response = asker.send(method, path, body, **headers)
    assert soundness.changed(before) == set()
    return response.status_code, faults(response)


NOT_THERE = (404, [("not_found", "")])
BIDS = {"rows": [{"accelerator_type": A10, "max_price_per_hour": "1.5"}]}
ACTS = [
    ("GET", "", None),
    ("GET", "/logs", None),
    ("POST", "/cancel", None),
    ("POST", "/stop", None),
    ("POST", "/resume", None),
    ("POST", "/checkpoint", None),
    ("POST", "/migrate", {"moment": "now"}),
    ("PUT", "/bids", BIDS),
]


@pytest.mark.parametrize(("method", "act", "body"), ACTS)
def test_a_job_of_another_tenant_is_no_such_job(alice: Asker, method: str, act: str, body: Any) -> None:
    theirs = submit(as_tenant(scenes.make_tenant("bob")))
    missing = refused(alice, method, f"/api/v1/jobs/job_0000000000000000000{act}", body)
    assert refused(alice, method, theirs + act, body) == missing == NOT_THERE


@pytest.mark.parametrize(("method", "act", "body"), ACTS)
def test_an_id_that_no_database_can_hold_is_no_such_job(alice: Asker, method: str, act: str, body: Any) -> None:
    assert refused(alice, method, f"/api/v1/jobs/job_%00{act}", body)[0] == 404


def test_an_artefact_of_another_tenant_is_no_such_artefact(alice: Asker) -> None:
    theirs = Artifact.objects.create(tenant=scenes.make_tenant("bob"), sha256="a" * 64, size_bytes=1)
    for change in ({"artifact": theirs.public_id}, {"artifact": "art_none"}):
        status, found = refused(alice, "POST", "/api/v1/jobs", scenes.body((A10, "1.0"), **change))
        assert (status, found) == (400, [("unknown_artifact", "/artifact")])
    table = [{"accelerator_type": A10, "max_price_per_hour": "1", "artifact": theirs.public_id}]
    for method, path, body in (
        ("POST", "/api/v1/jobs", scenes.body() | {"rows": table}),
        ("PUT", submit(alice) + "/bids", {"rows": table}),
    ):
        assert refused(alice, method, path, body) == (400, [("unknown_artifact", "/rows/0/artifact")])


def test_a_token_without_the_scope_may_not(cluster: Cluster) -> None:
    reader = as_tenant(scenes.make_tenant("carol"), "jobs:read", "prices:read")
    assert refused(reader, "POST", "/api/v1/jobs", scenes.body((A10, "1.0"))) == (403, [("scope_missing", "")])


def test_a_key_used_for_another_request_is_refused(alice: Asker) -> None:
    first = alice.post("/api/v1/jobs", scenes.body((A10, "1.0")), Idempotency_Key="k")
    again = alice.post("/api/v1/jobs", scenes.body((A10, "1.0")), Idempotency_Key="k")
    assert (first.status_code, again.json()) == (201, first.json())
    other = refused(alice, "POST", "/api/v1/jobs", scenes.body((A10, "1.1")), Idempotency_Key="k")
    assert other == (422, [("idempotency_key_reused", "")])
    assert Job.objects.count() == 1


@pytest.mark.parametrize("key", ["", "k" * 201, "k\u00e9y"])
def test_a_key_that_is_none_is_refused(alice: Asker, key: str) -> None:
    found = refused(alice, "POST", "/api/v1/jobs", scenes.body((A10, "1.0")), Idempotency_Key=key)
    assert found == (400, [("bad_idempotency_key", "")])


def test_a_refused_submission_leaves_its_key_free(alice: Asker) -> None:
    assert refused(alice, "POST", "/api/v1/jobs", scenes.body(), Idempotency_Key="k")[0] == 400
    assert alice.post("/api/v1/jobs", scenes.body((A10, "1.0")), Idempotency_Key="k").status_code == 201


TABLES: list[tuple[Any, str, str]] = [
    ({"rows": []}, "empty_table", "/rows"),
    ({}, "empty_table", "/rows"),
    ([], "bad_body", ""),
    ({"rows": [{"accelerator_type": "nope", "max_price_per_hour": "1"}]}, "unknown_type", "/rows/0/accelerator_type"),
    (
        {"rows": [{"accelerator_type": A10, "max_price_per_hour": "-1"}]},
        "bad_price",
        "/rows/0/max_price_per_hour",
    ),
    (
        {"rows": [{"accelerator_type": A10, "max_price_per_hour": "1", "expected_hours": "long"}]},
        "bad_value",
        "/rows/0/expected_hours",
    ),
    ({"rows": [{"accelerator_type": A10, "max_price_per_hour": "1", "x": 1}]}, "unknown_field", "/rows/0/x"),
    (BIDS | {"colour": "blue"}, "unknown_field", "/colour"),
]


@pytest.mark.parametrize(("body", "code", "pointer"), TABLES)
def test_a_bad_change_of_the_launch_table_changes_nothing(alice: Asker, body: Any, code: str, pointer: str) -> None:
    assert refused(alice, "PUT", submit(alice) + "/bids", body) == (400, [(code, pointer)])


def test_a_launch_table_that_somebody_else_has_changed_is_not_overwritten(alice: Asker) -> None:
    path = submit(alice)
    tag = alice.get(path)["ETag"]
    assert alice.send("PUT", path + "/bids", BIDS, If_Match=tag).status_code == 200
    assert refused(alice, "PUT", path + "/bids", BIDS, If_Match=tag) == (409, [("version_conflict", "")])
    assert refused(alice, "PUT", path + "/bids", BIDS, If_Match="yesterday's") == (400, [("bad_if_match", "")])


def test_the_row_that_a_job_runs_on_stays(cluster: Cluster, alice: Asker) -> None:
    host = scenes.make_host(cluster, nvidia_a10=1)
    path = submit(alice)
    scenes.tick(cluster)
    host.settle()
    table = {"rows": [{"accelerator_type": L4, "max_price_per_hour": "1.0"}]}
    assert refused(alice, "PUT", path + "/bids", table) == (400, [("held_row_missing", "/rows")])


def test_bids_beyond_the_funds_are_refused_and_the_old_ones_stand(cluster: Cluster) -> None:
    tenant = a_tenant("poor", microdollars=30_000)
    asker = as_tenant(tenant)
    path = submit(asker)
    table = {"rows": [{"accelerator_type": A10, "max_price_per_hour": "2.0"}]}
    assert refused(asker, "PUT", path + "/bids", table) == (402, [("insufficient_funds", "")])


MOVES: list[tuple[Any, str, str]] = [
    ([], "bad_body", ""),
    ({"moment": "later"}, "bad_value", "/moment"),
    ({"moment": ["now"]}, "bad_value", "/moment"),
    ({"time": "now"}, "unknown_field", "/time"),
]


@pytest.mark.parametrize(("body", "code", "pointer"), MOVES)
def test_a_move_at_an_unknown_moment_is_refused(alice: Asker, body: Any, code: str, pointer: str) -> None:
    assert refused(alice, "POST", submit(alice) + "/migrate", body) == (400, [(code, pointer)])


@pytest.mark.parametrize(
    ("act", "code"),
    [("checkpoint", "not_running"), ("migrate", "not_running"), ("resume", "not_stopped")],
)
def test_what_a_queued_job_cannot_do_is_said(alice: Asker, act: str, code: str) -> None:
    assert refused(alice, "POST", f"{submit(alice)}/{act}", {}) == (409, [(code, "")])


@pytest.mark.parametrize("act", ["stop", "checkpoint", "migrate", "resume"])
def test_a_job_that_is_over_is_over(alice: Asker, act: str) -> None:
    path = submit(alice)
    assert alice.post(path + "/cancel").status_code == 200
    status, found = refused(alice, "POST", f"{path}/{act}", {})
    assert (status, [code for code, _ in found]) in ((409, ["job_over"]), (409, ["not_stopped"]))
    assert refused(alice, "PUT", path + "/bids", BIDS) == (409, [("job_over", "")])
    assert not Bid.objects.filter(closed_at=None).exists()


@pytest.mark.parametrize("query", ["state=walking", "limit=0", "limit=many", "cursor=abc"])
def test_a_bad_page_is_refused(alice: Asker, query: str) -> None:
    assert refused(alice, "GET", f"/api/v1/jobs?{query}")[0] == 400


def test_a_cluster_that_is_not_there_has_no_market(alice: Asker) -> None:
    assert refused(alice, "GET", "/api/v1/markets/gem") == NOT_THERE
