"""Money is double entry, written once, and never spent twice (I6).

An account's running figures move only through the triggers below; a CHECK on the account refuses what it cannot cover.
"""

from django.db import migrations

WRITTEN_ONCE = """
CREATE TRIGGER transfer_written_once BEFORE UPDATE OR DELETE ON tenants_transfer
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER transfer_not_truncated BEFORE TRUNCATE ON tenants_transfer
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER entry_written_once BEFORE UPDATE OR DELETE ON tenants_entry
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER entry_not_truncated BEFORE TRUNCATE ON tenants_entry
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER hold_not_deleted BEFORE DELETE ON tenants_hold
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER hold_not_truncated BEFORE TRUNCATE ON tenants_hold
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER account_not_deleted BEFORE DELETE ON tenants_account
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER account_not_truncated BEFORE TRUNCATE ON tenants_account
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
"""

DROP_WRITTEN_ONCE = """
DROP TRIGGER transfer_written_once ON tenants_transfer;
DROP TRIGGER transfer_not_truncated ON tenants_transfer;
DROP TRIGGER entry_written_once ON tenants_entry;
DROP TRIGGER entry_not_truncated ON tenants_entry;
DROP TRIGGER hold_not_deleted ON tenants_hold;
DROP TRIGGER hold_not_truncated ON tenants_hold;
DROP TRIGGER account_not_deleted ON tenants_account;
DROP TRIGGER account_not_truncated ON tenants_account;
"""

TRANSFERS_BALANCE = """
CREATE FUNCTION tenants_transfer_is_written_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.written_by <> pg_current_xact_id()::text::bigint THEN
        RAISE EXCEPTION 'transfer % names another transaction than the one that writes it', NEW.key
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER transfer_is_written_now BEFORE INSERT ON tenants_transfer
    FOR EACH ROW EXECUTE FUNCTION tenants_transfer_is_written_now();

CREATE FUNCTION tenants_entry_is_written_with_its_transfer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.written_by <> pg_current_xact_id()::text::bigint OR NOT EXISTS (
        SELECT FROM tenants_transfer WHERE id = NEW.transfer_id AND written_by = NEW.written_by
    ) THEN
        RAISE EXCEPTION 'transfer % is settled: entries are written in the transaction of their transfer', NEW.transfer_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER entry_is_written_with_its_transfer BEFORE INSERT ON tenants_entry
    FOR EACH ROW EXECUTE FUNCTION tenants_entry_is_written_with_its_transfer();

CREATE FUNCTION tenants_transfer_sums_to_zero() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    transfer bigint := CASE TG_TABLE_NAME WHEN 'tenants_entry' THEN (to_jsonb(NEW) ->> 'transfer_id')::bigint
                                          ELSE NEW.id END;
    sides bigint;
    total numeric;
BEGIN
    SELECT count(*), coalesce(sum(amount_microdollars), 0) INTO sides, total
        FROM tenants_entry WHERE transfer_id = transfer;
    IF sides < 2 OR total <> 0 THEN
        RAISE EXCEPTION 'transfer % has % entries that sum to %, not to zero', transfer, sides, total
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER transfer_sums_to_zero AFTER INSERT ON tenants_transfer
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tenants_transfer_sums_to_zero();
CREATE CONSTRAINT TRIGGER entry_sums_to_zero AFTER INSERT ON tenants_entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tenants_transfer_sums_to_zero();
"""

DROP_TRANSFERS_BALANCE = """
DROP TRIGGER entry_sums_to_zero ON tenants_entry;
DROP TRIGGER transfer_sums_to_zero ON tenants_transfer;
DROP FUNCTION tenants_transfer_sums_to_zero();
DROP TRIGGER entry_is_written_with_its_transfer ON tenants_entry;
DROP FUNCTION tenants_entry_is_written_with_its_transfer();
DROP TRIGGER transfer_is_written_now ON tenants_transfer;
DROP FUNCTION tenants_transfer_is_written_now();
"""

RUNNING_FIGURES = """
CREATE FUNCTION tenants_account_figures_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF coalesce(NEW.balance_microdollars, 0) <> 0 OR coalesce(NEW.held_microdollars, 0) <> 0 THEN
            RAISE EXCEPTION 'an account begins empty' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
    ELSIF NEW.kind <> OLD.kind OR NEW.tenant_id IS DISTINCT FROM OLD.tenant_id THEN
        RAISE EXCEPTION 'account % keeps its owner', OLD.id USING ERRCODE = 'integrity_constraint_violation';
    ELSIF pg_trigger_depth() < 2 AND (NEW.balance_microdollars, NEW.held_microdollars)
            IS DISTINCT FROM (OLD.balance_microdollars, OLD.held_microdollars) THEN
        RAISE EXCEPTION 'the figures of account % follow its entries and holds', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER account_figures_follow BEFORE INSERT OR UPDATE ON tenants_account
    FOR EACH ROW EXECUTE FUNCTION tenants_account_figures_follow();

CREATE FUNCTION tenants_entries_move_balances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tenants_account
        WHERE tenant_id IS NOT NULL AND id IN (SELECT account_id FROM written) ORDER BY id FOR NO KEY UPDATE;
    UPDATE tenants_account AS account SET balance_microdollars = balance_microdollars + moved.amount
        FROM (SELECT account_id, sum(amount_microdollars)::bigint AS amount FROM written GROUP BY account_id) AS moved
        WHERE account.id = moved.account_id AND account.tenant_id IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER entries_move_balances AFTER INSERT ON tenants_entry
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tenants_entries_move_balances();

CREATE FUNCTION tenants_hold_moves_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change bigint := CASE WHEN NEW.released_at IS NULL THEN NEW.amount_microdollars ELSE 0 END;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.released_at IS NOT NULL THEN
            RAISE EXCEPTION 'hold % is released, which is final', OLD.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF (NEW.account_id, NEW.reference, NEW.opened_at) <> (OLD.account_id, OLD.reference, OLD.opened_at) THEN
            RAISE EXCEPTION 'hold % keeps its account, reference and opening', OLD.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        change := change - OLD.amount_microdollars;
    END IF;
    UPDATE tenants_account SET held_microdollars = held_microdollars + change
        WHERE id = NEW.account_id AND tenant_id IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only a tenant''s account holds funds' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER hold_moves_held AFTER INSERT OR UPDATE ON tenants_hold
    FOR EACH ROW EXECUTE FUNCTION tenants_hold_moves_held();
"""

DROP_RUNNING_FIGURES = """
DROP TRIGGER hold_moves_held ON tenants_hold;
DROP FUNCTION tenants_hold_moves_held();
DROP TRIGGER entries_move_balances ON tenants_entry;
DROP FUNCTION tenants_entries_move_balances();
DROP TRIGGER account_figures_follow ON tenants_account;
DROP FUNCTION tenants_account_figures_follow();
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_tenants_and_ledger"), ("laissez", "0002_event_and_audit_triggers")]

    operations = [
        migrations.RunSQL(WRITTEN_ONCE, DROP_WRITTEN_ONCE),
        migrations.RunSQL(TRANSFERS_BALANCE, DROP_TRANSFERS_BALANCE),
        migrations.RunSQL(RUNNING_FIGURES, DROP_RUNNING_FIGURES),
    ]
