"""Lets Django empty the tables between tests that commit: history refuses to go, and only here it must.

A `conftest.py` imports the fixture. The triggers stay as they are; the flushing session steps past them. It deletes
instead of truncating, which for tables as small as a test's is much faster.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db.backends.postgresql.operations import DatabaseOperations

STEP_PAST = "SET LOCAL session_replication_role = replica;"


@pytest.fixture(scope="session", autouse=True)
def flush_past_triggers() -> Iterator[None]:
    """For the whole session: `transaction=True` tests end with empty tables."""

    def sql_flush(self: DatabaseOperations, _style: Any, tables: Sequence[str], **_options: Any) -> list[str]:
        return [STEP_PAST, *(f"DELETE FROM {self.quote_name(table)};" for table in tables)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", sql_flush)
        yield
