"""`manage.py create_token TENANT --scopes --name`: a program's way in, printed once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.errors import Refused
from laissez.events import transact
from tenants.selectors import tenant_named
from tenants.services import accounts

ACTOR = "manage.py"


class Command(BaseCommand):
    """Prints the token and nothing else, so that a script can keep it."""

    help = "Create an API token of a tenant and print it. It is shown this once; only its hash is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Whose token, what for, and for how long."""
        parser.add_argument("tenant", help="the tenant's name or id")
        parser.add_argument("--name", default="command line", help="what tells this token from others")
        parser.add_argument(
            "--scopes",
            default=",".join(accounts.USUAL_SCOPES),
            help="separated by commas; all but tokens:write by default: %(default)s",
        )
        parser.add_argument("--days", type=int, default=accounts.TOKEN_DAYS, help="its life, %(default)s by default")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it and print it."""
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        try:
            tenant = tenant_named(options["tenant"])
            _, text = transact(
                lambda outbox: accounts.create_token(
                    tenant, name=options["name"], scopes=scopes, days=options["days"], actor=ACTOR, outbox=outbox
                )
            )
        except Refused as error:
            raise CommandError("\n".join(fault.detail for fault in error.faults)) from error
        self.stdout.write(text)
