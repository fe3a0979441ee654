"""One migration for all workers of a run: the first that needs a database makes the template that every one copies."""

import gc

from django.conf import settings
from django.db import connection

TEMPLATE = "laissez_migrated"
LOCK = 7_105_113
"""An advisory lock. Its holder alone looks whether the template is there, and makes it."""


def copy_from_template() -> None:
    """Have the test database made as a copy of a migrated one; on a server of the run's own, which is new."""
    test = connection.settings_dict["TEST"]
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        cursor.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE])
        if not cursor.rowcount:
            own, made = connection.settings_dict["NAME"], _make()
            connection.settings_dict["NAME"] = settings.DATABASES[connection.alias]["NAME"] = own
            cursor.execute(f"ALTER DATABASE {connection.ops.quote_name(made)} RENAME TO {TEMPLATE}")
    test["TEMPLATE"] = TEMPLATE


def _make() -> str:
    """A migrated database that nobody is connected to."""
    made: str = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    connection.close()
    return made


def end_other_sessions() -> None:
    """End what threads of earlier tests have left open, which would keep the test database from being dropped.

    A thread's connection goes when its wrapper is collected, and that may be long after the thread.
    """
    gc.collect()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
