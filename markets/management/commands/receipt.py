"""`manage.py receipt recompute gemm 42`: a recorded clearing made once more from history, compared with its receipt."""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from markets.models import Clearing
from markets.selectors import receipts

ACTS = {"show": "print a receipt as JSON", "recompute": "clear once more from history and compare"}


class Command(BaseCommand):
    """Shows or recomputes one receipt, or the newest ones of a cluster. The exit code is 1 when something differs."""

    help = "Show a recorded clearing, or rebuild its book from history, clear it again and compare."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do with which clearings."""
        acts = parser.add_subparsers(dest="act", required=True)
        for act, meaning in ACTS.items():
            one = acts.add_parser(act, help=meaning)
            one.add_argument("which", metavar="CLUSTER NUMBER | ID", nargs="+", help="a clearing, by its receipt or id")
            if act == "recompute":
                one.add_argument("--last", type=int, metavar="N", help="CLUSTER's newest N receipts instead of one")

    def handle(self, *_args: Any, act: str, which: list[str], last: int | None = None, **_options: Any) -> None:
        """Do it."""
        if act == "show":
            self.stdout.write(json.dumps(_shown(_found(which)), indent=2))
            return
        wrong = 0
        for clearing in _newest(which, last) if last else [_found(which)]:
            faults = receipts.faults(clearing)
            wrong += bool(faults)
            self.stdout.write(_sentence(clearing, faults))
        if wrong:
            sys.exit(1)


def _found(which: list[str]) -> Clearing:
    rows = Clearing.objects.select_related("cluster")
    if not which[-1].isdecimal() or len(which) > 2:
        raise CommandError(f"{' '.join(which)!r} names no clearing: give CLUSTER NUMBER, such as gemm 42, or an id.")
    named = {"pk": int(which[0])} if len(which) == 1 else {"cluster__slug": which[0], "number": int(which[1])}
    clearing = rows.filter(**named).first()
    if clearing is None:
        raise CommandError(
            f"There is no receipt {' '.join(which)}. A tick that changed nothing leaves none; the admin lists them all."
        )
    return clearing


def _newest(which: list[str], last: int) -> list[Clearing]:
    rows = Clearing.objects.select_related("cluster").filter(cluster__slug=which[0], keeps_roles=True)
    found = list(rows.order_by("-number")[: max(last, 0)])
    if len(which) != 1 or not found:
        raise CommandError(f"{' '.join(which)!r} is no cluster with receipts that keep their roles.")
    return found


def _sentence(clearing: Clearing, faults: list[str]) -> str:
    name = f"Receipt {clearing.number} of {clearing.cluster.slug}, {clearing.at.isoformat()}"
    if not faults:
        return f"{name}: recomputed, book and result are the same."
    return "\n  ".join([f"{name}: does not hold.", *faults])


def _shown(clearing: Clearing) -> dict[str, Any]:
    receipt = receipts.of(clearing.cluster, clearing.number)
    assert receipt is not None
    return receipts.public(receipt) | {
        "id": clearing.pk,
        "watermark": clearing.watermark,
        "book_hash": clearing.book_hash,
        "keeps_roles": clearing.keeps_roles,
    }
