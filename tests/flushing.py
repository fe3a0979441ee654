"""Lets Django empty the tables between tests that commit: history refuses TRUNCATE, and only here that must give way.

A `conftest.py` imports the fixture. The triggers stay as they are; one session at a time steps past them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db.backends.postgresql.operations import DatabaseOperations

STEP_PAST = "SET LOCAL session_replication_role = replica;"


@pytest.fixture(scope="session", autouse=True)
def flush_past_triggers() -> Iterator[None]:
    """For the whole session: `transaction=True` tests end with empty tables."""
    original = DatabaseOperations.sql_flush

    def sql_flush(self: DatabaseOperations, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        statements = original(self, style, tables, **options)
        return [STEP_PAST, *statements] if statements else statements

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
        yield
