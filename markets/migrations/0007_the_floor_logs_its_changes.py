"""Whatever a tick reads of its floor leaves a row in the log when it changes, whoever changes it.

A tick that finds no row and nothing due has nothing to clear. Columns that no tick reads (an agent's questions, a
lease's heartbeats, a job's progress) leave none. Times that merely pass are the tick's own to know.
"""

from django.db import migrations

OF_JOBS = {  # tables whose rows name a job, with the columns that a tick reads and that may change
    "workers_lease": ("state", "primary_during", "handed_over_at", "accelerator_id", "host_id", "type_id", "job_id"),
    "workers_migration": ("state", "deadline", "closed_at", "job_id"),
    "markets_award": ("state", "type_id", "since", "deadline", "job_id"),
    "markets_notice": ("state", "lease_id", "reason", "opened_at", "deadline", "job_id"),
    "markets_cooldown": ("until", "type_id", "job_id"),
}
JOBS = (
    "state", "cluster_id", "tenant_id", "upgrade", "leaving_since", "leave_moment", "newest_checkpoint_id",
    "queue_deadline",
)  # fmt: skip
OF_CLUSTERS = {  # tables whose rows name a cluster, as SQL of a row called `it`
    "workers_host": ("it.cluster_id", ("state", "cluster_id")),
    "workers_acceleratortype": ("it.cluster_id", ("base_price_per_hour", "cap_price_per_hour", "cluster_id")),
    "workers_cluster": ("it.id", ("rule", "notice_seconds", "max_moves_per_hour")),
}

BIDS = """
CREATE FUNCTION markets_log_bids() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO markets_floorchange (cluster_id, job_id) SELECT DISTINCT cluster_id, job_id FROM touched;
    RETURN NULL;
END $$;
CREATE TRIGGER floor_logs_new_rows AFTER INSERT ON markets_bid
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION markets_log_bids();
CREATE TRIGGER floor_logs_changed_rows AFTER UPDATE ON markets_bid
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION markets_log_bids();
CREATE TRIGGER floor_logs_former_rows AFTER DELETE ON markets_bid
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION markets_log_bids();
"""

DROP_BIDS = """
DROP TRIGGER floor_logs_former_rows ON markets_bid;
DROP TRIGGER floor_logs_changed_rows ON markets_bid;
DROP TRIGGER floor_logs_new_rows ON markets_bid;
DROP FUNCTION markets_log_bids;
"""

# Every cluster is read anew after an upgrade.
LOOK_AGAIN = "INSERT INTO markets_floorchange (cluster_id) SELECT id FROM workers_cluster;"


def _log(table: str, *, cluster: str, job: str, source: str, columns: tuple[str, ...]) -> migrations.RunSQL:
    """Log new and former rows once a statement, and changed ones one by one: most updates change nothing of this.

    Args:
        cluster, job: SQL of a row called `it`.
        source: what else stands in FROM.
        columns: those whose change is logged.
    """
    name = table.replace("_", "_log_", 1)
    before, after = (", ".join(f"{row}.{column}" for column in columns) for row in ("OLD", "NEW"))
    insert = f"INSERT INTO markets_floorchange (cluster_id, job_id) SELECT DISTINCT {cluster}, {job}"
    return migrations.RunSQL(
        f"""
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {insert} FROM touched AS it {source};
    RETURN NULL;
END $$;
CREATE TRIGGER floor_logs_new_rows AFTER INSERT ON {table}
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION {name}();
CREATE TRIGGER floor_logs_former_rows AFTER DELETE ON {table}
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION {name}();
CREATE FUNCTION {name}_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {insert} FROM (SELECT (OLD).* UNION ALL SELECT (NEW).*) AS it {source};
    RETURN NULL;
END $$;
CREATE TRIGGER floor_logs_changed_rows AFTER UPDATE ON {table}
    FOR EACH ROW WHEN (({before}) IS DISTINCT FROM ({after})) EXECUTE FUNCTION {name}_change();
""",
        f"""
DROP TRIGGER floor_logs_changed_rows ON {table};
DROP FUNCTION {name}_change;
DROP TRIGGER floor_logs_former_rows ON {table};
DROP TRIGGER floor_logs_new_rows ON {table};
DROP FUNCTION {name};
""",
    )


class Migration(migrations.Migration):
    """Triggers only."""

    dependencies = [("markets", "0006_floor_changes_and_roles_in_columns")]

    operations = [
        migrations.RunSQL(BIDS, DROP_BIDS),
        _log("workers_job", cluster="it.cluster_id", job="it.id", source="", columns=JOBS),
        *(
            _log(
                table,
                cluster="job.cluster_id",
                job="it.job_id",
                source="JOIN workers_job AS job ON job.id = it.job_id",
                columns=columns,
            )
            for table, columns in OF_JOBS.items()
        ),
        _log(
            "workers_accelerator",
            cluster="host.cluster_id",
            job="NULL::bigint",
            source="JOIN workers_host AS host ON host.id = it.host_id",
            columns=("healthy", "type_id", "host_id"),
        ),
        *(
            _log(table, cluster=cluster, job="NULL::bigint", source="", columns=columns)
            for table, (cluster, columns) in OF_CLUSTERS.items()
        ),
        migrations.RunSQL(LOOK_AGAIN, migrations.RunSQL.noop),
    ]
