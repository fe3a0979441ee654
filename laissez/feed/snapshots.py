"""A stream's rows as of one of its numbers, both read in one snapshot of the database."""

from typing import Any
from urllib.parse import quote

from django.db import connection, transaction

from laissez import clock
from laissez.feed import replay, streams


def address_of(name: str) -> str:
    """Where the snapshot of a stream is to be had."""
    return f"/api/v1/events/snapshot?stream={quote(name, safe=':')}"


def snapshot(name: str) -> dict[str, Any]:
    """The stream's snapshot; whoever folds the events after its `seq` into it has the next one.

    Raises:
        NotFound: there is no such kind of stream.
    """
    kind = streams.kind_of(name)
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        held = replay.range_of(name)
        as_of = clock.now()
        entities = kind.snapshot(name)
    return {"stream": name, "seq": held.last, "as_of": clock.rfc3339(as_of), "entities": entities}
