"""States move only along their graphs (I12), a fence only grows (I2), and the newest checkpoint never goes back (I9)."""

from django.db import migrations

GUARD = """
CREATE FUNCTION workers_guard_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> OLD.state AND NOT (OLD.state || '>' || NEW.state) = ANY (TG_ARGV) THEN
        RAISE EXCEPTION '% %: state cannot go from % to %', TG_TABLE_NAME, OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
"""

GRAPHS = {
    "workers_job": (
        "queued>running queued>cancelled queued>expired queued>stopped running>queued running>stopped"
        " running>succeeded running>failed running>cancelled stopped>queued stopped>cancelled"
    ),
    "workers_lease": "pending>active pending>closing pending>closed active>closing active>closed closing>closed",
    "workers_host": (
        "pending>ready pending>retired ready>draining draining>ready draining>retired ready>lost draining>lost"
        " lost>ready lost>draining lost>retired"
    ),
    "workers_migration": (
        "awarded>checkpointing awarded>transferring awarded>restoring awarded>aborted checkpointing>transferring"
        " checkpointing>restoring checkpointing>done checkpointing>aborted transferring>restoring transferring>done"
        " transferring>aborted restoring>done restoring>aborted"
    ),
}

FENCES = """
CREATE FUNCTION workers_fence_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence < OLD.fence THEN
        RAISE EXCEPTION 'accelerator %: fence cannot go from % to %', OLD.id, OLD.fence, NEW.fence
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fence_only_grows BEFORE UPDATE ON workers_accelerator
    FOR EACH ROW EXECUTE FUNCTION workers_fence_only_grows();

CREATE FUNCTION workers_lease_takes_the_present_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF (NEW.fence, NEW.accelerator_id, NEW.job_id) <> (OLD.fence, OLD.accelerator_id, OLD.job_id) THEN
            RAISE EXCEPTION 'lease %: job, accelerator and fence are fixed at hand-over', OLD.id
                USING ERRCODE = 'check_violation';
        END IF;
    ELSIF NEW.fence <> (SELECT fence FROM workers_accelerator WHERE id = NEW.accelerator_id) THEN
        RAISE EXCEPTION 'lease of accelerator %: % is not its present fence', NEW.accelerator_id, NEW.fence
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER lease_takes_the_present_fence BEFORE INSERT OR UPDATE ON workers_lease
    FOR EACH ROW EXECUTE FUNCTION workers_lease_takes_the_present_fence();
"""

CHECKPOINTS = """
CREATE FUNCTION workers_checkpoint_has_its_leases_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM workers_lease
        WHERE id = NEW.lease_id AND job_id = NEW.job_id AND fence = NEW.fence AND state <> 'closed'
    ) THEN
        RAISE EXCEPTION 'checkpoint of lease %: fence % is not that of an open lease of its job', NEW.lease_id, NEW.fence
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER checkpoint_has_its_leases_fence BEFORE INSERT ON workers_checkpoint
    FOR EACH ROW EXECUTE FUNCTION workers_checkpoint_has_its_leases_fence();
CREATE TRIGGER checkpoint_written_once BEFORE UPDATE ON workers_checkpoint
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER checkpoint_not_truncated BEFORE TRUNCATE ON workers_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER lease_not_truncated BEFORE TRUNCATE ON workers_lease
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();

CREATE FUNCTION workers_newest_checkpoint_never_goes_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.newest_checkpoint_id IS NOT NULL
       AND (NEW.newest_checkpoint_id IS NULL OR NEW.newest_checkpoint_id < OLD.newest_checkpoint_id) THEN
        RAISE EXCEPTION 'job %: its newest checkpoint cannot go back', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER newest_checkpoint_never_goes_back BEFORE UPDATE ON workers_job
    FOR EACH ROW EXECUTE FUNCTION workers_newest_checkpoint_never_goes_back();
"""

DROP = """
DROP TRIGGER newest_checkpoint_never_goes_back ON workers_job;
DROP FUNCTION workers_newest_checkpoint_never_goes_back;
DROP TRIGGER lease_not_truncated ON workers_lease;
DROP TRIGGER checkpoint_not_truncated ON workers_checkpoint;
DROP TRIGGER checkpoint_written_once ON workers_checkpoint;
DROP TRIGGER checkpoint_has_its_leases_fence ON workers_checkpoint;
DROP FUNCTION workers_checkpoint_has_its_leases_fence;
DROP TRIGGER lease_takes_the_present_fence ON workers_lease;
DROP FUNCTION workers_lease_takes_the_present_fence;
DROP TRIGGER fence_only_grows ON workers_accelerator;
DROP FUNCTION workers_fence_only_grows;
"""


def _guard(table: str, graph: str) -> migrations.RunSQL:
    steps = ", ".join(f"'{step}'" for step in graph.split())
    return migrations.RunSQL(
        f"CREATE TRIGGER state_moves_along_its_graph BEFORE UPDATE ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION workers_guard_transition({steps});",
        f"DROP TRIGGER state_moves_along_its_graph ON {table};",
    )


class Migration(migrations.Migration):
    """Triggers only."""

    dependencies = [
        ("workers", "0001_clusters_jobs_and_leases"),
        ("laissez", "0002_event_and_audit_triggers"),
    ]

    operations = [
        migrations.RunSQL(GUARD, "DROP FUNCTION workers_guard_transition;"),
        *(_guard(table, graph) for table, graph in GRAPHS.items()),
        migrations.RunSQL(FENCES + CHECKPOINTS, DROP),
    ]
