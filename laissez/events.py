"""Events are appended with the change they tell of, and announced after it is committed.

A service is handed an `Outbox` and adds drafts to it, however deep it stands; whoever opened the transaction publishes
them once, as its last statements. Numbers are taken under the stream's row lock, so a stream has no gaps and its order
is the order of commits. What goes through channels is a hint only: a reader that misses it finds the rows anyway.
"""

import asyncio
import json
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import OperationalError, connection, transaction
from redis.exceptions import RedisError

from laissez import clock
from laissez.bulk import copy_in
from laissez.feed import vocabulary
from laissez.ids import new_id, new_ids
from laissez.models import Event
from laissez.prepared import run

logger = logging.getLogger(__name__)

T = TypeVar("T")

HINT_SECONDS = 1.0
"""The most a hint may delay its sender when the channel layer does not answer."""

HINTS = "feed.hints"
"""The channel-layer group of every hub: `stream.hints` with `numbers` by stream, and `touches` of stream and facts."""

STREAMS_PER_MESSAGE = 1000

RETRIES = 3
RETRIED = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


@dataclass(frozen=True, slots=True)
class Draft:
    """An event before it has a number. `data` is JSON with units in its names; `type` as in the event vocabulary."""

    stream: str
    type: str
    subject: str
    data: Mapping[str, Any]


class Outbox:
    """What one transaction has to tell, and its one reading of the clock. Passed down to every service that writes."""

    def __init__(self, *, now: datetime | None = None) -> None:
        self._now = now
        self._drafts: list[Draft] = []

    @property
    def drafts(self) -> Sequence[Draft]:
        """The drafts so far, in the order in which they were added."""
        return tuple(self._drafts)

    def now(self) -> datetime:
        """The transaction's market time: the database's clock at the first call. Make that call after the locks."""
        if self._now is None:
            self._now = clock.now()
        return self._now

    def learn(self, now: datetime) -> None:
        """Take the time from a statement that has read the database's clock after the locks, unless it is known."""
        self._now = self._now or now

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part of the transaction that may fail alone: its rows are undone then, and its events are not told."""
        kept = len(self._drafts)
        try:
            with transaction.atomic():
                yield
        except BaseException:
            del self._drafts[kept:]
            raise

    def add(self, stream: str, type_: str, subject: str, data: Mapping[str, Any]) -> None:
        """Keep an event for the end of the transaction.

        Raises:
            UnknownType: nobody has declared the type; see `laissez.feed.vocabulary`.
        """
        vocabulary.find(type_)
        self._drafts.append(Draft(stream, type_, subject, data))


def transact(work: Callable[[Outbox], T]) -> T:
    """Run `work` in one transaction of its own and publish what it put into its outbox.

    A deadlock or a serialization failure undoes everything and runs `work` again with a fresh outbox, a few times at
    most, so `work` must act on the database only. Returns what `work` returned; nothing is announced if it raised.
    """
    for _ in range(RETRIES):
        try:
            return _attempt(work)
        except OperationalError as error:
            if connection.in_atomic_block or not isinstance(error.__cause__, RETRIED):
                raise
            logger.warning("The transaction is tried again: %s", type(error.__cause__).__name__)
    return _attempt(work)


def _attempt(work: Callable[[Outbox], T]) -> T:
    with transaction.atomic(durable=True):
        outbox = Outbox()
        result = work(outbox)
        if outbox.drafts:
            publish(outbox.drafts, at=outbox.now())
        return result


def rehearse(work: Callable[[Outbox], T]) -> T:
    """Run `work` as `transact` would, constraints included, then undo it and announce nothing: a dry run."""
    with transaction.atomic(durable=True):
        result = work(Outbox())
        connection.check_constraints()
        transaction.set_rollback(True)
    return result


def publish(drafts: Sequence[Draft], *, at: datetime) -> None:
    """Append a transaction's events, numbered in the order given, and hint at them once they are committed.

    Call it once, as the last statements of a transaction: it locks the streams in the order of their ids, and nothing
    may be locked after streams.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("Events are published in the transaction of the change they tell of.")
    if not drafts:
        return
    if not settings.PRODUCTION:
        for draft in drafts:
            vocabulary.check(draft.type, draft.data)
    counts = Counter(draft.stream for draft in drafts)
    last_numbers = _tell_few(drafts, counts, at) if len(drafts) <= FEW else _tell_many(drafts, counts, at)
    _after_commit(lambda hints: hints.numbers.update(last_numbers))


