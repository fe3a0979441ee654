"""Receipts: what everybody may see of a recorded clearing, and the clearing made once more from history.

A receipt keeps no book. Its bids are those rows of the append-only history that were open in the database snapshot in
which the tick read them; what the jobs were besides their bids stands in `Role`; supply, base and cap stand in the
receipt itself. Together they are the book, which a salted hash confirms.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from django.db import connection
from django.db.models import Q

from laissez.clock import microseconds, rfc3339
from markets.engine.book import Book, Offer
from markets.engine.clearing import RULES
from markets.engine.clearing import Clearing as EngineClearing
from markets.engine.floor import TableRow, TypeOffer
from markets.engine.money import format_price, parse_price
from markets.engine.roles import Role as EngineRole
from markets.engine.roles import participants
from markets.models import Clearing, Role
from workers.models import AcceleratorType, Cluster, Job

RULE_VERSION = 1


def hash_of(salt: str, book: Book) -> str:
    """What a receipt keeps of its book. Without the salt nobody can try books until one fits."""
    return sha256((salt + repr(book)).encode()).hexdigest()


def receipt_of(offer: Offer, result: EngineClearing) -> dict[str, Any]:
    """What one type's price came from. The losing bid that set it is the price itself; its owner is not named."""
    price = result.prices[offer.type]
    return {
        "supply": offer.supply,
        "base_price_per_hour": format_price(offer.base),
        "cap_price_per_hour": format_price(offer.cap),
        "price_per_hour": format_price(price.public),
        "lease_price_per_hour": format_price(price.lease),
        "set_by": "base price" if price.setter is None else "losing bid",
        "accepted": price.accepted,
        "rejected": price.rejected,
    }


def terms_of(role: EngineRole) -> dict[str, Any]:
    """A role as its row keeps it: only what applies."""
    return {name: list(value) if name == "closed" else value for name, value in asdict(role).items() if value}


# What everybody sees


@dataclass(frozen=True, slots=True)
class Receipt:
    """One recorded clearing, with the numbers of its neighbours in the cluster."""

    clearing: Clearing
    previous: int | None
    next: int | None

    @property
    def types(self) -> Mapping[str, Mapping[str, Any]]:
        """Per accelerator type what its price came from."""
        found: Mapping[str, Mapping[str, Any]] = self.clearing.receipt
        return found


def of(cluster: Cluster, number: int) -> Receipt | None:
    """The receipt with this number; None if that tick changed nothing or never was."""
    rows = Clearing.objects.filter(cluster=cluster)
    clearing = rows.filter(number=number).select_related("cluster").first()
    if clearing is None:
        return None
    return Receipt(
        clearing=clearing,
        previous=rows.filter(number__lt=number).order_by("-number").values_list("number", flat=True).first(),
        next=rows.filter(number__gt=number).order_by("number").values_list("number", flat=True).first(),
    )


def public(receipt: Receipt) -> dict[str, Any]:
    """A receipt as JSON. Neither the hash nor the watermark is in it: they are for whoever keeps the books."""
    clearing = receipt.clearing
    return {
        "cluster": clearing.cluster.slug,
        "number": clearing.number,
        "at": rfc3339(clearing.at),
        "rule": clearing.rule,
        "rule_version": clearing.rule_version,
        "currency": "USD",
        "types": [{"accelerator_type": slug, **figures} for slug, figures in sorted(receipt.types.items())],
        "previous": receipt.previous,
        "next": receipt.next,
    }


# The clearing once more


def faults(clearing: Clearing) -> list[str]:
    """What differs when a clearing is made once more from history, as sentences. Empty: the receipt stands."""
    if not clearing.keeps_roles:
        return ["It was recorded before roles were kept: its book cannot be rebuilt."]
    if clearing.rule not in RULES or clearing.rule_version != RULE_VERSION:
        known = f"{', '.join(sorted(RULES))} in version {RULE_VERSION}"
        return [f"It was cleared by {clearing.rule} in version {clearing.rule_version}; known here: {known}."]
    try:
        book = book_of(clearing)
    except (KeyError, TypeError, ValueError) as error:
        return [f"Its book cannot be rebuilt: {type(error).__name__}: {error}."]
    found = [] if hash_of(clearing.salt, book) == clearing.book_hash else [_unlike(book)]
    result = RULES[clearing.rule](book)
    slugs = dict(AcceleratorType.objects.filter(cluster=clearing.cluster_id).values_list("pk", "slug"))
    again = {slugs[offer.type]: receipt_of(offer, result) for offer in book.offers}
    return [*found, *_differences(clearing.receipt, again)]


