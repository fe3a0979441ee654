"""Many rows of one model in one COPY, with the model's own defaults for whatever is not given."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import NOT_PROVIDED, Model

from laissez.clock import rfc3339

CHUNK_ROWS = 20_000
_ALPHABET = np.frombuffer(b"0123456789abcdefghijkmnpqrstuvwxyz", dtype=np.uint8)
_ID_LENGTH = 20
_NULL = "\\N"


def insert(model: type[Model], count: int, **given: Any) -> np.ndarray:
    """Insert rows and return their ids, which are consecutive. Triggers and constraints apply as ever.

    Args:
        given: by field name, a list or array of `count` values, or one value for all rows. Arrays of datetime64 are
            instants in UTC, NaT is NULL. A foreign key takes ids. What is left out gets the field's default, the
            database's default or NULL, in that order.
    """
    ids = _reserve(model, count)
    columns = {"id": ids} | _defaults(model, given) | given
    fields = {field.name: field for field in model._meta.concrete_fields}
    names = ", ".join(str(fields[name].column) for name in columns)
    texts = [_texts(values, count) for values in columns.values()]
    lines = ("\t".join(row) + "\n" for row in zip(*texts, strict=True))
    with connection.cursor() as cursor, cursor.copy(f"COPY {model._meta.db_table} ({names}) FROM STDIN") as copy:
        while chunk := "".join(islice(lines, CHUNK_ROWS)):
            copy.write(chunk)
    return ids


def new_ids(prefix: str, count: int, generator: np.random.Generator) -> list[str]:
    """Public ids like those of `laissez.ids.new_id`, drawn from a generator that a seed began."""
    drawn = _ALPHABET[generator.integers(0, len(_ALPHABET), (count, _ID_LENGTH))]
    texts = np.ascontiguousarray(drawn).view(f"S{_ID_LENGTH}").ravel().astype(str).tolist()
    return [f"{prefix}_{text}" for text in texts]


def instants(now: datetime, microseconds_before: np.ndarray) -> np.ndarray:
    """Instants so many microseconds before now, for `insert`."""
    return np.datetime64(now.replace(tzinfo=None), "us") - microseconds_before.astype("timedelta64[us]")


def _reserve(model: type[Model], count: int) -> np.ndarray:
    """Take so many consecutive ids; nobody else inserts meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(name), setval(name, currval(name) + %s - 1)"
            " FROM (SELECT pg_get_serial_sequence(%s, 'id')::regclass AS name) AS sequence",
            [max(count, 1), model._meta.db_table],
        )
        first = cursor.fetchone()[0]
    return np.arange(first, first + count, dtype=np.int64)


def _defaults(model: type[Model], given: Mapping[str, Any]) -> dict[str, Any]:
    """One value for each field that is not given and that the database would not fill."""
    return {
        field.name: field.get_default()
        for field in model._meta.concrete_fields
        if field.name not in given and field.default is not NOT_PROVIDED and field.db_default is NOT_PROVIDED
    }


def _texts(values: Any, count: int) -> Iterable[str]:
    """One column in COPY's text format."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        texts = np.datetime_as_string(values, unit="us").tolist()
        return [_NULL if text == "NaT" else f"{text}Z" for text in texts]
    if isinstance(values, np.ndarray):
        return map(_text, values.tolist())
    return map(_text, values) if isinstance(values, list | tuple | range) else [_text(values)] * count


def _text(value: Any) -> str:
    match value:
        case str():
            return _escaped(value)
        case None:
            return _NULL
        case datetime():
            return rfc3339(value)
        case dict():
            return _escaped(json.dumps(value))
        case _:
            return str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
