"""Indexes for what each tick looks for: leases not billed to their end, running jobs, policies to ask."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0003_invitations_and_rolled_tokens"),
        ("workers", "0003_the_floor_is_read_by_its_changes"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "running")), fields=["cluster", "id"], name="running_jobs_by_cluster"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("state", "queued"), models.Q(("policy__in", ["", "hold"]), _negated=True)),
                fields=["cluster", "id"],
                name="queued_jobs_with_a_policy",
            ),
        ),
        migrations.AddIndex(
            model_name="lease",
            index=models.Index(
                condition=models.Q(("billed_during__endswith__gt", models.F("metered_until")), ("state", "closed")),
                fields=["host"],
                name="ended_leases_not_yet_billed",
            ),
        ),
    ]
