"""`manage.py enrolment_code CLUSTER`: a one-time code with which a machine joins a cluster."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.events import Outbox, transact
from workers.models import Cluster
from workers.services import hosts


class Command(BaseCommand):
    """Draws the code and prints it this once."""

    help = "Draw a one-time enrolment code for a host: laissez-host --server URL --code CODE"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which cluster, and whether an operator still has to approve."""
        parser.add_argument("cluster", help="the cluster's slug")
        parser.add_argument("--approved", action="store_true", help="the host takes leases without further approval")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print the code alone, so that scripts can take it."""
        cluster = Cluster.objects.filter(slug=options["cluster"]).first()
        if cluster is None:
            known = ", ".join(Cluster.objects.order_by("slug").values_list("slug", flat=True)) or "none yet"
            raise CommandError(f"There is no cluster {options['cluster']!r}; there are: {known}.")

        def draw(outbox: Outbox) -> str:
            return hosts.issue_code(cluster, approves=options["approved"], now=outbox.now())

        self.stdout.write(transact(draw))
