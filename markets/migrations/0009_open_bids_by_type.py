from django.db import migrations, models


class Migration(migrations.Migration):
    """Who asks where a bid stands reads the open bids of its type, and none of the history of years."""

    dependencies = [("markets", "0008_bids_of_a_row_by_time")]

    operations = [
        migrations.AddIndex(
            model_name="bid",
            index=models.Index(
                condition=models.Q(("closed_at__isnull", True)), fields=["type"], name="open_bids_by_type"
            ),
        ),
    ]
