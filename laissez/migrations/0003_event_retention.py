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
