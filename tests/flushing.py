"""Lets Django empty the tables after tests that commit: history refuses to go, and only here it must.

A `conftest.py` imports the fixture. The triggers stay as they are; the flushing session steps past them. It deletes
instead of truncating, which for tables as small as a test's is much faster.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db.backends.postgresql.operations import DatabaseOperations
from pytest_django.plugin import DjangoDbBlocker

STEP_PAST = "SET LOCAL session_replication_role = replica;"


@pytest.fixture(scope="session", autouse=True)
def flush_past_triggers() -> Iterator[None]:
    """For the whole session: `transaction=True` tests end with empty tables."""

    def sql_flush(self: DatabaseOperations, _style: Any, tables: Sequence[str], **_options: Any) -> list[str]:
        return [STEP_PAST, *(f"DELETE FROM {self.quote_name(table)};" for table in tables)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
        yield


@contextmanager
def standing(blocker: DjangoDbBlocker) -> Iterator[None]:
    """For a fixture of a whole module: what is committed within stands until its end, and every test undoes its own."""
    with blocker.unblock():
        try:
            yield
        finally:
            call_command("flush", interactive=False, verbosity=0)