FEW = 16
"""Drafts that are written by the statement that numbers them; more of them are copied in."""

_ADVANCE = """
    locked AS MATERIALIZED (
        SELECT id FROM laissez_stream WHERE name = ANY (%s::text[]) ORDER BY id FOR NO KEY UPDATE
    ), advanced AS (
        UPDATE laissez_stream AS stream SET last_seq = stream.last_seq + more.count
        FROM locked, unnest(%s::text[], %s::bigint[]) AS more(name, count)
        WHERE stream.id = locked.id AND stream.name = more.name AND (SELECT count(*) FROM locked) = %s
        RETURNING stream.name, stream.id, stream.last_seq, more.count
    )
"""
"""Counts each stream up under its lock, taken in the order of ids; none of them unless all of them are there."""

_NUMBER = f"WITH {_ADVANCE} SELECT name, id, last_seq FROM advanced"  # noqa: S608 - as above
_TELL = f"""
    WITH {_ADVANCE}, told AS (
        INSERT INTO laissez_event (stream_id, seq, public_id, type, subject, at, data)
        SELECT advanced.id, advanced.last_seq - advanced.count + draft.number, draft.public_id, draft.type,
               draft.subject, %s, draft.data::jsonb
        FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[]) WITH ORDINALITY
                 AS draft(stream, number, public_id, type, subject, data, place)
        JOIN advanced ON advanced.name = draft.stream ORDER BY draft.place
    )
    SELECT name, last_seq FROM advanced
"""  # noqa: S608 - nothing but this module's own words


def _tell_few(drafts: Sequence[Draft], counts: Counter[str], at: datetime) -> dict[str, int]:
    """Number and write events in one statement. Returns the last number of each stream."""
    so_far, numbers = Counter[str](), []
    for draft in drafts:
        so_far[draft.stream] += 1
        numbers.append(so_far[draft.stream])
    written = [
        at,
        [draft.stream for draft in drafts],
        numbers,
        [new_id("evt") for _ in drafts],
        [draft.type for draft in drafts],
        [draft.subject for draft in drafts],
        [json.dumps(dict(draft.data)) for draft in drafts],
    ]
    return dict(_on_streams(_TELL, counts, written))


def _tell_many(drafts: Sequence[Draft], counts: Counter[str], at: datetime) -> dict[str, int]:
    """Number events in one statement and copy them in. Returns the last number of each stream."""
    streams = {name: (pk, last_seq) for name, pk, last_seq in _on_streams(_NUMBER, counts, [])}
    copy_in(Event, _COLUMNS, _rows(drafts, streams, counts, at))
    return {name: last_seq for name, (_, last_seq) in streams.items()}


