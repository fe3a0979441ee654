"""The detector of I16: the newest receipts of every cluster are what the recorded inputs come to."""

from collections.abc import Iterator

from laissez.invariants import Inspection
from markets.models import Clearing
from markets.selectors import receipts
from tenants.models import CurrentTransaction
from workers.models import Cluster

NEWEST = 5


def _wrong() -> Iterator[str]:
    for cluster in Cluster.objects.order_by("id"):
        # What an earlier release recorded only that release could judge.
        rows = Clearing.objects.filter(cluster=cluster, keeps_roles=True, rule_version=receipts.RULE_VERSION)
        # What this very transaction has recorded it cannot judge: its own bids are not history yet.
        finished = rows.exclude(recorded_in=CurrentTransaction())
        for clearing in finished.order_by("-number")[:NEWEST]:
            for fault in receipts.faults(clearing):
                yield f"receipt {clearing.number} of {cluster.slug} does not hold: {fault}"


def detectors() -> list[Inspection]:
    """What must hold of receipts."""
    return [Inspection(id="I16", look=_wrong)]
