"""Reading streams again: the events after a cursor, by REST or for a socket that catches up, and the tails' reads.

Numbers are given under the stream's lock, which is held until the commit: whoever sees an event sees all before it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from laissez.errors import Refused
from laissez.models import Event, Stream

MAX_PAGE = 500


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its number and its stream's name."""

    stream: str
    seq: int
    id: str
    type: str
    subject: str
    at: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Range:
    """What a stream holds: from its oldest kept number to its last. Empty where `last` is below `oldest`."""

    oldest: int
    last: int


class LostCursor(Refused):
    """A cursor that cannot be followed; `held` says what can. A snapshot and what follows it takes its place."""

    def __init__(self, code: str, detail: str, *, status: int, held: Range) -> None:
        self.held = held
        super().__init__(code, f"{detail} Take its snapshot and go on from there.", "/after", status)


def range_of(name: str) -> Range:
    """What a stream holds; one that has told nothing yet is empty."""
    row = Stream.objects.filter(name=name).values_list("first_seq", "last_seq").first()
    return Range(1, 0) if row is None else Range(*row)


def check(name: str, after: int, held: Range) -> None:
    """Refuse a cursor that cannot be followed.

    Raises:
        LostCursor: `gone` (410) when what follows it has been purged, `ahead` (409) when it is beyond the stream's
            last number, so that it is another stream's, or of another database.
    """
    if after + 1 < held.oldest:
        raise gone(name, held)
    if after > held.last:
        detail = f"Stream {name} has told {held.last} events; there is no {after} yet."
        raise LostCursor("ahead", detail, status=409, held=held)


def gone(name: str, held: Range) -> LostCursor:
    """The refusal of a cursor whose next event has been purged."""
    return LostCursor("gone", f"Stream {name} keeps its events from {held.oldest} on.", status=410, held=held)


def page(name: str, *, after: int, limit: int = MAX_PAGE) -> list[Recorded]:
    """The events after a cursor, oldest first."""
    rows = Event.objects.filter(stream__name=name, seq__gt=after).order_by("seq")
    return [
        Recorded(name, *row) for row in rows.values_list("seq", "public_id", "type", "subject", "at", "data")[:limit]
    ]


def rewound(cursors: Mapping[str, int]) -> list[str]:
    """The streams that have told less than these cursors say: the database is another, or an older state of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tail.name FROM unnest(%s::text[], %s::bigint[]) AS tail(name, after)"
            " LEFT JOIN laissez_stream AS stream ON stream.name = tail.name"
            " WHERE coalesce(stream.last_seq, 0) < tail.after",
            [list(cursors), list(cursors.values())],
        )
        return [name for (name,) in cursor.fetchall()]


def following(cursors: Mapping[str, int], *, limit: int = MAX_PAGE) -> list[Recorded]:
    """The events after each of these cursors, at most `limit` of a stream, in one query. In order within a stream."""
    names: list[Any] = list(cursors)
    if not names:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tail.name, event.seq, event.public_id, event.type, event.subject, event.at, event.data::text"
            " FROM unnest(%s::text[], %s::bigint[]) AS tail(name, after)"
            " JOIN laissez_stream AS stream ON stream.name = tail.name AND stream.last_seq > tail.after"
            " CROSS JOIN LATERAL (SELECT * FROM laissez_event WHERE stream_id = stream.id AND seq > tail.after"
            "                     ORDER BY seq LIMIT %s) AS event"
            " ORDER BY tail.name, event.seq",
            [names, [cursors[name] for name in names], limit],
        )
        return [
            Recorded(stream, seq, public_id, type_, subject, at, json.loads(data))
            for stream, seq, public_id, type_, subject, at, data in cursor.fetchall()
        ]
