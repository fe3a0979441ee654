"""Model instances out of statements written by hand: for the few places that every request or every row passes.

Building a query costs several times what the database takes to answer it.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS
from django.db.models import ForeignKey, Model
from django.db.models.base import ModelState

from laissez.prepared import run

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


class Reading(Generic[M]):
    """Instances of one model with some of what they refer to, by one statement that is put together once.

    Building such a query costs a query set several times what the database takes to answer it.
    """

    def __init__(self, model: type[M], *related: str, rest: str) -> None:
        """Name it at the top of a module.

        Args:
            related: the references to follow, as `select_related` names them, each after those that lead to it.
            rest: what follows FROM and its joins; the model's table is `row`, and every other one is named as in
                `related`.
        """
        self._model, self._related, self._rest = model, related, rest

    def __call__(self, *parameters: Any) -> list[M]:
        """The rows for these parameters of `rest`."""
        return [self._instance(row) for row in run(self._sql, parameters)]

    @cached_property
    def _steps(self) -> list[tuple[str, str, ForeignKey[Any, Any]]]:
        """Of each reference its name, the name of the row that it stands in, and its field."""
        models: dict[str, type[Model]] = {"row": self._model}
        steps = list[tuple[str, str, "ForeignKey[Any, Any]"]]()
        for path in self._related:
            parent, _, name = path.rpartition("__")
            field = models[parent or "row"]._meta.get_field(name)
            assert isinstance(field, ForeignKey)
            models[path] = field.related_model
            steps.append((path, parent or "row", field))
        return steps

    @cached_property
    def _sql(self) -> str:
        selected = [
            columns(self._model, "row"),
            *(columns(field.related_model, path) for path, _, field in self._steps),
        ]
        joins = [
            f"LEFT JOIN {field.related_model._meta.db_table} AS {path} ON {path}.id = {parent}.{field.column}"
            for path, parent, field in self._steps
        ]
        table = self._model._meta.db_table
        return f"SELECT {', '.join(selected)} FROM {table} AS row {' '.join(joins)} {self._rest}"  # noqa: S608

    def _instance(self, values: Sequence[Any]) -> M:
        place = width(self._model)
        root = instance(self._model, values[:place])
        found: dict[str, Model | None] = {"row": root}
        for path, parent, field in self._steps:
            end = place + width(field.related_model)
            found[path] = None if values[place] is None else instance(field.related_model, values[place:end])
            place = end
            holder = found[parent]
            if holder is not None:
                field.set_cached_value(holder, found[path])
        return root
