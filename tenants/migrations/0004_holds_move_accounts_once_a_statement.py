"""However many holds a statement changes, it moves the figures of each account once.

An account that is updated for each of its holds in turn leaves as many versions of its row, and every one of them is
looked through by the next update of the same transaction.
"""

from django.db import migrations

ONCE_A_STATEMENT = """
DROP TRIGGER hold_moves_held ON tenants_hold;
DROP FUNCTION tenants_hold_moves_held();

CREATE FUNCTION tenants_hold_keeps_its_past() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.released_at IS NOT NULL THEN
        RAISE EXCEPTION 'hold % is released, which is final', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF (NEW.id, NEW.account_id, NEW.reference, NEW.opened_at)
            <> (OLD.id, OLD.account_id, OLD.reference, OLD.opened_at) THEN
        RAISE EXCEPTION 'hold % keeps its account, reference and opening', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER hold_keeps_its_past BEFORE UPDATE ON tenants_hold
    FOR EACH ROW EXECUTE FUNCTION tenants_hold_keeps_its_past();

CREATE FUNCTION tenants_move_held(accounts bigint[], changes bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tenants_account WHERE id = ANY (accounts) ORDER BY id FOR NO KEY UPDATE;
    UPDATE tenants_account AS account SET held_microdollars = held_microdollars + moved.change
        FROM unnest(accounts, changes) AS moved(account_id, change)
        WHERE account.id = moved.account_id AND moved.change <> 0;
END $$;

CREATE FUNCTION tenants_new_holds_move_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    accounts bigint[];
    changes bigint[];
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT account_id FROM written) AS named
        WHERE NOT EXISTS (SELECT FROM tenants_account WHERE id = named.account_id AND tenant_id IS NOT NULL)
    ) THEN
        RAISE EXCEPTION 'only a tenant''s account holds funds' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    SELECT array_agg(account_id), array_agg(change) INTO accounts, changes FROM (
        SELECT account_id, sum(amount_microdollars)::bigint AS change
        FROM written WHERE released_at IS NULL GROUP BY account_id
    ) AS moved;
    PERFORM tenants_move_held(accounts, changes);
    RETURN NULL;
END $$;
CREATE TRIGGER new_holds_move_held AFTER INSERT ON tenants_hold
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tenants_new_holds_move_held();

CREATE FUNCTION tenants_changed_holds_move_held() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    accounts bigint[];
    changes bigint[];
BEGIN
    SELECT array_agg(account_id), array_agg(change) INTO accounts, changes FROM (
        SELECT account_id, sum(amount)::bigint AS change FROM (
            SELECT account_id, -amount_microdollars AS amount FROM former WHERE released_at IS NULL
            UNION ALL
            SELECT account_id, amount_microdollars FROM written WHERE released_at IS NULL
        ) AS sides GROUP BY account_id
    ) AS moved;
    PERFORM tenants_move_held(accounts, changes);
    RETURN NULL;
END $$;
CREATE TRIGGER changed_holds_move_held AFTER UPDATE ON tenants_hold
    REFERENCING OLD TABLE AS former NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION tenants_changed_holds_move_held();
"""

ONCE_A_HOLD = """
DROP TRIGGER changed_holds_move_held ON tenants_hold;
DROP FUNCTION tenants_changed_holds_move_held();
DROP TRIGGER new_holds_move_held ON tenants_hold;
DROP FUNCTION tenants_new_holds_move_held();
DROP FUNCTION tenants_move_held(bigint[], bigint[]);
DROP TRIGGER hold_keeps_its_past ON tenants_hold;
DROP FUNCTION tenants_hold_keeps_its_past();

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


class Migration(migrations.Migration):
    """Triggers only. A hold is never deleted, so there is nothing to move back."""

    dependencies = [("tenants", "0003_invitations_and_rolled_tokens")]

    operations = [migrations.RunSQL(ONCE_A_STATEMENT, ONCE_A_HOLD)]
