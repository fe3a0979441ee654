"""What the database itself refuses of streams, events and audit entries."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, transaction

from laissez.events import FEW, Outbox, transact
from laissez.invariants import detectors, violations
from laissez.models import AuditEntry, Event, Stream
from tests.planting import plant

pytestmark = pytest.mark.django_db

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def three_events() -> None:
    def work(outbox: Outbox) -> None:
        for n in range(3):
            outbox.add("ops", "org.laissez.test.v1", "subject", {"n": n})
        AuditEntry.objects.create(at=AT, actor="ann", action="test", subject="ops", reason="a test")

    transact(work)
    connection.check_constraints()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE laissez_event SET data = '{}'",
        "DELETE FROM laissez_event WHERE seq = 3",
        "TRUNCATE laissez_event",
        "UPDATE laissez_auditentry SET reason = 'none'",
        "DELETE FROM laissez_auditentry",
        "TRUNCATE laissez_auditentry",
        "DELETE FROM laissez_stream",
        "TRUNCATE laissez_stream CASCADE",
        "UPDATE laissez_stream SET last_seq = 2",
        "UPDATE laissez_stream SET name = 'other'",
        "UPDATE laissez_stream SET first_seq = 5",
        "UPDATE laissez_stream SET first_seq = 0",
        "UPDATE laissez_stream SET first_seq = 2; UPDATE laissez_stream SET first_seq = 1",
        "UPDATE laissez_stream SET first_seq = 3; DELETE FROM laissez_event WHERE seq >= 2",
    ],
)
def test_history_cannot_be_rewritten(statement: str) -> None:
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert Event.objects.count() == 3
    assert AuditEntry.objects.get().reason == "a test"


def test_an_event_beyond_its_streams_count_is_refused() -> None:
    stream = Stream.objects.get()
    with pytest.raises(IntegrityError, match="beyond the last number"):
        Event.objects.create(stream=stream, seq=4, type="type", subject="subject", at=AT, data={})


def test_a_number_is_given_once() -> None:
    stream = Stream.objects.get()
    with pytest.raises(IntegrityError, match="event_numbered_once_per_stream"):
        Event.objects.create(stream=stream, seq=2, type="type", subject="subject", at=AT, data={})


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_counts_further_than_its_events_is_refused_at_commit() -> None:
    with pytest.raises(IntegrityError, match="0 of its last 2 events"), transaction.atomic():
        Stream.objects.update(last_seq=5)
    assert Stream.objects.get().last_seq == 3


def test_all_is_well_before_anything_is_planted() -> None:
    assert violations(detectors()) == []


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "DELETE FROM laissez_event WHERE seq = 2",
            "I11: stream ops keeps 1 to 3, but has 2 events, 1 to 3",
        ),
        (
            "UPDATE laissez_stream SET last_seq = 4",
            "I11: stream ops keeps 1 to 4, but has 3 events, 1 to 3",
        ),
        (
            "UPDATE laissez_stream SET first_seq = 2",
            "I11: stream ops keeps 2 to 3, but has 3 events, 1 to 3",
        ),
        (
            "DELETE FROM laissez_event WHERE seq = 1",
            "I11: stream ops keeps 1 to 3, but has 2 events, 2 to 3",
        ),
        (
            "UPDATE laissez_event SET seq = 7 WHERE seq = 3",
            "I11: stream ops keeps 1 to 3, but has 3 events, 1 to 7",
        ),
    ],
)
def test_a_planted_gap_is_found(statement: str, sentence: str) -> None:
    plant(statement)
    assert violations(detectors()) == [sentence]


def test_a_planted_event_of_no_stream_is_found() -> None:
    plant("UPDATE laissez_event SET stream_id = 0")
    assert violations(detectors())[1:] == [f"I11: event {seq} is of stream 0, which there is not" for seq in (1, 2, 3)]


def test_an_event_of_a_stream_that_is_not_there_is_refused() -> None:
    with pytest.raises(IntegrityError, match="which there is not"):
        Event.objects.create(stream_id=0, seq=1, type="type", subject="subject", at=AT, data={})


def test_one_bad_event_among_many_is_refused_with_all_of_them() -> None:
    transact(lambda outbox: [outbox.add("other", "org.laissez.test.v1", "subject", {"n": n}) for n in range(2)])
    streams = dict(Stream.objects.values_list("name", "pk"))
    rows = [
        Event(stream_id=pk, seq=seq, type="type", subject="subject", at=AT, data={})
        for pk, seq in ((streams["ops"], 0), (streams["other"], 3))
    ]
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.bulk_create(rows)
    assert Event.objects.count() == 5


def test_a_stream_keeps_the_id_that_its_events_name() -> None:
    with pytest.raises(IntegrityError, match="keeps its name and id"), transaction.atomic():
        Stream.objects.update(id=1_000_000)
    assert Event.objects.filter(stream__name="ops").count() == 3


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 1200])
def test_few_events_and_many_are_written_alike(count: int) -> None:
    said = {"n": 'a "quote", a \\ and a\ttab,\nNULL, {braces}, \u00e9', "streams": None}

    def work(outbox: Outbox) -> None:
        for n in range(count):
            outbox.add(f"job:{n % 3}", "org.laissez.test.v1", f'sub\\je"ct\t{n}', said)

    transact(work)
    connection.check_constraints()
    rows = (
        Event.objects.exclude(stream__name="ops").order_by("id").values_list("stream__name", "seq", "subject", "data")
    )
    assert list(rows) == [(f"job:{n % 3}", n // 3 + 1, f'sub\\je"ct\t{n}', said) for n in range(count)]
    assert violations(detectors()) == []
