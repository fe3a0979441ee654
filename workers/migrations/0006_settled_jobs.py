"""A job that is over or stopped says when its money was settled, so that nobody has to look at it again."""

from django.db import migrations, models

# What lies behind with nothing held and nothing to bill is settled already; the next metering sees to the rest.
MARK = """
UPDATE workers_job AS job SET settled_at = coalesce(job.finished_at, now())
WHERE job.state NOT IN ('queued', 'running')
    AND NOT EXISTS (SELECT FROM tenants_hold WHERE reference = job.public_id AND released_at IS NULL)
    AND NOT EXISTS (
        SELECT FROM workers_lease
        WHERE job_id = job.id AND (state <> 'closed' OR upper(billed_during) > metered_until)
    );
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0004_holds_move_accounts_once_a_statement"),
        ("workers", "0005_clusters_clear_by_a_known_rule"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="settled_at",
            field=models.DateTimeField(
                blank=True,
                help_text="Since it is over or stopped: when all of it was billed and what was held for it was freed.",
                null=True,
            ),
        ),
        migrations.RunSQL(MARK, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    models.Q(("state__in", ["queued", "running"]), _negated=True), ("settled_at", None)
                ),
                fields=["cluster", "id"],
                name="jobs_to_settle",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["queued", "running"]), _negated=True),
                    ("settled_at", None),
                    _connector="OR",
                ),
                name="an_open_job_is_not_settled",
            ),
        ),
    ]
