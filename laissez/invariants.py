"""Detectors: queries that return a row for each violation of an invariant, and the ground's own ones (I11).

Each app lists its detectors in its own `invariants` module; the command `check_invariants` runs them all.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection


@dataclass(frozen=True, slots=True)
class Detector:
    """`sql` returns a row per violation; `sentence` says it in words, with the row's columns in braces."""

    id: str
    sentence: str
    sql: str


def violations(detectors: Iterable[Detector]) -> list[str]:
    """One sentence per violation, each beginning with its invariant's id. Empty when all is well."""
    return [sentence for detector in detectors for sentence in _sentences(detector)]


def _sentences(detector: Detector) -> list[str]:
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
            sentence="stream {name} counts to {last_seq}, but has {events} events numbered {first} to {last}",
            sql="""
                SELECT stream.name, stream.last_seq, count(event.id) AS events,
                       coalesce(min(event.seq), 0) AS first, coalesce(max(event.seq), 0) AS last
                FROM laissez_stream AS stream LEFT JOIN laissez_event AS event ON event.stream_id = stream.id
                GROUP BY stream.id
                HAVING count(event.id) <> stream.last_seq OR coalesce(max(event.seq), 0) <> stream.last_seq
                ORDER BY stream.id
            """,
        ),
    ]
