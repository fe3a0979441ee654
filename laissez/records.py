"""Model instances out of statements written by hand: for the few places that every request or every row passes.

Building a query costs several times what the database takes to answer it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model
from django.db.models.base import ModelState

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
    """The instance of a row of those columns, read by `laissez.prepared`, as a query set would have made it.

    A model's own way to make one looks for arguments, defaults and deferred fields, and costs ten times as much.
    """
    row = model.__new__(model)
    row.__dict__.update(zip(_names(model), values, strict=True))
    row._state = ModelState()
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    return row


@cache
def _names(model: type[Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]
