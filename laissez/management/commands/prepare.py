"""`manage.py prepare`: the schema and the static files, brought up to date by one process. Safe to run again."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

LEFT_BEHIND = ["datasets", "templates", "widgetbundle.js"]
"""What the plotly package keeps beside the one file that pages load."""


class Command(BaseCommand):
    """Runs `migrate` and `collectstatic`."""

    help = "Bring the database schema and the collected static files up to date."
    requires_system_checks = ()

    def handle(self, *_args: Any, verbosity: int, **_options: Any) -> None:
        """Both, without questions."""
        quiet = max(verbosity - 1, 0)
        call_command("migrate", interactive=False, verbosity=quiet)
        call_command("collectstatic", interactive=False, verbosity=quiet, ignore_patterns=LEFT_BEHIND)
