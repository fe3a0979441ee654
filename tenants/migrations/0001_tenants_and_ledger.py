"""Tenants, members, tokens and the ledger's tables; the extension also serves the exclusion constraints of later apps."""

import functools

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations, models

import laissez.ids
import tenants.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        BtreeGistExtension(),
        migrations.CreateModel(
            name="Tenant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(laissez.ids.new_id, *("ten",), **{}),
                        editable=False,
                        max_length=40,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=80, unique=True)),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("tenant", "Tenant"), ("deposits", "Deposits"), ("revenue", "Revenue")], max_length=16
                    ),
                ),
                ("balance_microdollars", models.BigIntegerField(editable=False, null=True)),
                ("held_microdollars", models.BigIntegerField(editable=False, null=True)),
                ("credit_limit_microdollars", models.BigIntegerField(null=True)),
                (
                    "tenant",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="account",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Transfer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("top_up", "Top Up"), ("charge", "Charge"), ("refund", "Refund")], max_length=16
                    ),
                ),
                ("at", models.DateTimeField()),
                ("reference", models.CharField(max_length=120)),
                ("key", models.CharField(max_length=200, unique=True)),
                (
                    "refund_of",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="refunds",
                        to="tenants.transfer",
                    ),
                ),
                ("written_by", models.BigIntegerField(db_default=tenants.models.CurrentTransaction(), editable=False)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind__in", ["top_up", "charge"]), ("refund_of", None)),
                            models.Q(("kind", "refund"), ("refund_of__isnull", False)),
                            _connector="OR",
                        ),
                        name="transfer_kind",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("amount_microdollars", models.BigIntegerField()),
                (
                    "written_by",
                    models.BigIntegerField(db_default=tenants.models.CurrentTransaction(), editable=False),
                ),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="entries", to="tenants.account"
                    ),
                ),
                (
                    "transfer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="entries", to="tenants.transfer"
                    ),
                ),
            ],
            options={"verbose_name_plural": "entries"},
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reference", models.CharField(max_length=120)),
                ("amount_microdollars", models.BigIntegerField()),
                ("opened_at", models.DateTimeField()),
                ("renewed_at", models.DateTimeField()),
                ("released_at", models.DateTimeField(blank=True, null=True)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="holds", to="tenants.account"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("released_at", None)), fields=("reference",), name="hold_open_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("amount_microdollars__gte", 0)), name="hold_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("renewed_at__gte", models.F("opened_at"))),
                        name="hold_renewed_after_opening",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("released_at", None), ("released_at__gte", models.F("opened_at")), _connector="OR"
                        ),
                        name="hold_released_after_opening",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Member",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner"),
                            ("engineer", "Engineer"),
                            ("finance", "Finance"),
                            ("viewer", "Viewer"),
                        ],
                        default="engineer",
                        max_length=16,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="members", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "tenant"), name="member_once_per_tenant"),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["owner", "engineer", "finance", "viewer"])), name="member_role"
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=200)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("body", models.JSONField(null=True)),
                ("answered_at", models.DateTimeField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="idempotency_keys",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "key"), name="idempotency_key_once_per_tenant")
                ]
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(laissez.ids.new_id, *("tok",), **{}),
                        editable=False,
                        max_length=40,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("prefix", models.CharField(max_length=20)),
                ("digest", models.CharField(max_length=64, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="tokens", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="token_expires_after_creation",
                    )
                ]
            },
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["tenant", "deposits", "revenue"])), name="account_kind"
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.UniqueConstraint(
                condition=models.Q(("tenant", None)), fields=("kind",), name="account_one_per_house_kind"
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("balance_microdollars__isnull", False),
                        ("credit_limit_microdollars__gte", 0),
                        ("credit_limit_microdollars__isnull", False),
                        ("held_microdollars__gte", 0),
                        ("held_microdollars__isnull", False),
                        ("kind", "tenant"),
                        ("tenant__isnull", False),
                    ),
                    models.Q(
                        ("balance_microdollars", None),
                        ("credit_limit_microdollars", None),
                        ("held_microdollars", None),
                        ("kind__in", ["deposits", "revenue"]),
                        ("tenant", None),
                    ),
                    _connector="OR",
                ),
                name="account_figures_belong_to_tenants",
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "balance_microdollars__gte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("held_microdollars"), "-", models.F("credit_limit_microdollars")
                        ),
                    ),
                    ("balance_microdollars", None),
                    _connector="OR",
                ),
                name="account_within_credit",
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.UniqueConstraint(
                fields=("transfer", "account"), name="entry_once_per_transfer_and_account"
            ),
        ),
        migrations.AddConstraint(
            model_name="entry",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_microdollars", 0), _negated=True), name="entry_moves_something"
            ),
        ),
    ]
