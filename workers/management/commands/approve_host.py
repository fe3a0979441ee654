"""`manage.py approve_host NAME`: an operator lets an enrolled host take leases."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.errors import Refused
from laissez.events import Outbox, transact
from workers.models import Host
from workers.services import hosts


class Command(BaseCommand):
    """Approves one host."""

    help = "Approve a pending host, or put a draining one back into service."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which one."""
        parser.add_argument("host", help="the host's name or id")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Approve it, or say why not."""
        wanted = options["host"]
        found = list(Host.objects.filter(name=wanted) | Host.objects.filter(public_id=wanted))
        if len(found) != 1:
            raise CommandError(f"{len(found)} hosts are called {wanted!r}; give the id of the one you mean.")
        try:
            host = transact(partial(_approve, found[0]))
        except Refused as refusal:
            raise CommandError(refusal.detail) from refusal
        self.stdout.write(f"{host.name} is {host.state}.")


def _approve(host: Host, outbox: Outbox) -> Host:
    return hosts.approve(host, actor="manage.py approve_host", reason="approved from the command line", outbox=outbox)
