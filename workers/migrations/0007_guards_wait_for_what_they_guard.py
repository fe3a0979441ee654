"""Row guards run only where the columns that they guard change, and rows that change every second have room to.

Jobs are asked, leases renewed and metered far more often than they change their state. A guard in PL/pgSQL and a new
entry in each index cost most of such an update: with a condition the guard is not called, and with room on its page a
new version of a row needs no index entries, as long as none of the indexed columns changes.
"""

from importlib import import_module

from django.db import migrations

GRAPHS = import_module("workers.migrations.0002_states_and_fences").GRAPHS
LEASE_FIXES = "(OLD.fence, OLD.accelerator_id, OLD.job_id) IS DISTINCT FROM (NEW.fence, NEW.accelerator_id, NEW.job_id)"
NEWEST = "OLD.newest_checkpoint_id IS DISTINCT FROM NEW.newest_checkpoint_id"
ROOMY = ("workers_job", "workers_lease")
FILLED_PERCENT = 80


def _guard(table: str, graph: str) -> migrations.RunSQL:
    steps = ", ".join(f"'{step}'" for step in graph.split())
    drop = f"DROP TRIGGER state_moves_along_its_graph ON {table};"
    create = f"CREATE TRIGGER state_moves_along_its_graph BEFORE UPDATE ON {table} FOR EACH ROW"
    execute = f"EXECUTE FUNCTION workers_guard_transition({steps});"
    return migrations.RunSQL(
        f"{drop} {create} WHEN (OLD.state IS DISTINCT FROM NEW.state) {execute}", f"{drop} {create} {execute}"
    )


CHECKPOINT = f"""
DROP TRIGGER newest_checkpoint_never_goes_back ON workers_job;
CREATE TRIGGER newest_checkpoint_never_goes_back BEFORE UPDATE ON workers_job
    FOR EACH ROW WHEN ({NEWEST}) EXECUTE FUNCTION workers_newest_checkpoint_never_goes_back();
"""
CHECKPOINT_BEFORE = """
DROP TRIGGER newest_checkpoint_never_goes_back ON workers_job;
CREATE TRIGGER newest_checkpoint_never_goes_back BEFORE UPDATE ON workers_job
    FOR EACH ROW EXECUTE FUNCTION workers_newest_checkpoint_never_goes_back();
"""
FENCE = f"""
DROP TRIGGER lease_takes_the_present_fence ON workers_lease;
CREATE TRIGGER lease_takes_the_present_fence BEFORE INSERT ON workers_lease
    FOR EACH ROW EXECUTE FUNCTION workers_lease_takes_the_present_fence();
CREATE TRIGGER lease_keeps_its_fence BEFORE UPDATE ON workers_lease
    FOR EACH ROW WHEN ({LEASE_FIXES}) EXECUTE FUNCTION workers_lease_takes_the_present_fence();
"""
FENCE_BEFORE = """
DROP TRIGGER lease_keeps_its_fence ON workers_lease;
DROP TRIGGER lease_takes_the_present_fence ON workers_lease;
CREATE TRIGGER lease_takes_the_present_fence BEFORE INSERT OR UPDATE ON workers_lease
    FOR EACH ROW EXECUTE FUNCTION workers_lease_takes_the_present_fence();
"""


class Migration(migrations.Migration):
    """Triggers and storage only."""

    dependencies = [("workers", "0006_settled_jobs")]

    operations = [
        *(_guard(table, graph) for table, graph in GRAPHS.items()),
        migrations.RunSQL(CHECKPOINT, CHECKPOINT_BEFORE),
        migrations.RunSQL(FENCE, FENCE_BEFORE),
        *(
            migrations.RunSQL(
                f"ALTER TABLE {table} SET (fillfactor = {FILLED_PERCENT});", f"ALTER TABLE {table} RESET (fillfactor);"
            )
            for table in ROOMY
        ),
    ]
