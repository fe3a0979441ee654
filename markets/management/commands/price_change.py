"""`manage.py price_change announce gemm nvidia-a10 --base 0.7 --cap 2.0 --at TIME ...`; and `list`, `cancel`."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.clock import rfc3339
from laissez.errors import Refused
from laissez.events import transact
from markets.engine.money import format_price, parse_price
from markets.models import PriceChange
from markets.services import announcing
from workers.models import AcceleratorType

ACTOR = "manage.py price_change"


class Command(BaseCommand):
    """Announces base and cap prices, lists announcements, and cancels one before it is in force."""

    help = "Announce a type's base and cap price for a later time, list announced changes, or cancel one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do."""
        acts = parser.add_subparsers(dest="act", required=True)
        announce = acts.add_parser("announce", help="announce new prices of a type")
        announce.add_argument("cluster")
        announce.add_argument("type")
        announce.add_argument("--base", required=True, type=_price, help="dollars per accelerator-hour")
        announce.add_argument("--cap", required=True, type=_price, help="dollars per accelerator-hour")
        announce.add_argument("--at", required=True, type=_time, help="RFC 3339 time, such as 2026-12-01T00:00:00Z")
        announce.add_argument("--reason", required=True, help="why; kept in the audit trail")
        announce.add_argument("--reason-class", default="other", choices=PriceChange.ReasonClass.values)
        announce.add_argument("--version", type=int, help="refuse unless the prices are at this version")
        acts.add_parser("list", help="every change that is scheduled")
        cancel = acts.add_parser("cancel", help="take a scheduled change back")
        cancel.add_argument("change", metavar="PRICE_CHANGE")
        cancel.add_argument("--reason", required=True, help="why; kept in the audit trail")

    def handle(self, *_args: Any, act: str, **options: Any) -> None:
        """Do it, through the service."""
        try:
            self.stdout.write({"announce": _announce, "list": _list, "cancel": _cancel}[act](options))
        except Refused as refusal:
            raise CommandError("\n".join(fault.detail for fault in refusal.faults)) from refusal


def _announce(options: dict[str, Any]) -> str:
    rows = AcceleratorType.objects.filter(cluster__slug=options["cluster"], slug=options["type"])
    row = rows.select_related("cluster").first()
    if row is None:
        raise CommandError(f"There is no type {options['type']!r} in a cluster {options['cluster']!r}.")
    change = transact(
        lambda outbox: announcing.announce_prices(
            row,
            base=options["base"],
            cap=options["cap"],
            effective_at=options["at"],
            reason_class=options["reason_class"],
            actor=ACTOR,
            reason=options["reason"],
            expected_version=row.version if options["version"] is None else options["version"],
            outbox=outbox,
        )
    )
    return _line(change)


def _list(_options: dict[str, Any]) -> str:
    rows = PriceChange.objects.filter(state=PriceChange.State.SCHEDULED).select_related("type__cluster")
    return "\n".join(_line(row) for row in rows.order_by("effective_at", "id")) or "No change is scheduled."


def _cancel(options: dict[str, Any]) -> str:
    found = PriceChange.objects.filter(public_id=options["change"]).select_related("type__cluster").first()
    if found is None:
        raise CommandError(f"There is no price change {options['change']!r}; `price_change list` names them.")
    return _line(
        transact(
            lambda outbox: announcing.cancel_price_change(found, actor=ACTOR, reason=options["reason"], outbox=outbox)
        )
    )


def _line(change: PriceChange) -> str:
    prices = f"base ${format_price(change.base_price_per_hour)}/h, cap ${format_price(change.cap_price_per_hour)}/h"
    where = f"{change.type.cluster.slug}/{change.type.slug}"
    return f"{change.public_id}  {where}  {prices}  at {rfc3339(change.effective_at)}  {change.state}"


def _price(text: str) -> int:
    try:
        return parse_price(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{error}") from None


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} is not a time with its zone, such as 2026-12-01T00:00:00Z")
    return moment
