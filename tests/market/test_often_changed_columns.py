"""What changes every second or minute is in no index, so that a row's new version needs no index entries."""

import pytest
from django.db import connection

OFTEN = {
    "workers_job": (
        "ask_number", "ask_cause", "asked_at", "answered_number", "progress", "step", "loss", "progress_at",
    ),
    "workers_lease": (
        "expires_at", "last_heard_at", "metered_until", "integral", "billed_microdollars", "waived_microdollars",
    ),
    "tenants_hold": ("amount_microdollars", "renewed_at"),
}  # fmt: skip
INDEXED = """
    SELECT index.indexrelid::regclass::text, attribute.attname
    FROM pg_index AS index JOIN pg_attribute AS attribute ON attribute.attrelid = index.indrelid
    WHERE index.indrelid = %s::regclass AND attribute.attname = ANY (%s) AND (
        attribute.attnum = ANY (index.indkey) OR EXISTS (  -- in an expression or a condition
            SELECT FROM pg_depend
            WHERE objid = index.indexrelid AND refobjid = index.indrelid AND refobjsubid = attribute.attnum
        )
    )
"""


@pytest.mark.django_db
@pytest.mark.parametrize("table", OFTEN)
def test_no_index_mentions_a_column_that_changes_often(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(INDEXED, [table, list(OFTEN[table])])
        assert cursor.fetchall() == []
        cursor.execute(INDEXED, [table, ["id"]])
        assert cursor.fetchall() != []


@pytest.mark.django_db
@pytest.mark.parametrize("table", OFTEN)
def test_pages_keep_room_for_new_versions_of_rows_that_change_often(table: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions::text LIKE '%%fillfactor%%' FROM pg_class WHERE oid = %s::regclass", [table])
        assert cursor.fetchone() == (True,)
