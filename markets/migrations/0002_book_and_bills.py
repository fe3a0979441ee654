"""Awards and notices move along their graphs (I12); bids, quotes, clearings and slices are history once written.

A bid's type and job belong to its cluster, and a lease's time is billed without gaps (I4).
"""

from django.db import migrations

GRAPHS = {
    "markets_award": "waiting>handed_over waiting>lost waiting>withdrawn waiting>lapsed",
    "markets_notice": "open>answered open>withdrawn open>executed",
}

SAME_CLUSTER = """
CREATE UNIQUE INDEX workers_type_and_cluster ON workers_acceleratortype (id, cluster_id);
CREATE UNIQUE INDEX workers_job_and_cluster ON workers_job (id, cluster_id);
ALTER TABLE markets_bid ADD CONSTRAINT bid_type_is_of_its_cluster
    FOREIGN KEY (type_id, cluster_id) REFERENCES workers_acceleratortype (id, cluster_id);
ALTER TABLE markets_bid ADD CONSTRAINT bid_job_is_of_its_cluster
    FOREIGN KEY (job_id, cluster_id) REFERENCES workers_job (id, cluster_id);
"""

DROP_SAME_CLUSTER = """
ALTER TABLE markets_bid DROP CONSTRAINT bid_job_is_of_its_cluster;
ALTER TABLE markets_bid DROP CONSTRAINT bid_type_is_of_its_cluster;
DROP INDEX workers_job_and_cluster;
DROP INDEX workers_type_and_cluster;
"""

HISTORY = """
CREATE FUNCTION markets_bid_changes_only_by_closing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.closed_at IS NOT NULL OR NEW.closed_at IS NULL
       OR to_jsonb(NEW) - 'closed_at' - 'closed_in' <> to_jsonb(OLD) - 'closed_at' - 'closed_in' THEN
        RAISE EXCEPTION 'bid %: a change closes a row and opens another', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    NEW.closed_in := pg_current_xact_id()::text::bigint;
    RETURN NEW;
END $$;
CREATE TRIGGER bid_changes_only_by_closing BEFORE UPDATE ON markets_bid
    FOR EACH ROW EXECUTE FUNCTION markets_bid_changes_only_by_closing();
CREATE TRIGGER bid_not_deleted BEFORE DELETE ON markets_bid
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();

CREATE FUNCTION markets_quote_changes_only_by_ending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT upper_inf(OLD.during) OR upper_inf(NEW.during) OR lower(NEW.during) <> lower(OLD.during)
       OR to_jsonb(NEW) - 'during' <> to_jsonb(OLD) - 'during' THEN
        RAISE EXCEPTION 'quote %: a change ends a row and opens another', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER quote_changes_only_by_ending BEFORE UPDATE ON markets_quote
    FOR EACH ROW EXECUTE FUNCTION markets_quote_changes_only_by_ending();
CREATE TRIGGER quote_not_deleted BEFORE DELETE ON markets_quote
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER clearing_written_once BEFORE UPDATE OR DELETE ON markets_clearing
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER slice_written_once BEFORE UPDATE OR DELETE ON markets_billingslice
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();

CREATE FUNCTION markets_slice_follows_the_last_one() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lease workers_lease;
BEGIN
    SELECT * INTO lease FROM workers_lease WHERE id = NEW.lease_id;
    IF lease.billed_during IS NULL OR NOT NEW.during <@ lease.billed_during
       OR lower(NEW.during) <> lease.metered_until THEN
        RAISE EXCEPTION 'slice of lease %: % does not follow % within %',
            NEW.lease_id, NEW.during, lease.metered_until, lease.billed_during USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slice_follows_the_last_one BEFORE INSERT ON markets_billingslice
    FOR EACH ROW EXECUTE FUNCTION markets_slice_follows_the_last_one();
"""

DROP_HISTORY = """
DROP TRIGGER slice_follows_the_last_one ON markets_billingslice;
DROP FUNCTION markets_slice_follows_the_last_one;
DROP TRIGGER slice_written_once ON markets_billingslice;
DROP TRIGGER clearing_written_once ON markets_clearing;
DROP TRIGGER quote_not_deleted ON markets_quote;
DROP TRIGGER quote_changes_only_by_ending ON markets_quote;
DROP FUNCTION markets_quote_changes_only_by_ending;
DROP TRIGGER bid_not_deleted ON markets_bid;
DROP TRIGGER bid_changes_only_by_closing ON markets_bid;
DROP FUNCTION markets_bid_changes_only_by_closing;
"""

HISTORY_TABLES = ("markets_bid", "markets_quote", "markets_clearing", "markets_billingslice")


def _keep(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"CREATE TRIGGER history_not_truncated BEFORE TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();",
        f"DROP TRIGGER history_not_truncated ON {table};",
    )


def _guard(table: str, graph: str) -> migrations.RunSQL:
    steps = ", ".join(f"'{step}'" for step in graph.split())
    return migrations.RunSQL(
        f"CREATE TRIGGER state_moves_along_its_graph BEFORE UPDATE ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION workers_guard_transition({steps});",
        f"DROP TRIGGER state_moves_along_its_graph ON {table};",
    )


class Migration(migrations.Migration):
    """Triggers and foreign keys that models cannot say."""

    dependencies = [
        ("markets", "0001_bids_awards_and_clearings"),
        ("workers", "0002_states_and_fences"),
    ]

    operations = [
        *(_guard(table, graph) for table, graph in GRAPHS.items()),
        migrations.RunSQL(SAME_CLUSTER, DROP_SAME_CLUSTER),
        migrations.RunSQL(HISTORY, DROP_HISTORY),
        *(_keep(table) for table in HISTORY_TABLES),
    ]
