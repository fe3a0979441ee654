"""The log of changes is emptied by every tick: what is dead of it goes soon, so that looking at it stays quick."""

from django.db import migrations

SOON = """
ALTER TABLE markets_floorchange SET (
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0
);
"""
AS_OTHERS = """
ALTER TABLE markets_floorchange RESET (
    autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay
);
"""


class Migration(migrations.Migration):
    """Storage only."""

    dependencies = [("markets", "0009_open_bids_by_type")]

    operations = [migrations.RunSQL(SOON, AS_OTHERS)]
