"""Events and audit entries are written once; a stream's numbers have no gap when a transaction commits (I11)."""

from django.db import migrations

REFUSE_CHANGE = """
CREATE FUNCTION laissez_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: its rows are written once', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
"""

DROP_REFUSE_CHANGE = "DROP FUNCTION laissez_refuse_change();"

WRITTEN_ONCE = """
CREATE TRIGGER event_written_once BEFORE UPDATE OR DELETE ON laissez_event
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER event_not_truncated BEFORE TRUNCATE ON laissez_event
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER audit_written_once BEFORE UPDATE OR DELETE ON laissez_auditentry
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER audit_not_truncated BEFORE TRUNCATE ON laissez_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER stream_not_deleted BEFORE DELETE ON laissez_stream
    FOR EACH ROW EXECUTE FUNCTION laissez_refuse_change();
CREATE TRIGGER stream_not_truncated BEFORE TRUNCATE ON laissez_stream
    FOR EACH STATEMENT EXECUTE FUNCTION laissez_refuse_change();
"""

DROP_WRITTEN_ONCE = """
DROP TRIGGER event_written_once ON laissez_event;
DROP TRIGGER event_not_truncated ON laissez_event;
DROP TRIGGER audit_written_once ON laissez_auditentry;
DROP TRIGGER audit_not_truncated ON laissez_auditentry;
DROP TRIGGER stream_not_deleted ON laissez_stream;
DROP TRIGGER stream_not_truncated ON laissez_stream;
"""

NUMBERED_WITHOUT_GAPS = """
CREATE FUNCTION laissez_event_is_numbered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.seq > (SELECT last_seq FROM laissez_stream WHERE id = NEW.stream_id) THEN
        RAISE EXCEPTION 'event % of stream % is beyond the last number of its stream', NEW.seq, NEW.stream_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER event_is_numbered BEFORE INSERT ON laissez_event
    FOR EACH ROW EXECUTE FUNCTION laissez_event_is_numbered();

CREATE FUNCTION laissez_stream_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.last_seq < OLD.last_seq THEN
        RAISE EXCEPTION 'stream % keeps its name and only counts up', OLD.name
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stream_only_grows BEFORE UPDATE ON laissez_stream
    FOR EACH ROW EXECUTE FUNCTION laissez_stream_only_grows();

CREATE FUNCTION laissez_stream_has_its_events() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE CONSTRAINT TRIGGER stream_has_its_events AFTER INSERT OR UPDATE ON laissez_stream
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION laissez_stream_has_its_events();
"""

DROP_NUMBERED_WITHOUT_GAPS = """
DROP TRIGGER stream_has_its_events ON laissez_stream;
DROP FUNCTION laissez_stream_has_its_events();
DROP TRIGGER stream_only_grows ON laissez_stream;
DROP FUNCTION laissez_stream_only_grows();
DROP TRIGGER event_is_numbered ON laissez_event;
DROP FUNCTION laissez_event_is_numbered();
"""


class Migration(migrations.Migration):
    dependencies = [("laissez", "0001_streams_events_and_audit")]

    operations = [
        migrations.RunSQL(REFUSE_CHANGE, DROP_REFUSE_CHANGE),
        migrations.RunSQL(WRITTEN_ONCE, DROP_WRITTEN_ONCE),
        migrations.RunSQL(NUMBERED_WITHOUT_GAPS, DROP_NUMBERED_WITHOUT_GAPS),
    ]
