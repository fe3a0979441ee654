"""The Django application `tenants`."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Registers the application."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"
