"""The Django application `laissez`."""

from django.apps import AppConfig


class LaissezConfig(AppConfig):
    """Registers the application."""

    name = "laissez"
    default_auto_field = "django.db.models.BigAutoField"
