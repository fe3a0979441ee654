"""A lookup of many values at once: `pk__among=ids`, `job_id__among=ids`.

As `__in`, but the values are one parameter, an array. Django's own writes and escapes each of them by itself, which for
thousands takes longer than the query.
"""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, ForeignObject, Lookup
from django.db.models.sql.compiler import SQLCompiler


@ForeignObject.register_lookup  # which does not take those of fields over
@Field.register_lookup
class Among(Lookup):
    """The column is one of these values, given as any iterable of what the column holds. None of them: never."""

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """`column = ANY(array)`."""
        left, parameters = self.process_lhs(compiler, connection)
        type_ = self.lhs.output_field.rel_db_type(connection).partition("(")[0]
        return f"{left} = ANY(%s::{type_}[])", (*parameters, list(self.rhs))
