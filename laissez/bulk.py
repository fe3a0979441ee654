"""Many rows at once: tables read into arrays as one value each, and rows written without a statement for each.

For the hot paths, where a model instance a row is too slow. Everything goes through the connection of the present
transaction; triggers, constraints and defaults of the database apply as ever, those of Django do not.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from types import NoneType
from typing import Any

import numpy as np
import psycopg
from django.db import connection, models
from numpy.typing import NDArray
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.range import TimestamptzRange

from laissez.clock import POSTGRES_EPOCH, microseconds

Records = NDArray[np.void]

NULL = -1
"""What NULL is read as."""

_EPOCH_US = microseconds(POSTGRES_EPOCH)


@dataclass(frozen=True, slots=True)
class Integer:
    """A column of whole numbers: its name in the record, and the SQL of its value, a bigint or cast to one."""

    name: str
    sql: str

    @property
    def packed(self) -> str:
        """The SQL of its eight bytes."""
        return f"coalesce(int8send({self.sql}), int8send({NULL}))"


@dataclass(frozen=True, slots=True)
class Instant:
    """A column of times, read as whole microseconds since 1970. PostgreSQL keeps them as such, since 2000: exact."""

    name: str
    sql: str

    @property
    def packed(self) -> str:
        """The SQL of its eight bytes."""
        return f"coalesce(timestamptz_send({self.sql}), timestamptz_send('-infinity'))"


_NEVER_US = np.iinfo(np.int64).min
"""What PostgreSQL keeps of a time before all others, which stands for NULL among packed times."""


class Table:
    """Columns of a query that come as one value, in no order, and leave as an array of records of 64-bit integers."""

    def __init__(self, *columns: Integer | Instant) -> None:
        self.dtype = np.dtype([(column.name, np.int64) for column in columns])
        self._instants = [column.name for column in columns if isinstance(column, Instant)]
        self._packed = " || ".join(column.packed for column in columns)

    def select(self, rest: str) -> str:
        """The SQL of a scalar subquery whose value `records` takes: these columns of `FROM ... WHERE ...`."""
        return f"(SELECT string_agg({self._packed}, ''::bytea) {rest})"

    def records(self, value: bytes | None) -> Records:
        """The rows of such a value."""
        found = np.frombuffer(value or b"", ">i8").astype(np.int64).view(self.dtype)
        for name in self._instants:
            column = found[name]
            found[name] = np.where(column == _NEVER_US, NULL, column + _EPOCH_US)
        return found


def fetch_one(sql: str, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """The one row of a query in PostgreSQL's binary form, in which bytes come as they are."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        row = cursor.execute(sql, parameters, binary=True).fetchone()
    assert row is not None
    return row


def copy_in(model: type[models.Model], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows with COPY.

    Args:
        names: the fields that the rows give, by attribute (`type_id`). What is left out gets the database's default.
        rows: values in that order, as psycopg adapts them.
    """
    _copy(model, [_column(model, name) for name in names], rows)


def copy_instances(rows: Collection[models.Model]) -> None:
    """Insert instances of one model and give them their ids, in two statements however many they are.

    Every column but generated ones is written from the instances: a model with defaults of the database's own is not
    for this.

    Raises:
        IntegrityError, DataError: as an INSERT of all of them would; none is written then.
    """
    if not rows:
        return
    meta = next(iter(rows))._meta
    fields = [field for field in meta.concrete_fields if not field.generated]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [meta.db_table, meta.pk.column, len(rows)],
        )
        for row, (pk,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = pk
    values = ([field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields] for row in rows)
    _copy(meta.model, [str(field.column) for field in fields], values)
    for row in rows:
        row._state.adding = False  # as bulk_create does


_COPIED_AT_ONCE = 1000
_NULL = "\\N"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _copy(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Send rows to a table in COPY's text format, some at a time."""
    names = ", ".join(f'"{column}"' for column in columns)
    connection.ensure_connection()
    with (
        connection.wrap_database_errors,
        psycopg.Cursor(connection.connection) as cursor,
        cursor.copy(f'COPY "{model._meta.db_table}" ({names}) FROM STDIN') as copy,
    ):
        dump = partial(_dumped, Transformer(cursor))
        lines = ("\t".join([_TEXTS.get(type(value), dump)(value) for value in row]) + "\n" for row in rows)
        while some := "".join(islice(lines, _COPIED_AT_ONCE)):
            copy.write(some)


def _dumped(transformer: abc.Transformer, value: Any) -> str:
    """Any value as psycopg adapts it."""
    dumped = transformer.get_dumper(value, PyFormat.TEXT).dump(value)
    return _NULL if dumped is None else _escaped(bytes(dumped).decode())


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


def _range_text(value: TimestamptzRange) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if bound is None else bound.isoformat() for bound in (value.lower, value.upper))
    return f"{value.bounds[0]}{lower},{upper}{value.bounds[1]}"


_SPECIAL = re.compile(r"[\\\t\n\r]")
_TEXTS: Mapping[type, Callable[[Any], str]] = {
    int: str,
    str: _escaped,
    NoneType: lambda _: _NULL,
    datetime: datetime.isoformat,
    TimestamptzRange: _range_text,
}
"""COPY's text of the values of which there are many; psycopg's own way to it takes several times as long."""


def update_from(model: type[models.Model], *, where: str = "true", **columns: Sequence[Any]) -> int:
    """Give rows new values, each its own, in one statement.

    Args:
        where: SQL that a row must still fulfil besides, as `row`; the values given for it are `new`.
        columns: `id` and the attributes to change, a value per row each.

    Returns:
        How many rows were changed.
    """
    fields = {name: _type(model, name) for name in columns}
    arrays = ", ".join(f"%s::{type_}[]" for type_ in fields.values())
    names = ", ".join(f'"{name}"' for name in fields)
    changes = ", ".join(f'"{_column(model, name)}" = new."{name}"' for name in fields if name != "id")
    sql = (
        f'UPDATE "{model._meta.db_table}" AS row SET {changes}'  # noqa: S608  (names of models and their columns)
        f" FROM unnest({arrays}) AS new({names}) WHERE row.id = new.id AND ({where})"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(values) for values in columns.values()])
        return int(cursor.rowcount)


def _field(model: type[models.Model], name: str) -> "models.Field[Any, Any]":
    by_attribute = {field.attname: field for field in model._meta.concrete_fields}
    return by_attribute[name]


def _column(model: type[models.Model], name: str) -> str:
    return str(_field(model, name).column)


def _type(model: type[models.Model], name: str) -> str:
    """The column's type as SQL; a varchar's limit is the column's to keep."""
    return str(_field(model, name).rel_db_type(connection)).partition("(")[0]
