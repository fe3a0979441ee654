"""Bids of many jobs changed at once: each row answered for, nothing half done, and told as single changes are."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from laissez.events import transact
from laissez.models import Event
from markets.models import Bid
from markets.services import bulk, submission
from markets.services.bulk import Result
from tenants.models import Hold, Tenant
from tenants.selectors import available
from tests import scenes, soundness
from tests.asking import Asker, as_tenant, faults
from workers.models import Job

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
BULK = "/api/v1/bids/bulk"


@pytest.fixture
def alice() -> Tenant:
    scenes.make_cluster()
    return scenes.make_tenant("alice")


@pytest.fixture
def asker(alice: Tenant) -> Asker:
    return as_tenant(alice)


def submit(tenant: Tenant, **fields: Any) -> Job:
    return scenes.submit(tenant, (A10, "0.7"), (L4, "0.6"), agent={"policy": "hold"}, **fields)


def row(job: Job | str, kind: str, price: str, **more: Any) -> dict[str, Any]:
    name = job if isinstance(job, str) else job.public_id
    return {"job": name, "accelerator_type": kind, "max_price_per_hour": price} | more


def change(tenant: Tenant, *rows: Any) -> list[Result]:
    return transact(lambda outbox: bulk.change_bids(tenant, list(rows), outbox=outbox))


def states(results: list[Result]) -> list[tuple[str, str | None, str | None]]:
    return [(each.state, each.fault and each.fault.code, each.fault and each.fault.pointer) for each in results]


def prices(job: Job) -> list[tuple[str, int | None, int | None]]:
    rows = Bid.objects.filter(job=job, closed_at=None).order_by("position")
    return list(rows.values_list("type__slug", "max_price_per_hour", "keep_price_per_hour"))


def told(job: Job, *, after: int = 0) -> list[str]:
    rows = Event.objects.filter(stream__name=f"job:{job.public_id}", seq__gt=after).order_by("seq")
    return [
        kind.removeprefix("org.laissez.market.").removesuffix(".v1") for kind in rows.values_list("type", flat=True)
    ]


def last(job: Job) -> int:
    return Event.objects.filter(stream__name=f"job:{job.public_id}").order_by("-seq").values_list("seq", flat=True)[0]


def test_rows_of_many_jobs_are_changed_and_answered_in_their_order(alice: Tenant, asker: Asker) -> None:
    first, second = submit(alice), submit(alice)
    rows = [row(second, L4, "cap"), row(first, A10, "0.9"), row(second, A10, "0.7")]
    answer = asker.post(BULK, {"rows": rows}).json()
    assert [answer[name] for name in ("changed", "unchanged", "refused")] == [2, 1, 0]
    assert answer["rows"] == [
        {"job": second.public_id, "accelerator_type": L4, "result": "changed"},
        {"job": first.public_id, "accelerator_type": A10, "result": "changed"},
        {"job": second.public_id, "accelerator_type": A10, "result": "unchanged"},
    ]
    assert prices(first) == [(A10, 900_000, None), (L4, 600_000, None)]
    assert prices(second) == [(A10, 700_000, None), (L4, None, None)]


def test_a_change_is_told_written_and_counted_as_a_single_one_is(alice: Tenant) -> None:
    one, other = submit(alice), submit(alice)
    at = last(one)
    change(alice, row(one, A10, "0.9"))
    table = scenes.body((A10, "0.9"), (L4, "0.6"))["rows"]
    transact(lambda outbox: submission.change_table(other, table, expected_version=None, outbox=outbox))
    assert told(one, after=at) == told(other, after=at) == ["bid.closed", "bid.opened", "job.changed"]
    one.refresh_from_db()
    other.refresh_from_db()
    assert one.version == other.version == 2
    assert prices(one) == prices(other)
    assert [float(each["max_price_per_hour"]) for each in one.spec["rows"]] == [0.9, 0.6]


def test_what_is_already_so_writes_nothing(alice: Tenant) -> None:
    job = submit(alice)
    before = soundness.contents()
    assert states(change(alice, row(job, A10, "0.70"))) == [("unchanged", None, None)]
    assert soundness.changed(before) == set()


def test_an_unchanged_maximum_keeps_the_moment_at_which_it_was_accepted(alice: Tenant) -> None:
    job = submit(alice)
    moment = Bid.objects.get(job=job, type__slug=A10).accepted_at
    change(alice, row(job, A10, "0.7", keep_price_per_hour="0.8"))
    assert Bid.objects.get(job=job, type__slug=A10, closed_at=None).accepted_at == moment
    change(alice, row(job, A10, "0.75"))
    assert Bid.objects.get(job=job, type__slug=A10, closed_at=None).accepted_at > moment


def test_a_keep_price_stays_where_it_is_not_named_falls_with_a_higher_maximum_and_goes_with_null(alice: Tenant) -> None:
    job = submit(alice)
    change(alice, row(job, A10, "0.7", keep_price_per_hour="0.9"))
    assert prices(job)[0] == (A10, 700_000, 900_000)
    change(alice, row(job, A10, "0.8"))
    assert prices(job)[0] == (A10, 800_000, 900_000)
    change(alice, row(job, A10, "0.95"))
    assert prices(job)[0] == (A10, 950_000, None)
    change(alice, row(job, A10, "0.95", keep_price_per_hour="1.0"))
    change(alice, row(job, A10, "0.95", keep_price_per_hour=None))
    assert prices(job)[0] == (A10, 950_000, None)


def test_a_job_that_is_resumed_bids_what_it_was_last_given(alice: Tenant) -> None:
    job = submit(alice)
    change(alice, row(job, A10, "0.8", keep_price_per_hour="0.9"), row(job, L4, "cap"))
    transact(lambda outbox: submission.stop(job, outbox=outbox))
    job.refresh_from_db()
    transact(lambda outbox: submission.resume(job, outbox=outbox))
    assert prices(job) == [(A10, 800_000, 900_000), (L4, None, None)]


WRONG: list[tuple[Callable[[str], Any], str, str]] = [
    (lambda _job: 7, "bad_row", ""),
    (lambda job: row(job, A10, "0.9") | {"prize": 1}, "unknown_field", "/prize"),
    (lambda _job: {"accelerator_type": A10, "max_price_per_hour": "1"}, "bad_value", "/job"),
    (lambda _job: row("x" * 65, A10, "0.9"), "bad_value", "/job"),
    (lambda job: row(job, "", "0.9"), "bad_value", "/accelerator_type"),
    (lambda job: row(job, A10, "0.9", expected_version="1"), "bad_value", "/expected_version"),
    (lambda job: row(job, A10, "0.9", expected_version=True), "bad_value", "/expected_version"),
    (lambda job: {"job": job, "accelerator_type": A10}, "bad_price", "/max_price_per_hour"),
    (lambda job: row(job, A10, "=1+1"), "bad_price", "/max_price_per_hour"),
    (lambda job: row(job, A10, "0.0000001"), "bad_price", "/max_price_per_hour"),
    (lambda job: row(job, A10, 0.9), "bad_price", "/max_price_per_hour"),  # type: ignore[arg-type]
    (lambda job: row(job, A10, "0.9", keep_price_per_hour="cap"), "bad_price", "/keep_price_per_hour"),
    (lambda job: row(job, A10, "0.9", keep_price_per_hour="0.8"), "keep_under_max", "/keep_price_per_hour"),
    (lambda job: row(job, A10, "cap", keep_price_per_hour="0.8"), "keep_under_max", "/keep_price_per_hour"),
    (lambda job: row(job, A10, "0.1"), "max_under_base", "/max_price_per_hour"),
    (lambda job: row(job, "aws-trainium", "0.9"), "unknown_row", "/accelerator_type"),
    (lambda job: row(job, "x" * 64, "0.9"), "unknown_row", "/accelerator_type"),
    (lambda job: row(job, A10, "0.9", expected_version=7), "version_conflict", "/expected_version"),
    (lambda _job: row("job_nobody", A10, "0.9"), "not_found", "/job"),
]


@pytest.mark.parametrize(("wrong", "code", "field"), WRONG)
def test_a_row_that_cannot_be_is_refused_at_its_field_and_stops_no_other_job(
    alice: Tenant, wrong: Callable[[str], Any], code: str, field: str
) -> None:
    job, other = submit(alice), submit(alice)
    results = change(alice, row(other, A10, "0.9"), wrong(job.public_id))
    assert states(results) == [("changed", None, None), ("refused", code, f"/rows/1{field}")]
    assert results[1].fault is not None
    assert results[1].fault.detail
    assert prices(job) == [(A10, 700_000, None), (L4, 600_000, None)]


def test_the_rows_of_one_job_stand_or_fall_together(alice: Tenant) -> None:
    job, other = submit(alice), submit(alice)
    before = prices(job)
    results = change(alice, row(job, A10, "0.9"), row(other, A10, "0.9"), row(job, L4, "0.01"))
    assert states(results) == [
        ("refused", "job_refused", "/rows/0"),
        ("changed", None, None),
        ("refused", "max_under_base", "/rows/2/max_price_per_hour"),
    ]
    assert results[0].fault is not None
    assert "Row 3" in results[0].fault.detail
    results = change(alice, row(job, A10, "0.9"), row(job, L4, "abc"))
    assert [state[1] for state in states(results)] == ["job_refused", "bad_price"]
    assert prices(job) == before


def test_a_row_named_twice_is_refused(alice: Tenant) -> None:
    job = submit(alice)
    results = change(alice, row(job, A10, "0.9"), row(job, A10, "0.8"))
    assert [state[1] for state in states(results)] == ["job_refused", "repeated_row"]


def test_a_job_that_is_over_is_refused(alice: Tenant) -> None:
    job = submit(alice)
    transact(lambda outbox: submission.cancel(job, outbox=outbox))
    assert states(change(alice, row(job, A10, "0.9"))) == [("refused", "job_over", "/rows/0/job")]


def test_somebody_elses_job_looks_like_one_that_is_not_there(alice: Tenant) -> None:
    theirs = submit(scenes.make_tenant("bob"))
    before = soundness.contents()
    mine, nobodys = change(alice, row(theirs, A10, "0.9"), row("job_" + "0" * 20, A10, "0.9"))
    assert mine.fault is not None
    assert nobodys.fault is not None
    assert (mine.fault.code, mine.fault.detail) == (nobodys.fault.code, nobodys.fault.detail)
    assert soundness.changed(before) == set()


def test_what_the_funds_do_not_cover_is_refused_job_by_job_in_the_order_of_the_rows() -> None:
    scenes.make_cluster(types={A10: ("0.1", "1000000"), L4: ("0.1", "1000000")})
    bob = scenes.make_tenant("bob", 10)
    jobs = [submit(bob) for _ in range(3)]
    held = {hold.reference: hold.amount_microdollars for hold in Hold.objects.all()}
    results = change(bob, *(row(job, A10, price) for job, price in zip(jobs, ("100", "500", "120"), strict=True)))
    refused = ("refused", "insufficient_funds", "/rows/1/max_price_per_hour")
    assert states(results) == [("changed", None, None), refused, ("changed", None, None)]
    now = {hold.reference: hold.amount_microdollars for hold in Hold.objects.all()}
    assert now[jobs[1].public_id] == held[jobs[1].public_id]
    assert now[jobs[2].public_id] > now[jobs[0].public_id] > held[jobs[0].public_id]
    assert available(bob) >= 0
    assert prices(jobs[1])[0] == (A10, 700_000, None)
    assert "bid.opened" not in told(jobs[1], after=4)


def test_a_dry_run_shows_what_would_come_of_each_row_and_writes_nothing(alice: Tenant, asker: Asker) -> None:
    job = submit(alice)
    asker.get("/api/v1/jobs")  # the token's use is noted by now
    before = soundness.contents()
    answer = asker.post(f"{BULK}?dry_run=true", {"rows": [row(job, A10, "0.9"), row(job, L4, "0.6")]}).json()
    assert [each["result"] for each in answer["rows"]] == ["changed", "unchanged"]
    assert soundness.changed(before) == set()


def test_one_key_acts_once_and_answers_the_same(alice: Tenant, asker: Asker) -> None:
    job = submit(alice)
    sent = {"rows": [row(job, A10, "0.9"), row("job_nobody", A10, "0.9")]}
    first = asker.post(BULK, sent, Idempotency_Key="k")
    again = asker.post(BULK, sent, Idempotency_Key="k")
    assert first.json() == again.json()
    assert again["Idempotent-Replayed"] == "true"
    job.refresh_from_db()
    assert job.version == 2
    other = asker.post(BULK, {"rows": [row(job, A10, "1.0")]}, Idempotency_Key="k")
    assert other.status_code == 422


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"rows": []}, "no_rows", "/rows"),
        ({}, "no_rows", "/rows"),
        ({"rows": "all"}, "no_rows", "/rows"),
        ({"rows": [{}] * 5_001}, "too_many_rows", "/rows"),
        ({"rows": [{}], "more": 1}, "unknown_field", "/more"),
        ([], "bad_body", ""),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_as_a_whole(asker: Asker, body: Any, code: str, pointer: str) -> None:
    answer = asker.post(BULK, body)
    assert answer.status_code == 400
    assert faults(answer) == [(code, pointer)]


def test_changing_bids_in_bulk_needs_the_scope_of_bids(alice: Tenant) -> None:
    assert as_tenant(alice, "jobs:read", "jobs:write").post(BULK, {"rows": []}).status_code == 403


def statements(asker: Asker, jobs: list[Job], price: str) -> int:
    rows = [row(job, kind, price) for job in jobs for kind in (A10, L4)]
    with CaptureQueriesContext(connection) as captured:
        answer = asker.post(BULK, {"rows": rows}, Idempotency_Key=price)
    assert answer.json()["changed"] == len(rows)
    return len(captured)


def test_no_row_adds_a_statement(alice: Tenant, asker: Asker) -> None:
    jobs = [submit(alice) for _ in range(30)]
    statements(asker, jobs, "0.9")
    assert statements(asker, jobs[:3], "0.91") == statements(asker, jobs, "0.92")


def test_a_single_change_that_wants_no_more_is_answered_with_the_launch_table_alone(
    alice: Tenant, asker: Asker
) -> None:
    job = submit(alice)
    table = {"rows": scenes.body((A10, "0.9"), (L4, "cap"))["rows"]}
    answer = asker.send("PUT", f"/api/v1/jobs/{job.public_id}/bids", table, Prefer="return=minimal")
    assert answer["Preference-Applied"] == "return=minimal"
    body = answer.json()
    assert (body["job"], body["version"], body["state"]) == (job.public_id, 2, "queued")
    whole = asker.get(f"/api/v1/jobs/{job.public_id}").json()
    shown = [{name: each[name] for name in body["rows"][0]} for each in whole["rows"]]
    assert body["rows"] == shown


def test_a_single_change_asks_the_database_a_bounded_number_of_times(alice: Tenant, asker: Asker) -> None:
    job = submit(alice)
    asker.get("/api/v1/jobs")
    table = {"rows": scenes.body((A10, "0.65"), (L4, "0.6"))["rows"]}
    with CaptureQueriesContext(connection) as captured:
        asker.send("PUT", f"/api/v1/jobs/{job.public_id}/bids", table, Prefer="return=minimal", Idempotency_Key="k")
    assert len(captured) <= 24, [query["sql"][:90] for query in captured]
