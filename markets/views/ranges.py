"""Which stretch of time a chart shows, from its page's address: `?range=6h`, or `?from=...&to=...`.

Times without an offset are the reader's. A range that cannot be shown is said to be none, and the shortest is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from markets.selectors.prices import LONGEST_RANGE

CHOICES: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
WORDS = {"1h": "the last hour", "6h": "the last 6 hours", "24h": "the last 24 hours", "7d": "the last 7 days"}
DEFAULT = "1h"
YEARS = range(1970, 3000)


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of time. `choice` names one that ends now and goes on; it is empty for one with fixed ends.

    `fault` says what was wrong with what was asked for, empty if nothing was.
    """

    start: datetime
    end: datetime
    choice: str = ""
    fault: str = ""

    @property
    def follows(self) -> bool:
        """Whether it goes on as time does."""
        return bool(self.choice)

    @property
    def query(self) -> str:
        """The same range in an address, whoever reads it there."""
        if self.choice:
            return urlencode({"range": self.choice})
        return urlencode({"from": _utc(self.start), "to": _utc(self.end)})

    @property
    def words(self) -> str:
        """How a sentence calls it."""
        return WORDS.get(self.choice, "this range")


def of(asked: Mapping[str, str], *, now: datetime) -> Range:
    """The range that an address asks for."""
    if asked.get("from") or asked.get("to"):
        return _between(asked.get("from", ""), asked.get("to", ""), now)
    choice = asked.get("range", DEFAULT)
    return _last(choice, now) if choice in CHOICES else _last(DEFAULT, now, f"There is no range {choice[:20]!r}.")


def _between(since: str, until: str, now: datetime) -> Range:
    start, end = _moment(since), _moment(until) if until else now
    if start is None or end is None:
        return _last(DEFAULT, now, "A range needs a time to begin at, such as 2026-03-04T14:00.")
    if start >= end:
        return _last(DEFAULT, now, "A range begins before it ends.")
    if end - start > LONGEST_RANGE:
        return _last(DEFAULT, now, f"A range is at most {LONGEST_RANGE.days} days long.")
    return Range(start, min(end, now)) if start < now else _last(DEFAULT, now, "That range has not begun yet.")


def _last(choice: str, now: datetime, fault: str = "") -> Range:
    return Range(now - CHOICES[choice], now, choice, fault)


def _moment(text: str) -> datetime | None:
    """A time as a person or a program writes it; None where it is none, or so far off that no zone can show it."""
    try:
        found = parse_datetime(text)
        if found is None or found.year not in YEARS:
            return None
        return found if timezone.is_aware(found) else timezone.make_aware(found)
    except ValueError:
        return None


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
