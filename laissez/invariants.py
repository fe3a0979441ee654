"""Detectors: what finds each violation of an invariant, mostly one query, and the ground's own ones (I11).

Each app lists its detectors in its own `invariants` module; the command `check_invariants` runs them all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import connection


@dataclass(frozen=True, slots=True)
class Detector:
    """`sql` returns a row per violation; `sentence` says it in words, with the row's columns in braces."""

    id: str
    sentence: str
    sql: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """A detector that no query can be: `look` returns a sentence per violation."""

    id: str
    look: Callable[[], Iterable[str]]


def violations(detectors: Iterable[Detector | Inspection]) -> list[str]:
    """One sentence per violation, each beginning with its invariant's id. Empty when all is well."""
    return [sentence for detector in detectors for sentence in _sentences(detector)]


def _sentences(detector: Detector | Inspection) -> list[str]:
    if isinstance(detector, Inspection):
        return [f"{detector.id}: {sentence}" for sentence in detector.look()]
    with connection.cursor() as cursor:
        cursor.execute(detector.sql)
        columns = [column.name for column in cursor.description or ()]
        return [
            f"{detector.id}: {detector.sentence.format_map(dict(zip(columns, row, strict=True)))}"
            for row in cursor.fetchall()
        ]


def detectors() -> list[Detector]:
    """What must hold of every stream."""
    return [
        Detector(
            id="I11",
            sentence="stream {name} keeps {first_seq} to {last_seq}, but has {events} events, {first} to {last}",
            sql="""
                SELECT stream.name, stream.first_seq, stream.last_seq, count(event.id) AS events,
                       coalesce(min(event.seq), 0) AS first, coalesce(max(event.seq), 0) AS last
                FROM laissez_stream AS stream LEFT JOIN laissez_event AS event ON event.stream_id = stream.id
                GROUP BY stream.id
                HAVING count(event.id) <> stream.last_seq - stream.first_seq + 1
                    OR coalesce(min(event.seq), stream.first_seq) <> stream.first_seq
                    OR coalesce(max(event.seq), stream.last_seq) <> stream.last_seq
                ORDER BY stream.id
            """,
        ),
        Detector(
            id="I11",
            sentence="event {seq} is of stream {stream_id}, which there is not",
            sql="""
                SELECT seq, stream_id FROM laissez_event AS event
                WHERE NOT EXISTS (SELECT FROM laissez_stream AS stream WHERE stream.id = event.stream_id)
                ORDER BY id
            """,
        ),
    ]
