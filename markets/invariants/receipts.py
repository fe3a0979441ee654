"""The detector of I16: the newest receipts of every cluster are what the recorded inputs come to."""

from collections.abc import Iterator

from django.db.models import BooleanField, Func

from laissez.invariants import Inspection
from markets.models import Clearing
from markets.selectors import receipts
from workers.models import Cluster

NEWEST = 5


class _ReadHere(Func):
    """Whether the transaction that asks is the one that read the book: then its own bids are not history yet."""

    template = (
        "coalesce(pg_current_xact_id_if_assigned() IN (SELECT pg_snapshot_xip(%(expressions)s::pg_snapshot)), false)"
    )
    output_field = BooleanField()


def _wrong() -> Iterator[str]:
    for cluster in Cluster.objects.order_by("id"):
        rows = Clearing.objects.filter(cluster=cluster, keeps_roles=True)
        finished = rows.annotate(read_here=_ReadHere("watermark")).filter(read_here=False)
        for clearing in finished.order_by("-number")[:NEWEST]:
            for fault in receipts.faults(clearing):
                yield f"receipt {clearing.number} of {cluster.slug} does not hold: {fault}"


def detectors() -> list[Inspection]:
    """What must hold of receipts."""
    return [Inspection(id="I16", look=_wrong)]
