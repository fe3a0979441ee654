"""Numbers without gaps in the order of commits, whatever happens between."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event as Signal
from threading import Thread

import pytest
from channels.layers import BaseChannelLayer, channel_layers
from django.db import IntegrityError, connection, transaction

from laissez import events
from laissez.events import Draft, Outbox, publish, rehearse, transact
from laissez.models import Event, Stream
from tests.events.layers import RefusingLayer, RememberingLayer, SilentLayer
from tests.racing import race, start_and_wait_until_blocked

pytestmark = pytest.mark.django_db(transaction=True)

AT = datetime(2026, 1, 1, tzinfo=UTC)
STREAMS = ["market:gemm", "pool:gemm", "ops", "job:job_1", "job:job_2"]


@pytest.fixture
def use_layer() -> Iterator[Callable[[BaseChannelLayer], None]]:
    before: list[BaseChannelLayer | None] = []

    def use(layer: BaseChannelLayer) -> None:
        before.append(channel_layers.set("default", layer))

    yield use
    if before:
        channel_layers.set("default", before[0])


def tell(*streams: str) -> Callable[[Outbox], None]:
    def work(outbox: Outbox) -> None:
        for stream in streams:
            outbox.add(stream, "org.laissez.test.v1", "job_1", {"streams": len(streams)})

    return work


def numbers(stream: str) -> list[int]:
    return list(Event.objects.filter(stream__name=stream).order_by("id").values_list("seq", flat=True))


def test_numbers_begin_at_one_and_follow_the_order_of_the_drafts() -> None:
    with transaction.atomic():
        drafts = [Draft("ops", f"type {n}", "subject", {"n": n}) for n in range(3)]
        publish(drafts, at=AT)
    assert list(Event.objects.order_by("id").values_list("seq", "type")) == [
        (1, "type 0"),
        (2, "type 1"),
        (3, "type 2"),
    ]
    transact(tell("ops"))
    assert numbers("ops") == [1, 2, 3, 4]
    assert Stream.objects.get(name="ops").last_seq == 4


def test_every_stream_counts_on_its_own() -> None:
    transact(tell("ops", "market:gemm", "ops"))
    transact(tell("market:gemm"))
    assert numbers("ops") == [1, 2]
    assert numbers("market:gemm") == [1, 2]


def test_an_event_tells_the_time_that_the_transaction_read() -> None:
    moments: list[datetime] = []

    def work(outbox: Outbox) -> None:
        moments.extend([outbox.now(), outbox.now()])
        tell("ops")(outbox)

    transact(work)
    assert {Event.objects.get().at} == set(moments)


def test_a_transaction_that_fails_leaves_no_gap() -> None:
    transact(tell("ops"))

    def fails(outbox: Outbox) -> None:
        tell("ops")(outbox)
        publish(outbox.drafts, at=AT)
        raise LookupError("after publishing")

    with pytest.raises(LookupError):
        transact(fails)
    transact(tell("ops"))
    assert numbers("ops") == [1, 2]


def test_nothing_is_published_outside_a_transaction() -> None:
    with pytest.raises(RuntimeError, match="in the transaction"):
        publish([Draft("ops", "type", "subject", {})], at=AT)


def test_concurrent_writers_leave_no_gap_and_a_polling_reader_misses_nothing() -> None:
    read: dict[str, list[int]] = {stream: [] for stream in STREAMS}
    done = Signal()

    def poll() -> None:
        last = False
        while not last:
            last = done.is_set()
            for stream in STREAMS:
                after = read[stream][-1] if read[stream] else 0
                rows = Event.objects.filter(stream__name=stream, seq__gt=after).order_by("seq")
                read[stream] += rows.values_list("seq", flat=True)
        connection.close()

    def write(number: int) -> None:
        chance = random.Random(number)
        for _ in range(15):
            transact(tell(*chance.choices(STREAMS, k=3)))

    reader = Thread(target=poll)
    reader.start()
    try:
        outcomes = race(8, write)
    finally:
        done.set()
        reader.join()
    assert outcomes == [None] * 8
    assert sum(len(found) for found in read.values()) == 8 * 15 * 3
    for stream in STREAMS:
        assert read[stream] == list(range(1, Stream.objects.get(name=stream).last_seq + 1))


def test_many_writers_may_create_the_same_streams_at_once() -> None:
    orders = [STREAMS, STREAMS[::-1]]
    assert race(10, lambda number: transact(tell(*orders[number % 2]))) == [None] * 10
    assert all(sorted(numbers(stream)) == list(range(1, 11)) for stream in STREAMS)


def test_streams_are_locked_in_the_order_of_their_ids_not_of_their_names() -> None:
    for name in "zbaz":  # the last write leaves z's row behind the others on disk, where a scan meets it last
        transact(tell(name))
    with transaction.atomic():
        Stream.objects.select_for_update().get(name="z")
        publishing = start_and_wait_until_blocked(lambda: transact(tell("a", "b", "z")))
        assert len(Stream.objects.select_for_update(nowait=True).filter(name__in=["a", "b"])) == 2
    publishing.result(timeout=30)
    assert [numbers(name) for name in "abz"] == [[1, 2], [1, 2], [1, 2, 3]]


def test_hints_name_the_newest_number_and_go_out_after_the_commit(use_layer: Callable[..., None]) -> None:
    layer = RememberingLayer()
    use_layer(layer)

    def work(outbox: Outbox) -> None:
        tell("ops", "market:gemm", "ops")(outbox)
        assert layer.sent == []

    transact(work)
    assert layer.sent == [
        (events.HINTS, {"type": "stream.hints", "numbers": {"market:gemm": 1, "ops": 2}, "touches": []})
    ]


def test_a_commit_hints_once_at_all_that_it_told_and_touched(use_layer: Callable[..., None]) -> None:
    layer = RememberingLayer()
    use_layer(layer)

    def work(outbox: Outbox) -> None:
        events.touch("job:job_1", what="progress", progress=0.1)
        events.touch("job:job_1", what="log")
        tell("ops")(outbox)
        events.touch("job:job_1", what="progress", progress=0.2)

    transact(work)
    ((group, message),) = layer.sent
    assert group == events.HINTS
    assert message["numbers"] == {"ops": 1}
    assert message["touches"] == [
        {"stream": "job:job_1", "facts": {"what": "progress", "progress": 0.2}},
        {"stream": "job:job_1", "facts": {"what": "log"}},
    ]


def test_hints_at_very_many_streams_go_out_in_messages_of_a_bounded_size(
    use_layer: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STREAMS_PER_MESSAGE", 3)
    layer = RememberingLayer()
    use_layer(layer)
    transact(tell(*(f"job:job_{number}" for number in range(8))))
    numbers = [message["numbers"] for _, message in layer.sent]
    assert list(map(len, numbers)) == [3, 3, 2]
    assert {name: seq for some in numbers for name, seq in some.items()} == {f"job:job_{n}": 1 for n in range(8)}


def test_what_a_savepoint_undid_takes_no_other_hint_with_it(use_layer: Callable[..., None]) -> None:
    layer = RememberingLayer()
    use_layer(layer)

    def work(outbox: Outbox) -> None:
        with suppress(LookupError), outbox.savepoint():
            events.touch("job:job_1", what="progress")
            raise LookupError
        events.touch("job:job_2", what="progress")

    transact(work)
    ((_, message),) = layer.sent
    assert [touch["stream"] for touch in message["touches"]] == ["job:job_2"]


def test_a_touch_outside_of_a_transaction_goes_out_at_once(use_layer: Callable[..., None]) -> None:
    layer = RememberingLayer()
    use_layer(layer)
    events.touch("job:job_1", what="progress")
    assert len(layer.sent) == 1


def test_a_failed_transaction_hints_at_nothing(use_layer: Callable[..., None]) -> None:
    layer = RememberingLayer()
    use_layer(layer)

    def fails(outbox: Outbox) -> None:
        publish([Draft("ops", "type", "subject", {})], at=AT)
        raise LookupError

    with pytest.raises(LookupError):
        transact(fails)
    assert layer.sent == []


@pytest.mark.parametrize("layer", [RefusingLayer(), SilentLayer()], ids=["refusing", "silent"])
def test_a_lost_hint_does_no_harm_and_is_logged(
    layer: BaseChannelLayer,
    use_layer: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "HINT_SECONDS", 0.05)
    use_layer(layer)
    transact(tell("ops"))
    assert numbers("ops") == [1]
    assert "were not delivered" in caplog.text


def test_a_deadlock_is_tried_again() -> None:
    transact(tell("ops", "market:gemm"))
    orders = [["ops", "market:gemm"], ["market:gemm", "ops"]]
    attempts: list[int] = []
    both_hold_one, is_through = [Signal(), Signal()], [Signal(), Signal()]

    def lock_both(number: int) -> None:
        def work(outbox: Outbox) -> None:
            attempts.append(number)
            if attempts.count(number) > 1:  # or it might take the other's lock anew before that one wakes
                assert is_through[1 - number].wait(10)
            for name in orders[number]:
                Stream.objects.select_for_update().get(name=name)
                both_hold_one[number].set()
                assert both_hold_one[1 - number].wait(10)
            tell("ops")(outbox)

        transact(work)
        is_through[number].set()

    assert race(2, lock_both) == [None, None]
    assert len(attempts) == 3
    assert numbers("ops") == [1, 2, 3]


def test_a_rehearsal_shows_the_effect_and_keeps_nothing(use_layer: Callable[..., None]) -> None:
    layer = RememberingLayer()
    use_layer(layer)

    def work(outbox: Outbox) -> int:
        Stream.objects.create(name="ops")
        tell("ops")(outbox)
        return Stream.objects.count()

    assert rehearse(work) == 1
    assert not Stream.objects.exists()
    assert layer.sent == []


def test_a_rehearsal_meets_the_constraints_that_a_commit_would_meet() -> None:
    with pytest.raises(IntegrityError, match="0 of its last 3 events"):
        rehearse(lambda _outbox: Stream.objects.create(name="ops", last_seq=3))
