"""A hold that pays for a slice or is renewed finds room for its new version beside it, and needs no index entries."""

from django.db import migrations

FILLED_PERCENT = 80


class Migration(migrations.Migration):
    """Storage only; what is there already moves as it changes."""

    dependencies = [("tenants", "0005_keys_are_found_by_tenant_and_key")]

    operations = [
        migrations.RunSQL(
            f"ALTER TABLE tenants_hold SET (fillfactor = {FILLED_PERCENT});",
            "ALTER TABLE tenants_hold RESET (fillfactor);",
        ),
    ]
