"""`manage.py check_invariants`: every detector of every app, on one snapshot of the database."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection, transaction

import laissez.invariants
import markets.invariants
import tenants.invariants
import workers.invariants

APPS = (laissez.invariants, tenants.invariants, workers.invariants, markets.invariants)


class Command(BaseCommand):
    """Prints a line per violation. The exit code is 1 when there is one."""

    help = "Look for violations of the system's invariants; print one line for each, or nothing."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How to print."""
        parser.add_argument("--json", action="store_true", help="print a list of objects with id and sentence")

    def handle(self, *_args: Any, json: bool, **_options: Any) -> None:
        """Look once."""
        found = look()
        if json:
            self.stdout.write(as_json(found))
        else:
            self.stdout.writelines(f"{sentence}\n" for sentence in found)
        if found:
            sys.exit(1)


def look() -> list[str]:
    """Every violation there is, as sentences.

    All queries read one snapshot, so a transaction that commits meanwhile is seen whole or not at all.
    """
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        detectors = [detector for app in APPS for detector in app.detectors()]
        return laissez.invariants.violations(detectors)


def as_json(found: list[str]) -> str:
    """The violations as a JSON list of objects."""
    parts = [sentence.partition(": ") for sentence in found]
    return json.dumps([{"id": invariant, "sentence": sentence} for invariant, _, sentence in parts])
