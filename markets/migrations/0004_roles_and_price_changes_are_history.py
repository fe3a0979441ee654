"""Roles and announced price changes are history once written; every type has its supply from the next tick on."""

from django.db import migrations

GRAPH = ("scheduled>in_force", "scheduled>cancelled")

HISTORY = """
CREATE FUNCTION markets_role_changes_only_by_ending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.until_number IS NOT NULL OR NEW.until_number IS NULL
       OR to_jsonb(NEW) - 'until_number' <> to_jsonb(OLD) - 'until_number' THEN
        RAISE EXCEPTION 'role %: a change ends a row and opens another', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER role_changes_only_by_ending BEFORE UPDATE ON markets_role
    FOR EACH ROW EXECUTE FUNCTION markets_role_changes_only_by_ending();
CREATE TRIGGER role_not_deleted BEFORE DELETE ON markets_role
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();

CREATE FUNCTION markets_announced_prices_stand() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - 'state' - 'closed_at' <> to_jsonb(OLD) - 'state' - 'closed_at' THEN
        RAISE EXCEPTION 'price change %: what was announced stands or is cancelled', OLD.public_id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER announced_prices_stand BEFORE UPDATE ON markets_pricechange
    FOR EACH ROW EXECUTE FUNCTION markets_announced_prices_stand();
CREATE TRIGGER price_change_not_deleted BEFORE DELETE ON markets_pricechange
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
"""

DROP_HISTORY = """
DROP TRIGGER price_change_not_deleted ON markets_pricechange;
DROP TRIGGER announced_prices_stand ON markets_pricechange;
DROP FUNCTION markets_announced_prices_stand;
DROP TRIGGER role_not_deleted ON markets_role;
DROP TRIGGER role_changes_only_by_ending ON markets_role;
DROP FUNCTION markets_role_changes_only_by_ending;
"""

# A tick skips a book that has not changed; this one has to be cleared once more, to write what units there are.
LOOK_AGAIN = "UPDATE workers_cluster SET book_fingerprint = '';"

TABLES = ("markets_role", "markets_pricechange")


def _keep(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"CREATE TRIGGER history_not_truncated BEFORE TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();",
        f"DROP TRIGGER history_not_truncated ON {table};",
    )


class Migration(migrations.Migration):
    """Triggers that models cannot say."""

    dependencies = [
        ("markets", "0003_supply_price_changes_and_roles"),
        ("workers", "0002_states_and_fences"),
    ]

    operations = [
        migrations.RunSQL(HISTORY, DROP_HISTORY),
        migrations.RunSQL(
            "CREATE TRIGGER state_moves_along_its_graph BEFORE UPDATE ON markets_pricechange FOR EACH ROW EXECUTE"
            f" FUNCTION workers_guard_transition({', '.join(map(repr, GRAPH))});",
            "DROP TRIGGER state_moves_along_its_graph ON markets_pricechange;",
        ),
        *(_keep(table) for table in TABLES),
        migrations.RunSQL(LOOK_AGAIN, migrations.RunSQL.noop),
    ]
