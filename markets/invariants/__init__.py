"""Detectors of the market: `book` of what is quoted, awarded and warned of, `bills` of what leases pay, `receipts`.

They may run at any time. What one transaction changes together is never seen apart. What one process leaves to the
next tick or the next metering is overdue only measured by the cluster's last tick, and by more than those take: an
outage of ticks is reported elsewhere, and what it left undone is done in the first round after it.
"""

from laissez.invariants import Detector, Inspection
from markets.invariants import bills, book, receipts


def detectors() -> list[Detector | Inspection]:
    """What must hold of prices, awards, notices, bills and receipts."""
    return [*book.detectors(), *bills.detectors(), *receipts.detectors()]
