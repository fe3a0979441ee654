"""Every new connection to the database reads times with Python's own compiled parser.

Django's loader takes each apart with a regular expression, for time zones of its own; here all times are UTC, in the
database too. A page or a tick reads thousands of them.
"""

from datetime import UTC, datetime
from typing import Any

from django.db.backends.postgresql.psycopg_any import BaseTzLoader
from django.db.backends.signals import connection_created
from django.dispatch import receiver


class UtcLoader(BaseTzLoader):
    """Reads what PostgreSQL writes of a time in UTC."""

    timezone = UTC
    """By which Django knows what a loader gives; for any other zone it goes back to its own."""

    def load(self, data: Any) -> datetime:
        """As Django's would; what the parser does not know (infinity, years before Christ) is left to it."""
        try:
            return datetime.fromisoformat(str(data, "utf8"))
        except ValueError:
            return super().load(data)


@receiver(connection_created)
def read_times_quickly(connection: Any, **_details: Any) -> None:
    """Put it in the place of Django's."""
    connection.connection.adapters.register_loader("timestamptz", UtcLoader)
