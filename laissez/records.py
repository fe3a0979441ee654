"""Model instances out of statements written by hand: for the few places that every request or every row passes.

Building a query costs several times what the database takes to answer it.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS
from django.db.models import JSONField, Model

M = TypeVar("M", bound=Model)


@cache
def columns(model: type[Model], table: str) -> str:
    """The columns of a model in the order of its fields, for a SELECT in which its table has this name."""
    return ", ".join(f'{table}."{field.column}"' for field in model._meta.concrete_fields)


@cache
def width(model: type[Model]) -> int:
    """How many columns that are."""
    return len(model._meta.concrete_fields)


def instance(model: type[M], values: Sequence[Any]) -> M:
    """The instance of a row of those columns, as a query set would have made it."""
    row = list(values)
    for place in _json_places(model):
        row[place] = json.loads(row[place]) if isinstance(row[place], str) else row[place]
    return model.from_db(DEFAULT_DB_ALIAS, _names(model), row)


@cache
def _names(model: type[Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


@cache
def _json_places(model: type[Model]) -> list[int]:
    return [place for place, field in enumerate(model._meta.concrete_fields) if isinstance(field, JSONField)]
