"""`manage.py create_tenant NAME --user --password --funds`: a tenant, somebody who may sign in, and test money."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.errors import Refused
from laissez.events import Outbox, transact
from tenants.models import Tenant
from tenants.services import accounts, ledger

ACTOR = "manage.py"


class Command(BaseCommand):
    """All of it or nothing."""

    help = "Create a tenant, optionally with a user who may sign in and with test money. Prints the tenant's id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The tenant's name, and what it begins with."""
        parser.add_argument("name")
        parser.add_argument("--user", help="a new user who may sign in for the tenant; needs --password")
        parser.add_argument("--password", help="at least ten characters, and not a common one")
        parser.add_argument("--funds", metavar="DOLLARS", help="test money to begin with, e.g. 25.00")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it in one transaction."""
        if (options["user"] is None) != (options["password"] is None):
            raise CommandError("--user and --password go together.")

        def work(outbox: Outbox) -> Tenant:
            tenant = accounts.create_tenant(options["name"], actor=ACTOR, outbox=outbox)
            if options["user"]:
                accounts.add_member(
                    tenant, username=options["user"], password=options["password"], actor=ACTOR, outbox=outbox
                )
            if options["funds"]:
                amount = ledger.parse_amount(options["funds"])
                key = f"first funds of {tenant.public_id}"
                accounts.grant(
                    tenant, amount_microdollars=amount, key=key, reason="first funds", actor=ACTOR, outbox=outbox
                )
            return tenant

        try:
            tenant = transact(work)
        except Refused as error:
            raise CommandError("\n".join(fault.detail for fault in error.faults)) from error
        self.stdout.write(tenant.public_id)
