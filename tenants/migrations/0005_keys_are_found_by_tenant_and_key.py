"""A request's key has one index, by tenant and key: the one of the tenant alone is the beginning of that."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """An index only."""

    dependencies = [("tenants", "0004_holds_move_accounts_once_a_statement")]

    operations = [
        migrations.AlterField(
            model_name="idempotencykey",
            name="tenant",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="idempotency_keys",
                to="tenants.tenant",
            ),
        ),
    ]
