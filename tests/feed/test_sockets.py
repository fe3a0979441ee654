"""What a socket is told: everything after its cursor, in order, once, however it comes about."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from channels.layers import channel_layers

from laissez import events
from laissez.feed import consumer, hub, streams
from laissez.feed.replay import Recorded
from laissez.models import Event
from tenants.models import Tenant
from tests.events.layers import RefusingLayer, SilentLayer
from tests.feed.talking import connected
from tests.feed.told import PRICED, tell
from tests.planting import plant
from tests.tenancy import a_tenant, a_token

pytestmark = pytest.mark.django_db(transaction=True)

tell_later = sync_to_async(tell)


@pytest.fixture
def tenant() -> Tenant:
    return a_tenant()


@pytest.fixture
def token(tenant: Tenant) -> dict[str, str]:
    return {"authorization": f"Bearer {a_token(tenant)[1]}"}


@pytest.fixture
def stream(tenant: Tenant, token: dict[str, str]) -> str:
    """Has two events: of the tenant's and the token's beginning."""
    return tenant.stream


@pytest.fixture
def without_hints() -> Iterator[None]:
    before = channel_layers.set("default", RefusingLayer())
    yield
    channel_layers.set("default", before)


async def test_what_follows_the_cursor_comes_first_and_then_what_happens(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        assert await client.subscribe(stream, 0) == {"type": "subscribed", "stream": stream, "after": 0, "last": 2}
        assert await client.numbers(2) == [1, 2]
        await tell_later(stream, 7)
        (event,) = await client.events(1)
        assert (event["sequence"], event["data"]) == ("3", {"n": 7})


async def test_an_event_is_a_cloud_event_with_its_number_and_its_end(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        await client.subscribe(stream, 1)
        (event,) = await client.events(1)
    row = await Event.objects.aget(stream__name=stream, seq=2)
    assert event["specversion"] == "1.0"
    assert (event["source"], event["id"]) == (f"/streams/{stream}", row.public_id)
    assert (event["type"], event["dataschema"]) == (row.type, f"/api/v1/schemas/{row.type}")
    assert (event["subject"], event["data"], event["datacontenttype"]) == (row.subject, row.data, "application/json")
    assert event["time"] < event["expirytime"]


async def test_without_a_cursor_only_what_is_new_comes(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        assert (await client.subscribe(stream))["after"] == 2
        await tell_later(stream, 1)
        assert await client.numbers(1) == [3]


async def test_a_long_history_is_caught_up_page_by_page_while_more_is_told(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_PAGE", 4)
    await tell_later(stream, *range(20))
    async with connected(**token) as client:
        await client.subscribe(stream, 0)
        await tell_later(stream, 1, 2, 3)
        assert await client.numbers(25) == list(range(1, 26))
        await tell_later(stream, 4)
        assert await client.numbers(1) == [26]


async def test_two_sockets_share_a_tail_and_the_second_one_catches_up_for_itself(
    token: dict[str, str], stream: str
) -> None:
    async with connected(**token) as first, connected(**token) as second:
        await first.subscribe(stream)
        await tell_later(stream, 1, 2)
        assert await first.numbers(2) == [3, 4]
        await second.subscribe(stream, 0)
        assert await second.numbers(4) == [1, 2, 3, 4]
        await tell_later(stream, 3)
        assert (await first.numbers(1), await second.numbers(1)) == ([5], [5])


async def test_without_hints_the_tail_finds_the_rows_by_itself(
    token: dict[str, str], stream: str, without_hints: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(hub, "RETRY_SECONDS", 0.05)
    async with connected(**token) as client:
        await client.subscribe(stream)
        await tell_later(stream, 1)
        assert await client.numbers(1) == [3]


async def test_a_channel_layer_that_hangs_does_not_hold_up_the_tail(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (hub, "POLL_SECONDS"),
        (hub, "RETRY_SECONDS"),
        (hub, "GROUP_SECONDS"),
        (events, "HINT_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.02)
    before = channel_layers.set("default", SilentLayer())
    try:
        async with connected(**token) as client:
            await client.subscribe(stream)
            await tell_later(stream, 1)
            assert await client.numbers(1) == [3]
    finally:
        channel_layers.set("default", before)


async def test_a_touch_is_passed_on_and_has_no_number(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        await client.subscribe(stream)
        await tell_later(stream, 1)
        await client.numbers(1)  # the hub is in the group by now
        await sync_to_async(events.touch)(stream, what="progress")
        assert await client.read() == {"type": "touched", "stream": stream, "what": "progress"}


async def test_events_that_come_at_once_are_one_frame_for_whoever_wants_them_together(
    token: dict[str, str], stream: str
) -> None:
    async with connected(**token) as apart, connected(**token) as together:
        await apart.subscribe(stream)
        await together.send({"type": "subscribe", "stream": stream, "after": None, "together": True})
        assert (await together.read())["type"] == "subscribed"
        await tell_later(stream, 7, 8, 9)
        frame = await together.read()
        assert (frame["type"], frame["stream"]) == ("events", stream)
        assert frame["events"] == await apart.events(3)
        assert [event["data"]["n"] for event in frame["events"]] == [7, 8, 9]


async def test_whoever_is_slow_is_sent_only_the_newest_frame_of_the_same_prices(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer.Outgoing.__init__, "__kwdefaults__", {"limit": 4, "pressure": 1})
    monkeypatch.setattr(hub, "EVENTS_TOGETHER", 4)
    async with connected(**token) as client:
        await client.send({"type": "subscribe", "stream": stream, "after": None, "together": True})
        await client.read()
        await tell_later(stream, *range(40), type_=PRICED)
        newest = 0
        while newest < 42:
            newest = int((await client.read())["events"][-1]["sequence"])


async def test_a_hub_looks_only_at_the_streams_that_it_follows(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[list[str]] = []
    following = hub._following

    async def noted(cursors: dict[str, int]) -> list[Recorded]:
        looked.append(sorted(cursors))
        return list(await following(cursors))

    monkeypatch.setattr(hub, "_following", noted)
    async with connected(**token) as client:
        await client.subscribe(stream)
        await tell_later(stream, 1)
        await client.numbers(1)
        await tell_later("test:other", 1)
        await tell_later(stream, 2)
        await client.numbers(1)
    assert {name for names in looked for name in names} == {stream}


async def test_the_server_says_that_it_lives(token: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "ALIVE_SECONDS", 0.01)
    async with connected(**token) as client:
        frame = json.loads((await client.output())["text"])
        assert frame["type"] == "alive"
        assert frame["time"].endswith("Z")


async def test_after_unsubscribing_nothing_comes(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        await client.subscribe(stream)
        await client.send({"type": "unsubscribe", "stream": stream})
        await tell_later(stream, 1)
        assert (await client.subscribe(stream))["after"] == 3


async def test_subscribing_again_begins_at_the_new_cursor(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        await client.subscribe(stream)
        await client.subscribe(stream, 1)
        assert await client.numbers(1) == [2]


async def test_a_cursor_beyond_the_last_number_is_refused_with_what_there_is(
    token: dict[str, str], stream: str
) -> None:
    async with connected(**token) as client:
        refused = await client.subscribe(stream, 3)
    assert (refused["type"], refused["code"], refused["oldest"]) == ("refused", "ahead", 1)
    assert "has told 2 events" in refused["detail"]


async def test_a_cursor_from_before_the_oldest_event_is_refused_with_the_snapshots_address(
    token: dict[str, str], stream: str
) -> None:
    await sync_to_async(plant)("DELETE FROM laissez_event WHERE seq = 1", "UPDATE laissez_stream SET first_seq = 2")
    async with connected(**token) as client:
        refused = await client.subscribe(stream, 0)
        assert (refused["code"], refused["oldest"]) == ("gone", 2)
        assert refused["snapshot"] == f"/api/v1/events/snapshot?stream={stream}"
        assert (await client.subscribe(stream, 1))["type"] == "subscribed"
        assert await client.numbers(1) == [2]


WRONG = [
    {"type": "subscribe"},
    {"type": "subscribe", "stream": 7},
    {"type": "subscribe", "stream": "x" * 121},
    {"type": "shout", "stream": "ops"},
    {"type": "subscribe", "stream": "ops", "after": -1},
    {"type": "subscribe", "stream": "ops", "after": "3"},
    {"type": "subscribe", "stream": "ops", "after": True},
    {"type": "subscribe", "stream": "ops", "after": 2**70},
    {"type": "subscribe", "stream": "ops", "together": "yes"},
]


@pytest.mark.parametrize("name", ["market:\ud800", "ops\udfff", "market:\x00", "job:\n", "market:\N{SNOWMAN}"])
async def test_a_name_that_no_stream_can_have_is_refused_like_any_other(token: dict[str, str], name: str) -> None:
    async with connected(**token) as client:
        assert (await client.subscribe(name))["code"] == "not_found"


async def test_several_histories_are_read_in_turn_and_do_not_crowd_each_other_out(
    token: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading: list[str] = []
    together: list[int] = []
    page = consumer._page

    async def counted(stream: str, after: int, limit: int) -> list[Recorded]:
        reading.append(stream)
        together.append(len(reading))
        found = await page(stream, after, limit)
        reading.remove(stream)
        return found

    monkeypatch.setattr(consumer, "_page", counted)
    monkeypatch.setattr(streams, "kind_of", lambda _name: streams.StreamKind("test:", lambda *_: None, lambda _: {}))
    names = [f"test:{number}" for number in range(3)]
    for name in names:
        await tell_later(name, *range(5))
    async with connected(**token) as client:
        for name in names:
            await client.send({"type": "subscribe", "stream": name, "after": 0})
        frames = [await client.read() for _ in range(3 + 15)]
    assert together == [1, 1, 1]
    for name in names:
        told = [frame["event"]["sequence"] for frame in frames if frame["type"] == "event" and frame["stream"] == name]
        assert told == ["1", "2", "3", "4", "5"]


async def test_a_fault_while_catching_up_ends_the_connection_and_is_logged(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr(consumer, "frame_of", broken)
    async with connected(**token) as client:
        await client.subscribe(stream, 0)
        assert await client.read() == {"type": "closed", "code": 1013}
    assert "unforeseen" in caplog.text


async def test_a_stream_that_began_anew_sends_its_sockets_back_to_ask_again(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "POLL_SECONDS", 0.02)
    async with connected(**token) as client:
        await client.subscribe(stream)
        await sync_to_async(plant)(f"UPDATE laissez_stream SET last_seq = 1 WHERE name = '{stream}'")
        assert await client.read() == {"type": "closed", "code": 1013}
    async with connected(**token) as client:
        assert (await client.subscribe(stream, 2))["code"] == "ahead"


async def test_one_credential_has_only_so_many_sockets(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_PER_CREDENTIAL", 1)
    async with connected(**token) as first:
        await first.subscribe(stream)
        async with connected(**token) as second:
            assert await second.read() == {"type": "closed", "code": 1013}


async def test_a_frame_with_wrong_members_is_refused_and_the_socket_goes_on(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        for frame in WRONG:
            await client.send(frame)
            refused = await client.read()
            assert (refused["type"], refused["code"]) == ("refused", "malformed"), frame
        assert (await client.subscribe(stream))["type"] == "subscribed"


async def test_a_frame_that_is_no_json_object_ends_the_connection(token: dict[str, str]) -> None:
    for text in ("", "{", "[]", "7", '"subscribe"', "x" * 5000, "[" * 4000):
        async with connected(**token) as client:
            await client.send(text)
            assert await client.read() == {"type": "closed", "code": 4400}, text


async def test_more_frames_than_allowed_end_the_connection(
    token: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "BURST_FRAMES", 3)
    async with connected(**token) as client:
        for _ in range(5):
            await client.send({"type": "unsubscribe", "stream": "ops"})
        assert await client.read() == {"type": "closed", "code": 4400}


async def test_there_is_a_bound_on_what_one_socket_follows(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_SUBSCRIPTIONS", 0)
    async with connected(**token) as client:
        assert (await client.subscribe(stream))["code"] == "too_many_subscriptions"


async def test_a_reader_that_is_too_far_behind_is_sent_away_and_loses_nothing_by_it(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer.Outgoing.__init__, "__kwdefaults__", {"limit": 4, "pressure": 2})
    async with connected(**token) as client:
        await client.subscribe(stream)
        await tell_later(stream, *range(9))
        read = []
        while (frame := await client.read())["type"] == "event":
            read.append(int(frame["event"]["sequence"]))
        assert frame == {"type": "closed", "code": 4408}
        assert read == list(range(3, 3 + len(read)))
    async with connected(**token) as client:
        await client.subscribe(stream, 2 + len(read))
        rest = await client.numbers(9 - len(read))
    assert [*read, *rest] == list(range(3, 12))


async def test_a_slow_reader_of_prices_is_sent_the_newest_and_stays(
    token: dict[str, str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer.Outgoing.__init__, "__kwdefaults__", {"limit": 4, "pressure": 1})
    async with connected(**token) as client:
        await client.subscribe(stream)
        await tell_later(stream, *range(40), type_=PRICED)
        newest = (await client.events(1))[0]
        while int(newest["sequence"]) < 42:
            newest = (await client.events(1))[0]
    assert newest["data"] == {"n": 39}


async def test_the_last_socket_takes_the_hub_with_it(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        await client.subscribe(stream)
        assert len(hub.hub()) == 1
        before = hub.hub()
    assert hub.hub() is not before
    assert {task.get_name() for task in asyncio.all_tasks() if "Hub" in repr(task)} == set()
