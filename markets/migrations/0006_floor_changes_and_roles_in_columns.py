"""Roles are columns, so that thousands are compared at once; what changes on the floor has a log."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

INTO_COLUMNS = """
ALTER TABLE markets_role DISABLE TRIGGER role_changes_only_by_ending;
UPDATE markets_role SET
    on_type = (terms ->> 'on')::bigint,
    to_type = (terms ->> 'to')::bigint,
    award_type = (terms ->> 'award')::bigint,
    seeks = coalesce((terms ->> 'seeks')::boolean, false),
    closed_types = ARRAY(SELECT jsonb_array_elements_text(terms -> 'closed')::bigint);
ALTER TABLE markets_role ENABLE TRIGGER role_changes_only_by_ending;
"""

INTO_TERMS = """
ALTER TABLE markets_role DISABLE TRIGGER role_changes_only_by_ending;
UPDATE markets_role SET terms = jsonb_strip_nulls(jsonb_build_object(
    'on', on_type, 'to', to_type, 'award', award_type, 'seeks', nullif(seeks, false),
    'closed', CASE WHEN closed_types <> '{}' THEN to_jsonb(closed_types) END
));
ALTER TABLE markets_role ENABLE TRIGGER role_changes_only_by_ending;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('markets', '0005_clearings_name_their_transaction'),
        ('workers', '0003_the_floor_is_read_by_its_changes'),
    ]

    operations = [
        migrations.CreateModel(
            name='FloorChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ],
        ),
        migrations.AddField(
            model_name='role',
            name='absent',
            field=models.BooleanField(default=False, help_text='It was not in the book, though its bids were still open.'),
        ),
        migrations.AddField(
            model_name='role',
            name='award_type',
            field=models.BigIntegerField(blank=True, help_text='The type it had won and waited for.', null=True),
        ),
        migrations.AddField(
            model_name='role',
            name='closed_types',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), blank=True, default=list, help_text='Those of them that did not, in a cool-down.', size=None),
        ),
        migrations.AddField(
            model_name='role',
            name='on_type',
            field=models.BigIntegerField(blank=True, help_text='The type it ran on, its unit being usable.', null=True),
        ),
        migrations.AddField(
            model_name='role',
            name='seeks',
            field=models.BooleanField(default=False, help_text='Whether rows above its own took part.'),
        ),
        migrations.AddField(
            model_name='role',
            name='to_type',
            field=models.BigIntegerField(blank=True, help_text='The type it was moving to.', null=True),
        ),
        migrations.AlterField(
            model_name='role',
            name='terms',
            field=models.JSONField(default=dict),
        ),
        migrations.RunSQL(INTO_COLUMNS, INTO_TERMS),
        migrations.RemoveField(
            model_name='role',
            name='terms',
        ),
        migrations.AddIndex(
            model_name='award',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['deadline'], name='waiting_awards_by_deadline'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('state', 'open')), fields=['job'], name='open_notices_by_job'),
        ),
        migrations.AddField(
            model_name='floorchange',
            name='cluster',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workers.cluster'),
        ),
        migrations.AddField(
            model_name='floorchange',
            name='job',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workers.job'),
        ),
    ]
