"""Streams, events and the audit trail."""

import functools

import django.db.models.deletion
from django.db import migrations, models

import laissez.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(max_length=160)),
                ("action", models.CharField(max_length=80)),
                ("subject", models.CharField(max_length=120)),
                ("before", models.JSONField(null=True)),
                ("after", models.JSONField(null=True)),
                ("reason", models.TextField()),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "indexes": [models.Index(fields=["subject", "at"], name="audit_by_subject")],
            },
        ),
        migrations.CreateModel(
            name="Stream",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=120, unique=True)),
                ("last_seq", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("last_seq__gte", 0)), name="stream_last_seq_not_negative"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.BigIntegerField()),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(laissez.ids.new_id, *("evt",), **{}),
                        editable=False,
                        max_length=40,
                        unique=True,
                    ),
                ),
                ("type", models.CharField(max_length=120)),
                ("subject", models.CharField(max_length=120)),
                ("at", models.DateTimeField()),
                ("data", models.JSONField()),
                (
                    "stream",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="events", to="laissez.stream"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("stream", "seq"), name="event_numbered_once_per_stream"),
                    models.CheckConstraint(condition=models.Q(("seq__gte", 1)), name="event_seq_from_one"),
                ],
            },
        ),
    ]
