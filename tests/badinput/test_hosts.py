"""What a host may get wrong, by accident or malice: refused, counted and told to operators, and nothing half done."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from pytest_django.plugin import DjangoDbBlocker

from laissez.credentials import new_token
from laissez.models import Event
from tests import scenes, soundness
from tests.asking import Asker, as_host, as_tenant, faults
from tests.flushing import standing
from workers.models import Checkpoint, Host, Job, Lease, LogChunk, ProgressSample

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
SYNC = "/api/v1/host/sync"
TOLD = frozenset({"laissez_event", "laissez_stream", "workers_host", "workers_lease"})


class Speaking:
    """A host with one running job, whose messages go over HTTP."""

    def __init__(self) -> None:
        self.cluster = scenes.make_cluster()
        self.host = scenes.make_host(self.cluster, nvidia_a10=1)
        self.job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
        scenes.tick(self.cluster)
        self.host.settle()
        self.asker = as_host(self.host)
        self.entry = self.host.entry(self.job)

    def message(self, *reports: dict[str, Any], **fields: Any) -> dict[str, Any]:
        self.host.sequence += 1
        seen = [{"lease": self.entry["lease"], "fence": self.entry["fence"], "state": "running"}]
        given = {"sequence": self.host.sequence, "accelerators": [], "leases": seen, "reports": list(reports)}
        return given | fields

    def report(self, kind: str, **body: Any) -> dict[str, Any]:
        self.host.report_number += 1
        known = {"id": self.host.report_number, "lease": self.entry["lease"], "fence": self.entry["fence"]}
        return known | {"kind": kind} | body

    def sync(self, *reports: dict[str, Any], **fields: Any) -> Any:
        return self.asker.post(SYNC, self.message(*reports, **fields))


@pytest.fixture(scope="module")
def unheard(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Speaking]:
    """One for all tests."""
    with standing(django_db_blocker):
        yield Speaking()


@pytest.fixture
def speaking(unheard: Speaking) -> Speaking:
    """It has said nothing yet."""
    return deepcopy(unheard)


def told_operators(host: scenes.FakeHost) -> list[dict[str, Any]]:
    rows = Event.objects.filter(stream__name="ops", subject=host.host.public_id, type__endswith=".host.refused.v1")
    return [row.data for row in rows.order_by("seq")]


def refusals(host: scenes.FakeHost) -> int:
    return Host.objects.get(pk=host.host.pk).refusals


# Keys


def keys(speaking: Speaking) -> dict[str, str]:
    tenant = as_tenant(scenes.make_tenant("mallory")).headers["Authorization"].removeprefix("Bearer ")
    return {
        "none": "",
        "unknown": new_token("host"),
        "damaged": speaking.host.key[:-1] + ("a" if speaking.host.key[-1] != "a" else "b"),
        "a tenant's": tenant,
        "not ASCII": "l\u00e4",
    }


def test_only_a_hosts_own_key_opens_its_routes(speaking: Speaking) -> None:
    lease = speaking.entry["lease"]
    for name, key in keys(speaking).items():
        stranger = Asker({"Authorization": f"Bearer {key}"})
        before = soundness.contents()
        for response in (
            stranger.post(SYNC, speaking.message()),
            stranger.get(f"/api/v1/host/leases/{lease}/context?fence=1"),
            stranger.post(
                f"/api/v1/host/leases/{lease}/decision", {"fence": 1, "ask": 1, "decision": {"kind": "stop"}}
            ),
            stranger.get(f"/api/v1/host/artifacts/{'a' * 64}"),
        ):
            assert (response.status_code, response["WWW-Authenticate"]) == (401, 'Bearer realm="laissez-host"'), name
            assert faults(response)
        assert soundness.changed(before) == set()


def test_a_hosts_key_opens_no_route_of_tenants(speaking: Speaking) -> None:
    assert speaking.asker.get("/api/v1/jobs").status_code == 401
    assert speaking.asker.post("/api/v1/jobs", scenes.body((A10, "1.0"))).status_code == 401


def test_a_retired_hosts_key_is_no_key(speaking: Speaking) -> None:
    host = scenes.make_host(speaking.cluster, "retired", nvidia_a10=1)
    for state in (Host.State.DRAINING, Host.State.RETIRED):
        Host.objects.filter(pk=host.host.pk).update(state=state)
    assert as_host(host).post(SYNC, {"sequence": 100}).status_code == 401


# Fences


STALE: dict[str, dict[str, Any]] = {
    "progress": {"progress": 0.5},
    "first_step": {},
    "checkpoint": {"sequence": 1, "uri": "memory://1", "sha256": "a" * 64, "size_bytes": 1, "progress": 0.5},
    "log": {"stream": "stdout", "offset": 0, "text": "hello"},
    "agent": {"outcome": "crashed", "detail": "no"},
    "exit": {"reason": "completed", "exit_code": 0},
}


@pytest.mark.parametrize("kind", STALE)
@pytest.mark.parametrize("fence", [0, 2])
def test_a_report_with_another_fence_is_refused_and_told_to_operators(
    speaking: Speaking, kind: str, fence: int
) -> None:
    before = soundness.contents()
    response = speaking.sync(speaking.report(kind, **STALE[kind]) | {"fence": fence})
    assert response.status_code == 200
    assert [refused["code"] for refused in response.json()["refused"]] == ["stale_fence"]
    assert response.json()["acknowledged"] == speaking.host.report_number
    assert soundness.changed(before) <= TOLD
    assert [refused["code"] for refused in told_operators(speaking.host)[0]["refused"]] == ["stale_fence"]
    assert refusals(speaking.host) == 1


def test_an_observation_with_another_fence_renews_nothing_and_ends_nothing(speaking: Speaking) -> None:
    before = Lease.objects.get().expires_at
    seen = [{"lease": speaking.entry["lease"], "fence": 7, "state": "ended"}]
    response = speaking.sync(leases=seen)
    assert {refused["code"] for refused in response.json()["refused"]} == {"stale_fence"}
    lease = Lease.objects.get()
    assert (lease.state, lease.expires_at) == (Lease.State.ACTIVE, before)
    assert told_operators(speaking.host)


@pytest.mark.parametrize("fence", [0, 2, "1x", None, [1], {"fence": 1}])
def test_a_decision_and_a_context_with_another_fence_are_refused(speaking: Speaking, fence: Any) -> None:
    path = f"/api/v1/host/leases/{speaking.entry['lease']}"
    body = {"fence": fence, "ask": 1, "decision": {"kind": "stop"}}
    before = soundness.contents()
    for response in (
        speaking.asker.post(f"{path}/decision", body),
        speaking.asker.get(f"{path}/context?fence={fence}"),
    ):
        assert (response.status_code, faults(response)) == (409, [("stale_fence", "/fence")])
    assert soundness.changed(before) <= TOLD
    assert {told["code"] for told in told_operators(speaking.host)} == {"stale_fence"}


DECISIONS: dict[str, tuple[Any, str]] = {
    "none": (None, "/decision"),
    "a text": ("stop", "/decision"),
    "unknown kind": ({"kind": "win"}, "/decision"),
    "unknown member": ({"kind": "stay", "why": "x"}, "/decision"),
    "negative bid": ({"kind": "rebid", "bids": {A10: "-1"}}, "/decision"),
    "bid that is a float": ({"kind": "rebid", "bids": {A10: 0.7}}, "/decision"),
    "rebid without bids": ({"kind": "rebid"}, "/decision"),
    "stop with bids": ({"kind": "stop", "bids": {A10: "1"}}, "/decision"),
    "unknown moment": ({"kind": "migrate", "moment": "later"}, "/decision"),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_a_decision_of_another_form_is_refused(speaking: Speaking, case: str) -> None:
    decision, pointer = DECISIONS[case]
    body = {"fence": speaking.entry["fence"], "ask": 1, "decision": decision}
    before = soundness.contents()
    response = speaking.asker.post(f"/api/v1/host/leases/{speaking.entry['lease']}/decision", body)
    assert (response.status_code, faults(response)) == (400, [("bad_decision", pointer)])
    assert soundness.changed(before) == set()


@pytest.mark.parametrize(
    ("bids", "code"), [({L4: "1.0"}, "unknown_row"), ({A10: "1", L4: "1"}, "unknown_row"), ({A10: "1e6"}, None)]
)
def test_a_decision_that_cannot_be_is_answered_with_why_and_means_stay(
    speaking: Speaking, bids: dict[str, str], code: str | None
) -> None:
    body = {"fence": speaking.entry["fence"], "ask": 1, "decision": {"kind": "rebid", "bids": bids}}
    before = soundness.contents()
    answer = speaking.asker.post(f"/api/v1/host/leases/{speaking.entry['lease']}/decision", body).json()
    assert (answer["applied"], answer.get("code")) == (code is None, code)
    if code is not None:
        assert soundness.changed(before) <= {"laissez_event", "laissez_stream"}


# Messages


def test_a_replayed_message_is_refused_counted_and_told(speaking: Speaking) -> None:
    message = speaking.message(speaking.report("progress", progress=0.5))
    assert speaking.asker.post(SYNC, message).status_code == 200
    before = soundness.contents()
    for _ in range(2):
        response = speaking.asker.post(SYNC, message)
        assert (response.status_code, faults(response)) == (409, [("replayed_message", "/sequence")])
    assert soundness.changed(before) <= TOLD
    assert [told["code"] for told in told_operators(speaking.host)] == ["replayed_message"] * 2
    assert refusals(speaking.host) == 2
    assert ProgressSample.objects.count() == 1


def test_a_lease_of_another_host_is_no_lease_of_this_one(speaking: Speaking) -> None:
    other = scenes.make_host(speaking.cluster, "other", nvidia_l4=1)
    job = scenes.submit(scenes.make_tenant("bob"), (L4, "1.0"))
    scenes.tick(speaking.cluster)
    other.settle()
    theirs = other.entry(job)
    before = soundness.contents()
    foreign = {"lease": theirs["lease"], "fence": theirs["fence"]}
    response = speaking.sync(
        speaking.report("exit", reason="completed", exit_code=0) | foreign,
        leases=[foreign | {"state": "ended"}],
    )
    assert [refused["code"] for refused in response.json()["refused"]] == ["unknown_lease"]
    assert soundness.changed(before) <= TOLD - {"workers_lease"}
    path = f"/api/v1/host/leases/{theirs['lease']}"
    for answer in (
        speaking.asker.get(f"{path}/context?fence={theirs['fence']}"),
        speaking.asker.post(f"{path}/decision", foreign | {"ask": 1, "decision": {"kind": "stop"}}),
        speaking.asker.get(f"{path}x/context?fence=1"),
        speaking.asker.get(f"/api/v1/host/artifacts/{'0' * 64}"),
    ):
        assert (answer.status_code, faults(answer)) == (404, [("not_found", "")])


MALFORMED: dict[str, tuple[Any, str]] = {
    "no sequence": ({"sequence": None}, "/sequence"),
    "negative sequence": ({"sequence": -1}, "/sequence"),
    "sequence that is a flag": ({"sequence": True}, "/sequence"),
    "sequence beyond all bounds": ({"sequence": 2**63}, "/sequence"),
    "leases that are an object": ({"leases": {}}, "/leases"),
    "lease without a fence": ({"leases": [{"lease": "x", "state": "ready"}]}, "/leases/0/fence"),
    "lease in no state": ({"leases": [{"lease": "x", "fence": 1, "state": "lost"}]}, "/leases/0/state"),
    "reports that are texts": ({"reports": ["exit"]}, "/reports"),
    "report without an id": ({"reports": [{"lease": "x", "fence": 1, "kind": "log"}]}, "/reports/0/id"),
    "accelerator without an index": ({"accelerators": [{"healthy": True}]}, "/accelerators/0/index"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_message_of_another_form_is_refused_whole_and_told(speaking: Speaking, case: str) -> None:
    fields, pointer = MALFORMED[case]
    before = soundness.contents()
    response = speaking.sync(**fields)
    assert (response.status_code, faults(response)) == (400, [("bad_value", pointer)])
    assert soundness.changed(before) <= TOLD - {"workers_lease"}
    assert [told["code"] for told in told_operators(speaking.host)] == ["bad_value"]


@pytest.mark.parametrize("body", ["{", "[1, 2]", '{"sequence": NaN}', "[" * 100_000, b"\xff"], ids=str)
def test_a_message_that_is_no_object_is_refused(speaking: Speaking, body: Any) -> None:
    assert speaking.asker.post(SYNC, body).status_code == 400


CHECKPOINT = STALE["checkpoint"]
REPORTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "progress above 1": ("progress", {"progress": 1.5}, "progress"),
    "progress below 0": ("progress", {"progress": -0.1}, "progress"),
    "progress that is a text": ("progress", {"progress": "0.5"}, "progress"),
    "progress that is a flag": ("progress", {"progress": True}, "progress"),
    "progress without end": ("progress", {"progress": 10**400}, "progress"),
    "no progress": ("progress", {}, "progress"),
    "negative sequence": ("checkpoint", CHECKPOINT | {"sequence": -1}, "sequence"),
    "sequence that is a text": ("checkpoint", CHECKPOINT | {"sequence": "1"}, "sequence"),
    "hash of another length": ("checkpoint", CHECKPOINT | {"sha256": "abc"}, "sha256"),
    "hash in capitals": ("checkpoint", CHECKPOINT | {"sha256": "A" * 64}, "sha256"),
    "no place": ("checkpoint", CHECKPOINT | {"uri": ""}, "uri"),
    "negative size": ("checkpoint", CHECKPOINT | {"size_bytes": -1}, "size_bytes"),
    "checkpoint above 1": ("checkpoint", CHECKPOINT | {"progress": 1.1}, "progress"),
    "unknown stream": ("log", {"stream": "stdnull", "offset": 0, "text": ""}, "stdnull"),
    "negative offset": ("log", {"stream": "stdout", "offset": -1, "text": ""}, "offset"),
    "exit without a reason": ("exit", {"exit_code": 0}, "reason"),
    "exit for an unknown reason": ("exit", {"reason": "bored", "exit_code": 0}, "bored"),
    "unknown kind": ("party", {}, "party"),
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_bad_report_is_refused_by_itself_and_those_around_it_count(speaking: Speaking, case: str) -> None:
    kind, body, word = REPORTS[case]
    before = speaking.report("progress", progress=0.25)
    bad = speaking.report(kind, **body)
    after = speaking.report("log", stream="stdout", offset=0, text="hello")
    answer = speaking.sync(before, bad, after).json()
    assert [refused["id"] for refused in answer["refused"]] == [bad["id"]]
    assert word in answer["refused"][0]["detail"]
    assert answer["refused"][0]["code"] != "report_failed"
    assert answer["acknowledged"] == after["id"]
    assert (ProgressSample.objects.count(), LogChunk.objects.count(), Checkpoint.objects.count()) == (1, 1, 0)
    assert Job.objects.get().state == Job.State.RUNNING
    assert told_operators(speaking.host)


def test_what_no_database_can_hold_is_mended_and_silences_nobody(speaking: Speaking) -> None:
    text = "a\x00b\ud800c\ud83d\ude00"
    report = speaking.report("log", stream="stdout", offset=0, text=text)
    foreign = speaking.report("log", stream="stdout", offset=1, text="x") | {"lease": "\x00"}
    assert speaking.sync(report, foreign).status_code == 200
    assert LogChunk.objects.get().text == "a\ufffdb\ufffdc\U0001f600"


def test_a_loss_that_is_no_number_is_left_out(speaking: Speaking) -> None:
    assert speaking.sync(speaking.report("progress", progress=0.5, loss=10**400, step="x")).json()["refused"] == []
    assert (ProgressSample.objects.get().loss, ProgressSample.objects.get().step) == (None, None)
