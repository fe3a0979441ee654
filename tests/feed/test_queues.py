"""What waits for a socket, without one."""

import asyncio

from laissez.feed.queues import Outgoing


def taken(queue: Outgoing) -> list[str]:
    found = []
    while (text := queue.take()) is not None:
        found.append(text)
    return found


async def test_a_reader_that_keeps_up_is_sent_every_price() -> None:
    queue = Outgoing(limit=10, pressure=3)
    for number in range(3):
        assert queue.put_price(f"price {number}", "a10")
    assert taken(queue) == ["price 0", "price 1", "price 2"]


async def test_a_slow_reader_is_sent_the_newest_price_of_each_type_and_every_other_event() -> None:
    queue = Outgoing(limit=6, pressure=2)
    assert queue.put("notice")
    for number in range(20):
        assert queue.put_price(f"a10 {number}", "a10")
        assert queue.put_price(f"l4 {number}", "l4")
    assert queue.put("award")
    assert taken(queue) == ["notice", "a10 19", "l4 19", "award"]


async def test_what_does_not_coalesce_is_never_dropped_but_refused() -> None:
    queue = Outgoing(limit=2, pressure=1)
    assert [queue.put("one"), queue.put("two"), queue.put("three")] == [True, True, False]
    assert taken(queue) == ["one", "two"]


async def test_of_several_hints_only_the_newest_waits() -> None:
    queue = Outgoing()
    queue.put_newest("alive 1", "alive")
    queue.put("event")
    queue.put_newest("alive 2", "alive")
    assert taken(queue) == ["event", "alive 2"]


async def test_history_waits_until_half_of_the_room_is_free() -> None:
    queue = Outgoing(limit=8)
    for _ in range(5):
        queue.put("x")
    waiting = asyncio.create_task(queue.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.take()
    assert await waiting == 2
