"""The end of events: what is older than the retention goes, the oldest first, a bounded number at a time.

A stream's `first_seq` moves with the deletion, in one transaction, so that its numbers have no gap at any moment.
"""

from datetime import datetime

from django.db import connection

from laissez.events import Outbox, transact
from laissez.models import Event, Stream

BATCH = 1000
MOST_BATCHES = 500


def purge(*, before: datetime, batch: int = BATCH, most_batches: int = MOST_BATCHES) -> int:
    """Delete the events from before a time.

    Args:
        batch: how many events of one stream go in one transaction, which holds that stream's lock.
        most_batches: how many such transactions there are at most; the next run goes on.

    Returns:
        How many events have gone.
    """
    gone, left = 0, most_batches
    for stream_id in _with_old_events(before, most_batches):
        purged = batch
        while left > 0 and purged == batch:
            purged = _purge_some(stream_id, before, batch)
            gone, left = gone + purged, left - 1
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


def _purge_some(stream_id: int, before: datetime, batch: int) -> int:
    def work(_outbox: Outbox) -> int:
        stream = Stream.objects.select_for_update(no_key=True).get(pk=stream_id)
        oldest = Event.objects.filter(stream=stream, seq__gte=stream.first_seq).order_by("seq")
        kept_from = stream.first_seq
        for seq, at in oldest.values_list("seq", "at")[:batch]:
            if at >= before:
                break
            kept_from = seq + 1
        Stream.objects.filter(pk=stream.pk).update(first_seq=kept_from)
        gone, _ = Event.objects.filter(stream=stream, seq__lt=kept_from).delete()
        return gone

    return transact(work)
