"""The end of events: what is older than the retention goes, the oldest first, a bounded number at a time.

A stream's `first_seq` moves with the deletion, in one transaction, so that its numbers have no gap at any moment.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from laissez.events import Outbox, transact
from laissez.models import Stream

BATCH = 1000
MOST_BATCHES = 500
STREAMS_PER_BATCH = 100
"""Most streams are of jobs, have a dozen events, and end: they go together."""

ADVANCE = """
    WITH old AS (
        SELECT stream.id, stream.first_seq,
               coalesce(min(event.seq) FILTER (WHERE event.at >= %(before)s), max(event.seq) + 1) AS kept_from
        FROM laissez_stream AS stream CROSS JOIN LATERAL (
            SELECT seq, at FROM laissez_event
            WHERE stream_id = stream.id AND seq >= stream.first_seq ORDER BY seq LIMIT %(share)s
        ) AS event
        WHERE stream.id = ANY (%(streams)s)
        GROUP BY stream.id
    )
    UPDATE laissez_stream AS stream SET first_seq = old.kept_from
    FROM old WHERE stream.id = old.id AND old.kept_from > old.first_seq
    RETURNING stream.id, old.kept_from, old.kept_from - old.first_seq
"""
DELETE = """
    DELETE FROM laissez_event AS event USING unnest(%s::bigint[], %s::bigint[]) AS kept(stream_id, first_seq)
    WHERE event.stream_id = kept.stream_id AND event.seq < kept.first_seq
"""


def purge(*, before: datetime, batch: int = BATCH, most_batches: int = MOST_BATCHES) -> int:
    """Delete the events from before a time.

    Args:
        batch: how many events go in one transaction, which holds their streams' locks.
        most_batches: how many such transactions there are at most; the next run goes on.

    Returns:
        How many events have gone.
    """
    gone, waiting = 0, _with_old_events(before, most_batches * STREAMS_PER_BATCH)
    for _ in range(most_batches):
        streams, waiting = waiting[:STREAMS_PER_BATCH], waiting[STREAMS_PER_BATCH:]
        if not streams:
            break
        share = max(1, batch // len(streams))
        purged = _purge_some(streams, before, share)
        gone += sum(purged.values())
        waiting = [stream for stream in streams if purged.get(stream) == share] + waiting
    return gone


def _with_old_events(before: datetime, most: int) -> list[int]:
    """The streams whose oldest event is old enough to go, the oldest of them first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT stream.id FROM laissez_stream AS stream"
            " JOIN laissez_event AS event ON event.stream_id = stream.id AND event.seq = stream.first_seq"
            " WHERE event.at < %s ORDER BY event.at LIMIT %s",
            [before, most],
        )
        return [row[0] for row in cursor.fetchall()]


def _purge_some(streams: Sequence[int], before: datetime, share: int) -> dict[int, int]:
    """Delete at most so many events of each of some streams. Returns how many have gone, by stream."""

    def work(_outbox: Outbox) -> dict[int, int]:
        locked = Stream.objects.select_for_update(no_key=True).filter(pk__in=streams).order_by("pk")
        ids = list(locked.values_list("pk", flat=True))
        with connection.cursor() as cursor:
            cursor.execute(ADVANCE, {"streams": ids, "before": before, "share": share})
            advanced = cursor.fetchall()
            cursor.execute(DELETE, [[stream for stream, _, _ in advanced], [kept for _, kept, _ in advanced]])
        return {stream: gone for stream, _, gone in advanced}

    return transact(work)
