"""A digest of the whole floor no longer says whether it has changed; what becomes due is found by index."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('markets', '0005_clearings_name_their_transaction'),  # an earlier one of which writes the digest
        ('tenants', '0003_invitations_and_rolled_tokens'),
        ('workers', '0002_states_and_fences'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='cluster',
            name='book_fingerprint',
        ),
        migrations.AddField(
            model_name='cluster',
            name='floor_read_in',
            field=models.BigIntegerField(blank=True, editable=False, help_text='The transaction of the last tick that read the floor.', null=True),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('state', 'queued')), fields=['cluster', 'queue_deadline'], name='queued_jobs_by_deadline'),
        ),
        migrations.AddIndex(
            model_name='migration',
            index=models.Index(condition=models.Q(('state', 'done')), fields=['closed_at'], name='moves_by_their_end'),
        ),
    ]
