"""Bringing many instances to what the database says, with one query and without forgetting their loaded relations."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Model, QuerySet


def reread(rows: Sequence[Model], *fields: str) -> None:
    """Take over what other statements of this transaction have written.

    Args:
        rows: of one model, saved before.
        fields: names of columns as attributes (`type_id`, not `type`); none of them means all.
    """
    if not rows:
        return
    model = type(rows[0])
    names = fields or tuple(field.attname for field in model._meta.concrete_fields)
    found: Iterable[tuple[Any, ...]] = (
        QuerySet(model).filter(pk__among=[row.pk for row in rows]).values_list("pk", *names)
    )
    present = {pk: values for pk, *values in found}
    for row in rows:
        for name, value in zip(names, present[row.pk], strict=True):
            setattr(row, name, value)
