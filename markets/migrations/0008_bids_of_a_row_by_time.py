"""An index that finds the last word of a job for a row by an instant, however often its agent has bid."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("markets", "0007_the_floor_logs_its_changes"),
        ("workers", "0004_ended_leases_and_policies"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="bid",
            index=models.Index(fields=["job", "type", "opened_at", "id"], name="bids_of_a_row_by_time"),
        ),
    ]
