"""The Django application `workers`."""

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    """Registers the application."""

    name = "workers"
    default_auto_field = "django.db.models.BigAutoField"
