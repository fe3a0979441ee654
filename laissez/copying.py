"""Writing many new rows at once with COPY, for services whose transactions write hundreds."""

from collections.abc import Collection

from django.db import connection
from django.db.models import Model


def copy_in(rows: Collection[Model]) -> None:
    """Insert instances of one model and give them their ids, in two statements however many they are.

    Every column is written from the instances: a model with defaults of the database's own is not for this.

    Raises:
        IntegrityError, DataError: as an INSERT of all of them would; none is written then.
    """
    if not rows:
        return
    meta = next(iter(rows))._meta
    fields = meta.concrete_fields
    names = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [meta.db_table, meta.pk.column, len(rows)],
        )
        for row, (pk,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = pk
        statement = f"COPY {connection.ops.quote_name(meta.db_table)} ({names}) FROM STDIN"
        with connection.wrap_database_errors, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row([field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields])
    for row in rows:
        row._state.adding = False  # as bulk_create does
