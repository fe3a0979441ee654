"""Empties the tables after tests that commit: history refuses to go, and only here it must.

A `conftest.py` imports the fixture. The triggers stay as they are; the flushing session steps past them. It deletes
instead of truncating, which for tables as small as a test's is much faster, and leaves what the migrations have put
there: Django's own flush deletes the permissions and makes them anew, which takes longer than most tests. The
connection stays open, too, where Django's would begin every test with a cold one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import TransactionTestCase
from pytest_django.plugin import DjangoDbBlocker

STEP_PAST = "SET LOCAL session_replication_role = replica"
KEPT = {Permission._meta.db_table, ContentType._meta.db_table}


@pytest.fixture(scope="session", autouse=True)
def flush_past_triggers() -> Iterator[None]:
    """For the whole session: `transaction=True` tests end with empty tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _case: empty_tables())
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda _case: _is_changed())
        yield


def empty_tables() -> None:
    """Delete every row of every model, past all triggers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("; ".join([STEP_PAST, *(f"DELETE FROM {table}" for table in _tables())]))


@contextmanager
def standing(blocker: DjangoDbBlocker) -> Iterator[None]:
    """For a fixture of a whole module: what is committed within stands until its end, and every test undoes its own."""
    with blocker.unblock():
        try:
            yield
        finally:
            empty_tables()


@cache
def _tables() -> list[str]:
    """The quoted names of the tables to empty."""
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return [connection.ops.quote_name(name) for name in sorted(set(names) - KEPT)]


def _is_changed() -> bool:
    """Whether the connection is no longer as it was opened; flushing has shown that it works."""
    return connection.connection is not None and not connection.get_autocommit()
