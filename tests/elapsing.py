"""Letting time pass without waiting: the clock is the database's, so every instant in its rows moves back instead."""

from datetime import timedelta

from django.db import connection, transaction

SHIFTED = {
    "timestamp with time zone": "{column} - %s",
    "tstzrange": "CASE WHEN {column} IS NOT NULL THEN tstzrange(lower({column}) - %s, upper({column}) - %s) END",
}
COLUMNS = """
    SELECT table_name, column_name, data_type FROM information_schema.columns
    WHERE table_schema = 'public' AND data_type = ANY (%s)
      AND (table_name LIKE 'markets\\_%%' OR table_name LIKE 'workers\\_%%')
    ORDER BY table_name, column_name
"""


def pass_time(seconds: float) -> None:
    """Make everything that hosts and the market have recorded that much older. Do it before anything is billed.

    Bids that are older than they were are not what a clearing has read: its receipt cannot be recomputed any more.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")  # history refuses to be moved
        cursor.execute(COLUMNS, [list(SHIFTED)])
        tables: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in cursor.fetchall():
            tables.setdefault(table, []).append((column, SHIFTED[kind].format(column=column)))
        for table, columns in tables.items():
            changes = ", ".join(f"{column} = {shifted}" for column, shifted in columns)
            cursor.execute(f"UPDATE {table} SET {changes}", [timedelta(seconds=seconds)] * changes.count("%s"))
        cursor.execute("UPDATE markets_clearing SET keeps_roles = false")
        cursor.execute("UPDATE workers_cluster SET floor_read_in = NULL")  # nothing was logged of all this
        cursor.execute("SET LOCAL session_replication_role = origin")
