"""The log of changes is read by its index alone, entry by entry: what is dead of it is passed over then.

Until it is vacuumed, the log consists of what ticks have taken. Reading all of it, or a bitmap of the index, looks at that
again and again; a plain scan of the index marks each dead entry the first time.
"""

from django.db import migrations

FUNCTIONS = """
CREATE FUNCTION markets_changes_noted(cluster bigint) RETURNS SETOF bigint LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    SELECT job_id FROM markets_floorchange WHERE cluster_id = cluster
$$;
CREATE FUNCTION markets_changes_taken(cluster bigint) RETURNS SETOF bigint LANGUAGE sql VOLATILE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    DELETE FROM markets_floorchange WHERE cluster_id = cluster RETURNING job_id
$$;
"""
NO_FUNCTIONS = "DROP FUNCTION markets_changes_noted(bigint); DROP FUNCTION markets_changes_taken(bigint);"


class Migration(migrations.Migration):
    """Functions only."""

    dependencies = [("markets", "0012_quotes_are_apart_as_boxes")]

    operations = [migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS)]
