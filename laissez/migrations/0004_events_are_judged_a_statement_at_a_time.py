"""Events are judged once a statement, streams by conditions, and what another guard implies is not kept twice.

A tick or a bulk change appends ten thousand events at once: a guard in PL/pgSQL, a foreign key's look-up and five
indexes for each of them were most of the transaction. That an event's stream exists is seen to when the event is
written; after that no stream can go or change its id, and no event can change its stream.
"""

import django.db.models.deletion
from django.db import migrations, models

EVENTS = """
DROP TRIGGER event_is_numbered ON laissez_event;
DROP FUNCTION laissez_event_is_numbered();
CREATE FUNCTION laissez_events_are_numbered() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wrong record;
BEGIN
    SELECT event.seq, event.stream_id, stream.id IS NULL AS is_nowhere INTO wrong
        FROM written AS event LEFT JOIN laissez_stream AS stream ON stream.id = event.stream_id
        WHERE stream.id IS NULL OR event.seq > stream.last_seq LIMIT 1;
    IF FOUND AND wrong.is_nowhere THEN
        RAISE EXCEPTION 'event % is of stream %, which there is not', wrong.seq, wrong.stream_id
            USING ERRCODE = 'foreign_key_violation';
    ELSIF FOUND THEN
        RAISE EXCEPTION 'event % of stream % is beyond the last number of its stream', wrong.seq, wrong.stream_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER events_are_numbered AFTER INSERT ON laissez_event
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION laissez_events_are_numbered();
"""

EVENTS_BEFORE = """
DROP TRIGGER events_are_numbered ON laissez_event;
DROP FUNCTION laissez_events_are_numbered();
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
"""

STREAMS = """
DROP TRIGGER stream_only_grows ON laissez_stream;
CREATE OR REPLACE FUNCTION laissez_stream_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'stream % keeps its name and id and only counts up', OLD.name
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER stream_only_grows BEFORE UPDATE ON laissez_stream FOR EACH ROW
    WHEN (NEW.id <> OLD.id OR NEW.name <> OLD.name OR NEW.last_seq < OLD.last_seq OR NEW.first_seq < OLD.first_seq)
    EXECUTE FUNCTION laissez_stream_only_grows();

CREATE OR REPLACE FUNCTION laissez_stream_has_its_events() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before bigint := CASE TG_OP WHEN 'UPDATE' THEN OLD.last_seq ELSE 0 END;
    present bigint := (
        SELECT count(*) FROM laissez_event WHERE stream_id = NEW.id AND seq > before AND seq <= NEW.last_seq
    );
BEGIN
    IF present = NEW.last_seq - before THEN
        RETURN NULL;
    END IF;
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

STREAMS_BEFORE = """
DROP TRIGGER stream_only_grows ON laissez_stream;
CREATE OR REPLACE FUNCTION laissez_stream_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.last_seq < OLD.last_seq OR NEW.first_seq < OLD.first_seq THEN
        RAISE EXCEPTION 'stream % keeps its name and only counts up', OLD.name
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stream_only_grows BEFORE UPDATE ON laissez_stream
    FOR EACH ROW EXECUTE FUNCTION laissez_stream_only_grows();

CREATE OR REPLACE FUNCTION laissez_stream_has_its_events() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before bigint := CASE TG_OP WHEN 'UPDATE' THEN OLD.last_seq ELSE 0 END;
    present bigint;
BEGIN
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


def _unlike(table: str, column: str, name: str) -> migrations.RunSQL:
    """Drop the second index of a unique text, which Django makes for LIKE. Nobody looks for the beginning of an id."""
    return migrations.RunSQL(
        f"DROP INDEX IF EXISTS {name};", f"CREATE INDEX {name} ON {table} ({column} varchar_pattern_ops);"
    )


class Migration(migrations.Migration):
    """Guards and indexes only."""

    dependencies = [("laissez", "0003_event_retention")]

    operations = [
        migrations.RunSQL(EVENTS, EVENTS_BEFORE),
        migrations.RunSQL(STREAMS, STREAMS_BEFORE),
        migrations.AlterField(
            model_name="event",
            name="stream",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="events",
                to="laissez.stream",
            ),
        ),
        _unlike("laissez_event", "public_id", "laissez_event_public_id_05416735_like"),
        _unlike("laissez_stream", "name", "laissez_stream_name_52c957cc_like"),
    ]
