"""Old events go, the oldest first; what is left has no gap, and a cursor from before is told so."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client, override_settings

from laissez import tasks
from laissez.feed import retention
from laissez.feed.vocabulary import ADDRESS
from laissez.invariants import detectors, violations
from laissez.models import Event, Stream
from tests.feed.told import tell
from tests.planting import plant
from tests.tenancy import a_tenant, a_token, bearer

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def age(stream: str, *, up_to: int) -> None:
    """Make a stream's events up to a number old."""
    plant(
        f"UPDATE laissez_event SET at = '{LONG_AGO.isoformat()}' WHERE seq <= {up_to}"
        f" AND stream_id = (SELECT id FROM laissez_stream WHERE name = '{stream}')"
    )


def kept(stream: str) -> list[int]:
    return list(Event.objects.filter(stream__name=stream).order_by("seq").values_list("seq", flat=True))


def test_only_what_is_older_goes_and_the_stream_says_where_it_begins() -> None:
    tell("ops", 1, 2, 3, 4, 5)
    tell("market:gemm", 1)
    age("ops", up_to=3)
    tasks.purge_events()
    assert kept("ops") == [4, 5]
    assert Stream.objects.get(name="ops").first_seq == 4
    assert kept("market:gemm") == [1]
    assert violations(detectors()) == []


def test_a_stream_may_lose_all_its_events_and_goes_on_counting() -> None:
    tell("ops", 1, 2)
    age("ops", up_to=2)
    tasks.purge_events()
    assert (kept("ops"), Stream.objects.get(name="ops").first_seq) == ([], 3)
    tell("ops", 3)
    assert kept("ops") == [3]
    assert violations(detectors()) == []


def test_an_old_event_behind_a_young_one_waits_for_it() -> None:
    tell("ops", 1, 2, 3)
    age("ops", up_to=3)
    plant("UPDATE laissez_event SET at = now() WHERE seq = 2")
    tasks.purge_events()
    assert kept("ops") == [2, 3]


def test_a_run_is_bounded_and_the_next_one_goes_on() -> None:
    tell("ops", *range(10))
    age("ops", up_to=9)
    before = LONG_AGO + timedelta(days=1)
    assert retention.purge(before=before, batch=2, most_batches=3) == 6
    assert kept("ops") == [7, 8, 9, 10]
    assert retention.purge(before=before, batch=2, most_batches=3) == 3
    assert kept("ops") == [10]


def test_many_streams_go_in_one_transaction_and_a_longer_one_among_them_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "STREAMS_PER_BATCH", 3)
    for number in range(4):
        tell(f"job:{number}", 1, 2)
        age(f"job:{number}", up_to=2)
    tell("ops", *range(8))
    age("ops", up_to=7)
    before = LONG_AGO + timedelta(days=1)
    assert retention.purge(before=before, batch=6, most_batches=2) < 15
    retention.purge(before=before, batch=6)
    assert [kept(f"job:{number}") for number in range(4)] == [[]] * 4
    assert kept("ops") == [8]
    assert violations(detectors()) == []


@override_settings(EVENT_RETENTION_DAYS=365 * 100)
def test_the_retention_is_a_setting() -> None:
    tell("ops", 1)
    age("ops", up_to=1)
    tasks.purge_events()
    assert kept("ops") == [1]


def test_a_cursor_from_before_gets_410_with_the_oldest_number_and_the_snapshots_address(client: Client) -> None:
    tenant = a_tenant()
    headers = bearer(a_token(tenant)[1])
    tell(tenant.stream, 1, 2, 3)
    age(tenant.stream, up_to=4)
    tasks.purge_events()
    answer = client.get("/api/v1/events", {"stream": tenant.stream, "after": 1}, headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["oldest"]) == (410, "gone", 5)
    snapshot = client.get(problem["snapshot"], headers=headers).json()
    assert (snapshot["stream"], snapshot["seq"]) == (tenant.stream, 5)
    page = client.get("/api/v1/events", {"stream": tenant.stream, "after": 4}, headers=headers).json()
    assert [event["sequence"] for event in page["items"]] == ["5"]
    assert page["oldest"] == 5
    assert page["items"][0]["dataschema"].startswith(ADDRESS)
