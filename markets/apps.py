"""The Django application `markets`."""

from django.apps import AppConfig


class MarketsConfig(AppConfig):
    """Registers the application."""

    name = "markets"
    default_auto_field = "django.db.models.BigAutoField"