def _on_streams(sql: str, counts: Counter[str], more: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Carry out a statement that advances streams; where one is missing, make it and do so again."""
    names = sorted(counts)
    parameters = [names, names, [counts[name] for name in names], len(names), *more]
    rows = run(sql, parameters)
    if not rows:
        run(_CREATE, [names])
        rows = run(sql, parameters)
    if len(rows) != len(names):
        raise RuntimeError(f"Of the streams {', '.join(names)} only {len(rows)} could be counted up.")
    return rows


_COLUMNS = ("stream_id", "seq", "public_id", "type", "subject", "at", "data")


def _rows(
    drafts: Sequence[Draft], streams: Mapping[str, tuple[int, int]], counts: Counter[str], at: datetime
) -> Iterator[tuple[Any, ...]]:
    """What is copied in of events, given the id of each stream and its last number."""
    following = {name: last_seq - counts[name] for name, (_, last_seq) in streams.items()}
    ids, encode = new_ids("evt", at_once=min(len(drafts), _IDS_AT_ONCE)), json.JSONEncoder().encode
    data: Mapping[str, Any] | None = None
    text = ""
    for draft in drafts:
        following[draft.stream] += 1
        if draft.data is not data:  # neighbours on two streams often say the same
            data, text = draft.data, encode(dict(draft.data))
        yield streams[draft.stream][0], following[draft.stream], next(ids), draft.type, draft.subject, at, text


_IDS_AT_ONCE = 500

_CREATE = """
    INSERT INTO laissez_stream (name, last_seq)
    SELECT wanted.name, 0 FROM unnest(%s::text[]) AS wanted(name)
    WHERE NOT EXISTS (SELECT FROM laissez_stream AS stream WHERE stream.name = wanted.name)
    ORDER BY wanted.name
    ON CONFLICT DO NOTHING
"""  # another transaction may create the same stream at this moment


def touch(stream: str, **facts: Any) -> None:
    """Hint, once the present transaction is committed, that something about a stream has changed that is no event.

    It has no number and may get lost: whoever follows the stream is told the newest of these facts, or nothing.

    Args:
        facts: JSON; `what` names the kind of change, of which only the newest touch counts.
    """
    _after_commit(lambda hints: hints.touches.update({(stream, str(facts.get("what"))): facts}))


@dataclass(slots=True)
class _Hints:
    """What one transaction hints at: of each stream its last number, and the newest touch of each kind.

    All of it goes out together, to whoever listens in this installation: a hub looks for the streams that it follows.
    A hint that a savepoint has undone costs a reader one look.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    touches: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def send(self) -> None:
        """In one message, or in a few where very many streams have changed."""
        numbers, touches = list(self.numbers.items()), list(self.touches.items())
        messages = []
        for start in range(0, max(len(numbers), len(touches)), STREAMS_PER_MESSAGE):
            some = slice(start, start + STREAMS_PER_MESSAGE)
            told = [{"stream": stream, "facts": facts} for (stream, _), facts in touches[some]]
            messages.append((HINTS, {"type": "stream.hints", "numbers": dict(numbers[some]), "touches": told}))
        nudge(messages)


def _after_commit(add: Callable[[_Hints], object]) -> None:
    """Add to what the present transaction hints at; outside of one, that is sent at once."""
    for entry in reversed(connection.run_on_commit):
        hints = getattr(entry[1], "__self__", None)
        if isinstance(hints, _Hints):
            add(hints)
            return
    hints = _Hints()
    add(hints)
    transaction.on_commit(hints.send, robust=True)


def nudge(messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Send channel-layer messages to groups. What does not arrive costs time only: every reader polls its rows too."""
    if not messages:
        return
    try:
        asyncio.run_coroutine_threadsafe(_send(messages), _voice()).result()
    except (OSError, RedisError) as error:
        logger.warning(
            "%d hints were not delivered, readers find the rows by polling: %s: %s",
            len(messages),
            type(error).__name__,
            error,
        )


async def _send(messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    async with asyncio.timeout(HINT_SECONDS):
        for group, message in messages:
            await layer.group_send(group, message)


_voices: dict[int, asyncio.AbstractEventLoop] = {}
_making_a_voice = threading.Lock()


def _voice() -> asyncio.AbstractEventLoop:
    """The event loop in which this process sends its hints, in a thread of its own, so that its connection stays."""
    found = _voices.get(os.getpid())
    if found is not None:
        return found
    with _making_a_voice:
        if os.getpid() not in _voices:  # a thread is not inherited by a process that was forked
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="hints", daemon=True).start()
            _voices[os.getpid()] = loop
    return _voices[os.getpid()]
