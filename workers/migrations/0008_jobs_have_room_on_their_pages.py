"""Every job has room on its page for a new version.

With four fifths filled, a page of jobs with some bids each holds four of them and room for one more: when many change in
one statement, as when a price makes a tick ask their agents, three of four got new entries in all the indexes.
"""

from django.db import migrations

FILLED_PERCENT = 50
FORMERLY_FILLED_PERCENT = 80


class Migration(migrations.Migration):
    """Storage only; what is there already moves as it changes."""

    dependencies = [("workers", "0007_guards_wait_for_what_they_guard")]

    operations = [
        migrations.RunSQL(
            f"ALTER TABLE workers_job SET (fillfactor = {FILLED_PERCENT});",
            f"ALTER TABLE workers_job SET (fillfactor = {FORMERLY_FILLED_PERCENT});",
        ),
    ]
