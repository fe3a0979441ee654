"""Events are kept for a while only: those below a stream's first number may go, and that number only grows."""

from django.db import migrations, models

PURGED_BELOW_FIRST = """
CREATE FUNCTION laissez_event_is_purged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq >= (SELECT first_seq FROM laissez_stream WHERE id = OLD.stream_id) THEN
        RAISE EXCEPTION 'event % of stream % is refused to go: it is still kept', OLD.seq, OLD.stream_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;
DROP TRIGGER event_written_once ON laissez_event;
CREATE TRIGGER event_written_once BEFORE UPDATE ON laissez_event
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER event_is_purged BEFORE DELETE ON laissez_event
    FOR EACH ROW EXECUTE FUNCTION laissez_event_is_purged();

CREATE OR REPLACE FUNCTION laissez_stream_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.last_seq < OLD.last_seq OR NEW.first_seq < OLD.first_seq THEN
        RAISE EXCEPTION 'stream % keeps its name and only counts up', OLD.name
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION laissez_stream_has_its_events() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before bigint := CASE TG_OP WHEN 'UPDATE' THEN OLD.last_seq ELSE 0 END;
    present bigint;
BEGIN
    -- What has been purged in the same transaction need not be there.
    before := greatest(before, (SELECT first_seq - 1 FROM laissez_stream WHERE id = NEW.id));
    SELECT count(*) INTO present FROM laissez_event
        WHERE stream_id = NEW.id AND seq > before AND seq <= NEW.last_seq;
    IF present <> greatest(NEW.last_seq - before, 0) THEN
        RAISE EXCEPTION 'stream % counts to % but % of its last % events are there',
            NEW.name, NEW.last_seq, present, NEW.last_seq - before
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
"""

KEPT_FOR_EVER = """
DROP TRIGGER event_is_purged ON laissez_event;
DROP TRIGGER event_written_once ON laissez_event;
DROP FUNCTION laissez_event_is_purged();
CREATE TRIGGER event_written_once BEFORE UPDATE OR DELETE ON laissez_event
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();

CREATE OR REPLACE FUNCTION laissez_stream_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.last_seq < OLD.last_seq THEN
        RAISE EXCEPTION 'stream % keeps its name and only counts up', OLD.name
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION laissez_stream_has_its_events() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before bigint := CASE TG_OP WHEN 'UPDATE' THEN OLD.last_seq ELSE 0 END;
    present bigint;
BEGIN
    SELECT count(*) INTO present FROM laissez_event
        WHERE stream_id = NEW.id AND seq > before AND seq <= NEW.last_seq;
    IF present <> NEW.last_seq - before THEN
        RAISE EXCEPTION 'stream % counts to % but % of its last % events are there',
            NEW.name, NEW.last_seq, present, NEW.last_seq - before
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("laissez", "0002_event_and_audit_triggers")]

    operations = [
        migrations.AddField(
            model_name="stream",
            name="first_seq",
            field=models.BigIntegerField(
                db_default=1,
                default=1,
                help_text="The oldest event that is kept; one more than the last when none is.",
            ),
        ),
        migrations.AddConstraint(
            model_name="stream",
            constraint=models.CheckConstraint(
                condition=models.Q(("first_seq__gte", 1), ("first_seq__lte", models.F("last_seq") + 1)),
                name="stream_first_seq_within_its_numbers",
            ),
        ),
        migrations.RunSQL(PURGED_BELOW_FIRST, KEPT_FOR_EVER),
    ]
