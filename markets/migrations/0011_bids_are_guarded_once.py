"""A change of a bid writes eight index entries and not twenty-two, and asks for what it names once.

That a bid's job and type exist, and are of its cluster, two foreign keys say; a third says that a job's cluster exists.
The guard of a bid's past is called where there is something to refuse, or the transaction of the closing to note.
"""

import django.db.models.deletion
from django.db import migrations, models

FIXED = (
    "id", "public_id", "cluster_id", "job_id", "type_id", "accelerator_count", "position", "max_price_per_hour",
    "keep_price_per_hour", "origin", "accepted_at", "opened_at", "opened_in",
)  # fmt: skip
BEFORE, AFTER = (", ".join(f'{row}."{column}"' for column in FIXED) for row in ("OLD", "NEW"))

GUARD = f"""
DROP TRIGGER bid_changes_only_by_closing ON markets_bid;
CREATE TRIGGER bid_changes_only_by_closing BEFORE UPDATE ON markets_bid FOR EACH ROW
    WHEN (
        OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL OR ({BEFORE}) IS DISTINCT FROM ({AFTER})
        OR NEW.closed_in IS DISTINCT FROM pg_current_xact_id()::text::bigint
    )
    EXECUTE FUNCTION markets_bid_changes_only_by_closing();
"""

GUARD_BEFORE = """
DROP TRIGGER bid_changes_only_by_closing ON markets_bid;
CREATE TRIGGER bid_changes_only_by_closing BEFORE UPDATE ON markets_bid
    FOR EACH ROW EXECUTE FUNCTION markets_bid_changes_only_by_closing();
"""

UNLIKE = "DROP INDEX IF EXISTS markets_bid_public_id_1c1584e3_like;"
LIKE = "CREATE INDEX markets_bid_public_id_1c1584e3_like ON markets_bid (public_id varchar_pattern_ops);"


def _implied(name: str, to: str) -> migrations.AlterField:
    """A reference that `bid_job_is_of_its_cluster` or `bid_type_is_of_its_cluster` keeps, and an index finds."""
    field = models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="bids",
        to=to,
    )
    return migrations.AlterField(model_name="bid", name=name, field=field)


class Migration(migrations.Migration):
    """Guards and indexes only."""

    dependencies = [("markets", "0010_the_log_of_changes_stays_small")]

    operations = [
        migrations.RunSQL(GUARD, GUARD_BEFORE),
        _implied("cluster", "workers.cluster"),
        _implied("job", "workers.job"),
        _implied("type", "workers.acceleratortype"),
        migrations.RemoveIndex(model_name="bid", name="bids_by_job"),
        migrations.RunSQL(UNLIKE, LIKE),
    ]
