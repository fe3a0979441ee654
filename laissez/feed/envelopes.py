"""An event as everybody gets it, whichever way: CloudEvents 1.0 in JSON, with its number and when it expires."""

from datetime import timedelta
from typing import Any

from laissez.clock import rfc3339
from laissez.feed import vocabulary
from laissez.feed.replay import Recorded


def envelope(event: Recorded, *, retention: timedelta) -> dict[str, Any]:
    """The envelope of an event.

    Args:
        retention: how long events are kept; after that the event can be read no more.
    """
    return {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/streams/{event.stream}",
        "type": event.type,
        "subject": event.subject,
        "time": rfc3339(event.at),
        "datacontenttype": "application/json",
        "dataschema": vocabulary.ADDRESS + event.type,
        "sequence": str(event.seq),
        "expirytime": rfc3339(event.at + retention),
        "data": event.data,
    }
