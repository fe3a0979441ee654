"""The Django application `laissez`."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class LaissezConfig(AppConfig):
    """Registers the application, and what every app declares to the feed: its event types and its streams."""

    name = "laissez"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import what registers itself: `connections`, `lookups`, and each app's `vocabulary` and `streams`."""
        autodiscover_modules("connections", "lookups", "vocabulary", "streams")