def _unlike(book: Book) -> str:
    rows = sum(len(each.rows) for each in book.participants)
    return (
        f"The book rebuilt from history ({len(book.offers)} types, {len(book.participants)} participants, {rows} bids)"
        " is not the one whose hash was recorded."
    )


def _differences(recorded: Mapping[str, Mapping[str, Any]], again: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"{slug}: {name} is recorded as {recorded[slug].get(name)}, cleared again it is {value}."
        for slug, figures in sorted(again.items())
        for name, value in figures.items()
        if recorded[slug].get(name) != value
    ]


def book_of(clearing: Clearing) -> Book:
    """The book that a clearing read, from history."""
    ids = dict(AcceleratorType.objects.filter(cluster=clearing.cluster_id).values_list("slug", "pk"))
    offers = sorted(
        (_offer(ids[slug], figures) for slug, figures in clearing.receipt.items()), key=lambda one: one.type
    )
    types = {offer.type: TypeOffer(offer.type, offer.base, offer.cap) for offer in offers}
    roles = _roles(clearing)
    tenants = dict(Job.objects.filter(pk__in=roles).values_list("pk", "tenant_id"))
    tables = _tables(clearing, list(roles))
    return Book(
        offers=tuple(offers),
        participants=tuple(
            participant
            for job, role in sorted(roles.items())
            for participant in participants(job, tenants[job], tables[job], role, types)
        ),
    )


def _offer(type_id: int, figures: Mapping[str, Any]) -> Offer:
    base, cap = figures["base_price_per_hour"], figures["cap_price_per_hour"]
    return Offer(type_id, int(figures["supply"]), parse_price(base), parse_price(cap))


def _roles(clearing: Clearing) -> dict[int, EngineRole]:
    in_force = Q(until_number__isnull=True) | Q(until_number__gt=clearing.number)
    rows = Role.objects.filter(in_force, cluster=clearing.cluster_id, from_number__lte=clearing.number)
    return {job: role_from(terms) for job, terms in rows.values_list("job_id", "terms")}


def role_from(terms: Mapping[str, Any]) -> EngineRole:
    """A role from what its row keeps."""
    return EngineRole(**{**terms, "closed": tuple(terms.get("closed", ()))})


_BIDS = """
    SELECT job_id, type_id, max_price_per_hour, keep_price_per_hour, accepted_at FROM markets_bid
    WHERE cluster_id = %(cluster)s AND job_id = ANY(%(jobs)s)
      AND opened_in < pg_snapshot_xmax(%(seen)s::pg_snapshot)::text::bigint
      AND (closed_in IS NULL OR closed_in >= pg_snapshot_xmin(%(seen)s::pg_snapshot)::text::bigint)
      AND pg_visible_in_snapshot(opened_in::text::xid8, %(seen)s::pg_snapshot)
      AND (closed_in IS NULL OR NOT pg_visible_in_snapshot(closed_in::text::xid8, %(seen)s::pg_snapshot))
    ORDER BY job_id, position
"""


def _tables(clearing: Clearing, jobs: list[int]) -> dict[int, list[TableRow]]:
    """The launch tables as the tick read them. Cool-downs are part of the roles."""
    tables: dict[int, list[TableRow]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_BIDS, {"cluster": clearing.cluster_id, "jobs": jobs, "seen": clearing.watermark})
        for job, type_id, highest, keep, accepted_at in cursor.fetchall():
            tables[job].append(TableRow(type_id, highest, keep, microseconds(accepted_at)))
    return tables
