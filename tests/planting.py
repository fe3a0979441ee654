"""Planting violations: SQL that steps past every trigger, as a broken program or a careless superuser might."""

from django.db import connection, transaction


def plant(*statements: str) -> None:
    """Run statements without triggers and foreign keys, each exactly as written."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("SET LOCAL session_replication_role = origin")
