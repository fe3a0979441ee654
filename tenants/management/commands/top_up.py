"""`manage.py top_up TENANT AMOUNT`: test money for a tenant."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.errors import Refused
from laissez.events import Outbox, transact
from laissez.ids import new_id
from markets.engine.money import format_price
from tenants.selectors import balance, tenant_named
from tenants.services import accounts, ledger

ACTOR = "manage.py"


class Command(BaseCommand):
    """Every call adds money, unless it repeats an earlier call's --key."""

    help = "Add test money to a tenant's balance. Prints the balance afterwards."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Whose balance, and by how much."""
        parser.add_argument("tenant", help="the tenant's name or id")
        parser.add_argument("amount", metavar="DOLLARS", help="e.g. 25.00")
        parser.add_argument("--key", help="a call with the same key adds nothing again")
        parser.add_argument("--reason", default="test money", help="for the statement and the audit trail")

    def handle(self, *args: Any, **options: Any) -> None:
        """Add it and say what the balance is."""
        key = options["key"] or new_id("top")

        def work(outbox: Outbox) -> None:
            tenant = tenant_named(options["tenant"])
            amount = ledger.parse_amount(options["amount"])
            accounts.grant(
                tenant, amount_microdollars=amount, key=key, reason=options["reason"], actor=ACTOR, outbox=outbox
            )

        try:
            transact(work)
            self.stdout.write(f"${format_price(balance(tenant_named(options['tenant'])))}")
        except Refused as error:
            raise CommandError("\n".join(fault.detail for fault in error.faults)) from error
