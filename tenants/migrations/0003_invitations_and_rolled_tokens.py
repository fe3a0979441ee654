"""Invitations, tokens that were rolled, and the tries that are rationed."""

import django.db.models.deletion
import functools
import laissez.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0002_ledger_triggers'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='created_by',
            field=models.CharField(blank=True, default='', max_length=200),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='rolled_into',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rolled', to='tenants.apitoken'),
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('what', models.CharField(max_length=32)),
                ('who', models.CharField(max_length=64)),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['what', 'who', 'at'], name='attempt_by_whom')],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(default=functools.partial(laissez.ids.new_id, *('inv',), **{}), editable=False, max_length=40, unique=True)),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('engineer', 'Engineer'), ('finance', 'Finance'), ('viewer', 'Viewer')], max_length=16)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('note', models.CharField(blank=True, default='', help_text="Whom it is for, in the inviter's words.", max_length=80)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=200)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='invitations', to='tenants.tenant')),
                ('used_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('role__in', ['owner', 'engineer', 'finance', 'viewer'])), name='invitation_role'), models.CheckConstraint(condition=models.Q(('tenant__isnull', False), ('role', 'owner'), _connector='OR'), name='invitation_founder_owns'), models.CheckConstraint(condition=models.Q(('expires_at__gt', models.F('created_at'))), name='invitation_expires_after_creation'), models.CheckConstraint(condition=models.Q(('used_at', None), ('withdrawn_at', None), _connector='OR'), name='invitation_ends_once')],
            },
        ),
    ]
