"""That a lease has ended and is not billed to its end yet is a column of its own, which an index can ask for.

The index of such leases asked for the time up to which a lease is metered. Whatever an index mentions makes an update
write a new entry into every index when it changes, and that time changes with every slice: thirteen entries a minute for
each running lease, two of them with the ranges that keep leases apart. The column changes when a lease ends and when it
is billed.
"""

from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("workers", "0008_jobs_have_room_on_their_pages")]

    operations = [
        migrations.RemoveIndex(model_name="lease", name="ended_leases_not_yet_billed"),
        migrations.AddField(
            model_name="lease",
            name="is_owing",
            field=models.GeneratedField(
                db_persist=True,
                expression=Q(state="closed", billed_during__endswith__gt=F("metered_until")),
                help_text="Whether it has ended and is not billed to its end yet.",
                output_field=models.BooleanField(null=True),
            ),
        ),
        migrations.AddIndex(
            model_name="lease",
            index=models.Index(condition=Q(is_owing=True), fields=["host"], name="ended_leases_not_yet_billed"),
        ),
    ]
