"""Statements of the hot paths: planned once a connection, answered in PostgreSQL's binary form, without a query set.

Planning costs a small statement several times what it takes to be carried out, and so does building it from a model.
Triggers and constraints apply as ever. A statement is planned anew for other types of its parameters, so these are kept
few: whole numbers go as bigint, and lists as texts that the statement casts, as in `id = ANY(%s::bigint[])`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from django.db import connection
from psycopg.types.numeric import Int8


def run(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Carry out one statement in the present transaction. Returns its rows; none where it has none.

    JSON comes as what it means, times in UTC.
    """
    connection.validate_no_broken_transaction()
    connection.ensure_connection()
    if connection.queries_logged:
        connection.queries_log.append({"sql": sql, "time": "0"})
    with connection.wrap_database_errors:
        cursor = _cursor(connection.connection)
        cursor.execute(sql, [_plain(value) for value in parameters], prepare=True, binary=True)
        return [] if cursor.rownumber is None else cursor.fetchall()


def _cursor(server: "psycopg.Connection[Any]") -> "psycopg.Cursor[Any]":
    """The one cursor of a connection for all of this: making another takes as long as sending a statement."""
    kept = vars(server).get("prepared")
    if kept is None:
        kept = vars(server)["prepared"] = psycopg.Cursor(server)
    return kept


def _plain(value: Any) -> Any:
    """A parameter whose type does not hang on how large it is, or on what is in it."""
    if type(value) is int:
        return Int8(value)
    return array(value) if isinstance(value, list) else value


def array(values: Iterable[Any]) -> str:
    """An array as PostgreSQL reads it: whole numbers, texts, or None."""
    return "{" + ",".join([str(value) if type(value) is int else _quoted(value) for value in values]) + "}"


def _quoted(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
