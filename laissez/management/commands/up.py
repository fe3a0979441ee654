"""`manage.py up`: the whole product on this machine until Ctrl-C. What runs is listed in `laissez.stack.product`."""

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from laissez.stack.places import StackError
from laissez.stack.product import listen, product, web_address
from laissez.stack.supervisor import Supervisor

ADDRESSES = ("DATABASE_URL", "REDIS_URL")


class Command(BaseCommand):
    """Starts and watches every process of the product."""

    help = "Start PostgreSQL, Valkey, web, Celery and beat, and keep them running until Ctrl-C."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where to listen and how fast the meter runs."""
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="the port; 0 takes a free one (default 8000)")
        parser.add_argument("--speedup", type=int, default=1, help="how many times faster the meter runs (default 1)")

    def handle(self, *_args: Any, host: str, port: int, speedup: int, **_options: Any) -> None:
        """Run until told to stop."""
        addresses = {name: os.environ[name] for name in ADDRESSES}
        environment = {"LAISSEZ_METER_SPEEDUP": str(speedup)}
        try:
            with listen(host, port) as listener:
                url = web_address(listener)
                specs = product(settings.STATE_DIR, listener, addresses=addresses, environment=environment)
                facts = {"url": url} | {name.lower(): address for name, address in addresses.items()}
                supervisor = Supervisor(specs, settings.STATE_DIR, facts=facts)
                supervisor.run(started=lambda: self.stdout.write(f"Laissez is up at {url}/ (Ctrl-C ends it)"))
        except StackError as error:
            raise CommandError(str(error)) from error
