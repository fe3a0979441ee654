"""A cluster's rule is one of those that the engine knows; the database refuses any other."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workers", "0004_ended_leases_and_policies")]

    operations = [
        migrations.AlterField(
            model_name="cluster",
            name="rule",
            field=models.CharField(
                choices=[
                    ("launch_table", "the first row of its table that each can afford"),
                    ("first_come", "first come, first served, at base prices"),
                    ("vcg", "the highest value at its lowest prices"),
                ],
                default="launch_table",
                max_length=32,
            ),
        ),
        migrations.AddConstraint(
            model_name="cluster",
            constraint=models.CheckConstraint(
                condition=models.Q(("rule__in", ["launch_table", "first_come", "vcg"])),
                name="cluster_clears_by_a_known_rule",
            ),
        ),
    ]
