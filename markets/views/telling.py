"""Events of a job's stream in words with their numbers. What is unknown here is told by its type's own words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from laissez.models import Event
from markets.templatetags.figures import dollar_text, dollars, duration, percent, words

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """One event as a line."""

    number: int
    at: datetime
    type: str
    title: str
    detail: str


def all_told(events: Sequence[Event]) -> list[Told]:
    """The lines of some events, newest first. A bid that was closed for its next value is told by that one alone."""
    following = {event.seq: event for event in events}
    return [told(event) for event in events if not _is_replaced(event, following.get(event.seq + 1))]


def _is_replaced(event: Event, following: Event | None) -> bool:
    if following is None or not event.type.endswith(".bid.closed.v1") or not following.type.endswith(".bid.opened.v1"):
        return False
    same_type: bool = event.data.get("accelerator_type") == following.data.get("accelerator_type")
    return same_type and event.at == following.at


def told(event: Event) -> Told:
    """An event's line."""
    area = event.type.removeprefix("org.laissez.market.").removeprefix("org.harmonaize.").rsplit(".v", 1)[0]
    subject, _, change = area.partition(".")
    data: Data = event.data if isinstance(event.data, dict) else {}
    title = f"{words(subject)} {words(change).replace('.', ' ')}".strip().capitalize()
    tell = _DETAILS.get(subject)
    return Told(event.seq, event.at, event.type, title, "" if tell is None else tell(data))


def _job(data: Data) -> str:
    return _joined(words(data.get("reason")), data.get("reason_detail") or data.get("detail"))


def _lease(data: Data) -> str:
    return _joined(data.get("accelerator_type"), words(data.get("reason")))


def _notice(data: Data) -> str:
    price, own = _price(data.get("price_per_hour")), _price(data.get("bid_per_hour"))
    figures = f"price {price} against its own {own}" if price and own else ""
    return _joined(data.get("accelerator_type"), words(data.get("reason")), words(data.get("answer")), figures)


def _award(data: Data) -> str:
    return _joined(data.get("accelerator_type"), words(data.get("state")))


def _migration(data: Data) -> str:
    between = f"{data['from']} to {data['to']}" if data.get("from") and data.get("to") else ""
    return _joined(between, words(data.get("mode")), words(data.get("reason")))


def _checkpoint(data: Data) -> str:
    progress, size, blocked = data.get("progress"), data.get("size_bytes"), data.get("blocking_s", data.get("seconds"))
    return _joined(
        f"at {percent(progress)}" if isinstance(progress, int | float) else "",
        f"{size:,} bytes" if isinstance(size, int) else "",
        f"took {duration(blocked)}" if isinstance(blocked, int | float) else "",
    )


def _agent(data: Data) -> str:
    failed = data.get("outcome")
    said = words(failed) + ", taken for “stay”" if failed else words(data.get("kind"))
    return _joined(said, _bids(data.get("bids")), data.get("reason") or data.get("detail"))


def _bid(data: Data) -> str:
    rows = data.get("rows")
    listed = [_row(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else [_row(data)]
    return _joined(*listed, data.get("set_by") or data.get("origin"))


def _row(row: Data) -> str:
    highest = row.get("max_price_per_hour")
    price = "the cap" if highest == "cap" else _price(highest) or _price(row.get("max_price_microdollars_per_hour"))
    return f"{row.get('accelerator_type') or ''} {price}".strip()


def _bids(bids: object) -> str:
    if not isinstance(bids, dict):
        return ""
    return ", ".join(f"{slug} {dollar_text(price)}" for slug, price in bids.items())


def _price(value: object) -> str:
    """A price however an event carries it: dollars as text, micro-dollars as a number."""
    if isinstance(value, str):
        return dollar_text(value)
    return f"{dollars(value)}/h" if isinstance(value, int) else ""


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


_DETAILS: Mapping[str, Callable[[Data], str]] = {
    "job": _job,
    "lease": _lease,
    "notice": _notice,
    "award": _award,
    "migration": _migration,
    "checkpoint": _checkpoint,
    "agent": _agent,
    "bid": _bid,
}
