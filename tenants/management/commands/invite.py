"""`manage.py invite [TENANT] --role`: a way in for one person, printed once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from laissez.errors import Refused
from laissez.events import transact
from tenants.models import Member
from tenants.selectors import tenant_named
from tenants.services import people

ACTOR = "manage.py"


class Command(BaseCommand):
    """Prints the address and nothing else, so that a script can send it."""

    help = "Invite one person: to a tenant, or without one to found a tenant of their own. Prints the address once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where to, and for how long."""
        parser.add_argument("tenant", nargs="?", help="the tenant's name or id; left out: a new tenant")
        parser.add_argument("--role", choices=Member.Role.values, default=Member.Role.OWNER.value)
        parser.add_argument("--note", default="", help="whom it is for")
        parser.add_argument("--days", type=int, default=people.INVITATION_DAYS, help="its life, %(default)s by default")
        parser.add_argument("--url", default="", help="the server's address, to print the whole link")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it and print it."""
        try:
            tenant = tenant_named(options["tenant"]) if options["tenant"] else None
            _, code = transact(
                lambda outbox: people.invite(
                    tenant,
                    role=options["role"],
                    note=options["note"],
                    days=options["days"],
                    actor=ACTOR,
                    outbox=outbox,
                )
            )
        except Refused as error:
            raise CommandError("\n".join(fault.detail for fault in error.faults)) from error
        self.stdout.write(options["url"].rstrip("/") + reverse("join", kwargs={"code": code}))
