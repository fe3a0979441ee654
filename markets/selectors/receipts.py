"""Receipts: what everybody may see of a recorded clearing, and the clearing made once more from history.

A receipt keeps no book. Its bids are those rows of the append-only history that were open in the database snapshot in
which the tick read them; what the jobs were besides their bids stands in `Role`; supply, base and cap stand in the
receipt itself. Together they are the book, which a salted hash confirms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from laissez.bulk import Integer, Table, fetch_one
from laissez.clock import rfc3339
from markets.engine.book import NONE, OFFER, Book, IntArray, Records, record
from markets.engine.clearing import RULES
from markets.engine.clearing import Clearing as EngineClearing
from markets.engine.money import format_price, parse_price
from markets.engine.roles import ROLE, Roles, book_from
from markets.models import Clearing
from markets.selectors import roles
from markets.selectors.floor import BIDS, places_of, rows_of
from workers.models import AcceleratorType, Cluster

RULE_VERSION = 2
"""1 hashed books as text; 2 hashes their arrays."""


def hash_of(salt: str, book: Book) -> str:
    """What a receipt keeps of its book. Without the salt nobody can try books until one fits."""
    digest = sha256(salt.encode())
    for array in (book.offers, book.participants, book.starts, book.rows):
        digest.update(b"%d:" % array.nbytes)
        digest.update(np.ascontiguousarray(array).view("<i8").data)
    return digest.hexdigest()


def receipt_of(offer: Mapping[str, int], result: EngineClearing) -> dict[str, Any]:
    """What one type's price came from. The losing bid that set it is the price itself; its owner is not named."""
    price = result.prices[offer["type"]]
    return {
        "supply": offer["supply"],
        "base_price_per_hour": format_price(offer["base"]),
        "cap_price_per_hour": format_price(offer["cap"]),
        "price_per_hour": format_price(price.public),
        "lease_price_per_hour": format_price(price.lease),
        "set_by": "base price" if price.setter is None else "losing bid",
        "accepted": price.accepted,
        "rejected": price.rejected,
    }


def receipts_of(result: EngineClearing, slugs: Mapping[int, str]) -> dict[str, dict[str, Any]]:
    """The receipts of all types of a clearing, by their names."""
    names = OFFER.names or ()
    offers = [dict(zip(names, offer, strict=True)) for offer in result.book.offers.tolist()]
    return {slugs[offer["type"]]: receipt_of(offer, result) for offer in offers}


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
        return [f"It was recorded by {clearing.rule} in version {clearing.rule_version}; known here: {known}."]
    try:
        book = book_of(clearing)
    except (KeyError, TypeError, ValueError) as error:
        return [f"Its book cannot be rebuilt: {type(error).__name__}: {error}."]
    found = [] if hash_of(clearing.salt, book) == clearing.book_hash else [_unlike(book)]
    result = RULES[clearing.rule](book, None)
    slugs = dict(AcceleratorType.objects.filter(cluster=clearing.cluster_id).values_list("pk", "slug"))
    return [*found, *_differences(clearing.receipt, receipts_of(result, slugs))]


def _unlike(book: Book) -> str:
    return (
        f"The book rebuilt from history ({len(book.offers)} types, {len(book.participants)} participants, "
        f"{len(book.rows)} bids) is not the one whose hash was recorded."
    )


def _differences(recorded: Mapping[str, Mapping[str, Any]], again: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"{slug}: {name} is recorded as {recorded[slug].get(name)}, cleared again it is {value}."
        for slug, figures in sorted(again.items())
        for name, value in figures.items()
        if recorded[slug].get(name) != value
    ]


# Bids of the cluster that were open in the snapshot. Most are older than all that ran in it, which costs less to see.
_SEEN = """
    FROM markets_bid AS it,
        (SELECT pg_snapshot_xmin(seen)::text::bigint AS low, pg_snapshot_xmax(seen)::text::bigint AS high, seen
         FROM (SELECT %(seen)s::pg_snapshot AS seen) AS given) AS snapshot
    WHERE it.cluster_id = %(cluster)s
      AND it.opened_in < high AND (it.opened_in < low OR pg_visible_in_snapshot(it.opened_in::text::xid8, seen))
      AND (it.closed_in IS NULL OR it.closed_in >= low)
      AND (it.closed_in IS NULL OR it.closed_in >= high OR NOT pg_visible_in_snapshot(it.closed_in::text::xid8, seen))
"""
_JOBS = Table(Integer("id", "it.id"), Integer("tenant", "it.tenant_id"))
_OWNERS = "FROM workers_job AS it WHERE it.cluster_id = %(cluster)s AND it.id = ANY(%(jobs)s::bigint[])"
_OWNER = record("id", "tenant")


def book_of(clearing: Clearing) -> Book:
    """The book that a clearing read, from history."""
    offers = _offers(clearing)
    kept = roles.in_force(clearing.cluster_id, clearing.number)
    terms = kept.terms[kept.terms["absent"] == 0]
    bids = _bids(clearing, kept.terms["job"][kept.terms["absent"] == 1])
    jobs = _owners(clearing, np.union1d(bids["job"], terms["job"]))
    starts = np.append(np.searchsorted(bids["job"], jobs["id"]), len(bids))
    rows = rows_of(bids, _places(offers, bids["type"]))
    parts = np.full(len(jobs), NONE, dtype=ROLE)
    parts["seeks"] = 0
    places = places_of(terms["job"], jobs["id"])
    parts["seeks"][places] = terms["seeks"]
    for name in ("on", "to", "award"):
        parts[name][places] = _places(offers, terms[name])
    closed = np.zeros(len(bids), dtype=np.bool_)
    for job, type_id in kept.closed:
        low, high = np.searchsorted(bids["job"], (job, job + 1))
        closed[low:high] |= bids["type"][low:high] == type_id
    return book_from(offers, jobs, starts, rows, Roles(parts, closed))


def _offers(clearing: Clearing) -> Records:
    ids = dict(AcceleratorType.objects.filter(cluster=clearing.cluster_id).values_list("slug", "pk"))
    offers = [
        (
            ids[slug],
            int(figures["supply"]),
            parse_price(figures["base_price_per_hour"]),
            parse_price(figures["cap_price_per_hour"]),
        )
        for slug, figures in clearing.receipt.items()
    ]
    return np.array(sorted(offers), dtype=OFFER)


def _bids(clearing: Clearing, absent: IntArray) -> Records:
    """The bids that the clearing read, by job and place in its launch table."""
    parameters = {"cluster": clearing.cluster_id, "seen": clearing.watermark}
    bids = BIDS.records(fetch_one(f"SELECT {BIDS.select(_SEEN)}", parameters)[0])
    bids = bids[~np.isin(bids["job"], absent)]
    return bids[np.lexsort((bids["position"], bids["job"]))]


def _owners(clearing: Clearing, jobs: IntArray) -> Records:
    """These jobs with their tenants, by id."""
    parameters = {"cluster": clearing.cluster_id, "jobs": jobs.tolist()}
    owners = _JOBS.records(fetch_one(f"SELECT {_JOBS.select(_OWNERS)}", parameters)[0])
    if len(owners) != len(jobs):
        raise ValueError(f"of {len(jobs)} jobs that were in it {len(owners)} are there")
    return owners[np.argsort(owners["id"])].astype(_OWNER)


def _places(offers: Records, types: IntArray) -> IntArray:
    """Where types stand among the offers; NONE stays."""
    places = places_of(types, offers["type"])
    if np.any((places == NONE) & (types != NONE)):
        raise ValueError("a bid or a role names a type that was not offered")
    return places
