"""What an economic agent is told and what it may answer, as values and as JSON (schema 1).

A context holds the job's own state and the public exchange, never another tenant's bids. Prices are Decimal dollars
per accelerator-hour, shares of work are between 0 and 1, durations are seconds, hours are for the whole job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, cast, get_args

from laissez.sdk.wire import Members, price_text, read_list, read_mapping, read_price

SCHEMA = 1
REASON_LIMIT = 500

State = Literal["queued", "running"]
Cause = Literal["heartbeat", "notice", "award", "hand_over", "price", "checkpoint", "submitted"]
Kind = Literal["stay", "rebid", "migrate", "checkpoint", "stop"]
Moment = Literal["now", "checkpoint"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the job's launch table. max_price_per_hour None bids the cap; keep None means the same as max."""

    accelerator_type: str
    max_price_per_hour: Decimal | None
    keep_price_per_hour: Decimal | None = None
    expected_hours: Decimal | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "row") -> "Row":
        """Read a row; ValueError names what is wrong."""
        members = Members(value, path)
        row = cls(
            accelerator_type=members.text("accelerator_type"),
            max_price_per_hour=members.read("max_price_per_hour", _bid),
            keep_price_per_hour=members.read("keep_price_per_hour", _optional_bid, default=None),
            expected_hours=members.optional_number("expected_hours"),
        )
        members.done()
        return row

    def to_json(self) -> dict[str, object]:
        """Write the row."""
        return {
            "accelerator_type": self.accelerator_type,
            "max_price_per_hour": _bid_text(self.max_price_per_hour),
            "keep_price_per_hour": None if self.keep_price_per_hour is None else price_text(self.keep_price_per_hour),
            "expected_hours": None if self.expected_hours is None else str(self.expected_hours),
        }


@dataclass(frozen=True, slots=True)
class Quote:
    """One row of the exchange."""

    price_per_hour: Decimal
    base_price_per_hour: Decimal
    cap_price_per_hour: Decimal
    units_free: int
    units_total: int
    scheduled_base_price_per_hour: Decimal | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "quote") -> "Quote":
        """Read a quote; ValueError names what is wrong."""
        members = Members(value, path)
        quote = cls(
            price_per_hour=members.price("price_per_hour"),
            base_price_per_hour=members.price("base_price_per_hour"),
            cap_price_per_hour=members.price("cap_price_per_hour"),
            units_free=members.count("units_free"),
            units_total=members.count("units_total"),
            scheduled_base_price_per_hour=members.optional_price("scheduled_base_price_per_hour"),
        )
        members.done()
        return quote

    def to_json(self) -> dict[str, object]:
        """Write the quote."""
        scheduled = self.scheduled_base_price_per_hour
        return {
            "price_per_hour": price_text(self.price_per_hour),
            "base_price_per_hour": price_text(self.base_price_per_hour),
            "cap_price_per_hour": price_text(self.cap_price_per_hour),
            "units_free": self.units_free,
            "units_total": self.units_total,
            "scheduled_base_price_per_hour": None if scheduled is None else price_text(scheduled),
        }


@dataclass(frozen=True, slots=True)
class Notice:
    """The open notice on the unit that the job runs on."""

    reason: str
    deadline_seconds: Decimal

    @classmethod
    def from_json(cls, value: object, path: str = "notice") -> "Notice":
        """Read a notice; ValueError names what is wrong."""
        members = Members(value, path)
        notice = cls(reason=members.text("reason"), deadline_seconds=members.number("deadline_seconds"))
        members.done()
        return notice

    def to_json(self) -> dict[str, object]:
        """Write the notice."""
        return {"reason": self.reason, "deadline_seconds": float(self.deadline_seconds)}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the job since the last decision; at is RFC 3339."""

    type: str
    at: str
    data: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object, path: str = "event") -> "Event":
        """Read an event; ValueError names what is wrong."""
        members = Members(value, path)
        event = cls(members.text("type"), members.text("at"), members.read("data", _object, default={}))
        members.done()
        return event

    def to_json(self) -> dict[str, object]:
        """Write the event."""
        return {"type": self.type, "at": self.at, "data": dict(self.data)}


@dataclass(frozen=True, slots=True)
class Context:
    """Everything an agent may look at for one decision.

    holds: the type of the unit the job runs on. destination: the type of the unit it is moving to, already paid for.
    award: the type it has won and waits for. moving: an earlier migrate decision has not happened yet.
    stated: the max prices as the tenant submitted them, None for the cap. stale: the exchange has not ticked lately.
    """

    job: str
    state: State
    now: str
    elapsed_seconds: Decimal
    progress: Decimal
    last_checkpoint: Decimal
    cause: Cause
    rows: tuple[Row, ...]
    stated: Mapping[str, Decimal | None]
    exchange: Mapping[str, Quote]
    checkpoint_seconds: Decimal | None = None
    holds: str | None = None
    destination: str | None = None
    award: str | None = None
    moving: bool = False
    notice: Notice | None = None
    budget_left: Decimal | None = None
    events: tuple[Event, ...] = ()
    stale: bool = False

    def row(self, accelerator_type: str | None) -> Row | None:
        """Return the launch-table row of a type, if there is one."""
        return next((row for row in self.rows if row.accelerator_type == accelerator_type), None)

    @classmethod
    def from_json(cls, value: object) -> "Context":
        """Read a context; ValueError names what is wrong."""
        members = Members(value, "context")
        if members.count("schema") != SCHEMA:
            raise ValueError(f"context.schema: expected {SCHEMA}")
        context = cls(
            job=members.text("job"),
            state=cast(State, members.choice("state", get_args(State))),
            now=members.text("now"),
            elapsed_seconds=members.number("elapsed_seconds"),
            progress=members.read("progress", _share),
            last_checkpoint=members.read("last_checkpoint", _share),
            checkpoint_seconds=members.optional_number("checkpoint_seconds"),
            cause=cast(Cause, members.choice("cause", get_args(Cause))),
            rows=members.read("rows", lambda rows, path: read_list(rows, path, Row.from_json)),
            stated=members.read("stated", lambda stated, path: read_mapping(stated, path, _bid)),
            holds=members.optional_text("holds"),
            destination=members.optional_text("destination"),
            award=members.optional_text("award"),
            moving=members.flag("moving", default=False),
            notice=members.read("notice", _optional_notice, default=None),
            exchange=members.read("exchange", lambda quotes, path: read_mapping(quotes, path, Quote.from_json)),
            budget_left=members.optional_number("budget_left"),
            events=members.read("events", lambda events, path: read_list(events, path, Event.from_json), default=()),
            stale=members.flag("stale", default=False),
        )
        members.done()
        return context

    def to_json(self) -> dict[str, object]:
        """Write the context."""
        return {
            "schema": SCHEMA,
            "job": self.job,
            "state": self.state,
            "now": self.now,
            "elapsed_seconds": float(self.elapsed_seconds),
            "progress": float(self.progress),
            "last_checkpoint": float(self.last_checkpoint),
            "checkpoint_seconds": None if self.checkpoint_seconds is None else float(self.checkpoint_seconds),
            "cause": self.cause,
            "rows": [row.to_json() for row in self.rows],
            "stated": {name: _bid_text(bid) for name, bid in self.stated.items()},
            "holds": self.holds,
            "destination": self.destination,
            "award": self.award,
            "moving": self.moving,
            "notice": None if self.notice is None else self.notice.to_json(),
            "exchange": {name: quote.to_json() for name, quote in self.exchange.items()},
            "budget_left": None if self.budget_left is None else str(self.budget_left),
            "events": [event.to_json() for event in self.events],
            "stale": self.stale,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """What the agent wants. bids set the max prices of the named rows and may accompany any kind but stop.

    stay: go on. rebid: go on with these bids. migrate: leave the present unit, now or at the next checkpoint.
    checkpoint: save soon and go on. stop: save, end, and stay stopped until resumed.
    """

    kind: Kind
    bids: Mapping[str, Decimal] = field(default_factory=dict)
    moment: Moment = "checkpoint"
    reason: str = ""

    @classmethod
    def from_json(cls, value: object) -> "Decision":
        """Read a decision; ValueError names what is wrong."""
        members = Members(value, "decision")
        decision = cls(
            kind=cast(Kind, members.choice("kind", get_args(Kind))),
            bids=members.read("bids", lambda bids, path: read_mapping(bids, path, _price), default={}),
            moment=cast(Moment, members.choice("moment", get_args(Moment), default="checkpoint")),
            reason=members.text("reason", default="")[:REASON_LIMIT],
        )
        members.done()
        if decision.kind == "stop" and decision.bids:
            raise ValueError("decision.bids: a job that stops bids nothing")
        if decision.kind == "rebid" and not decision.bids:
            raise ValueError("decision.bids: a rebid names at least one row")
        return decision

    def to_json(self) -> dict[str, object]:
        """Write the decision."""
        return {
            "kind": self.kind,
            "bids": {name: price_text(bid) for name, bid in self.bids.items()},
            "moment": self.moment,
            "reason": self.reason,
        }


def _price(value: object, path: str) -> Decimal:
    try:
        return read_price(value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _bid(value: object, path: str) -> Decimal | None:
    return None if value == "cap" else _price(value, path)


def _optional_bid(value: object, path: str) -> Decimal | None:
    return None if value is None else _price(value, path)


def _bid_text(bid: Decimal | None) -> str:
    return "cap" if bid is None else price_text(bid)


def _share(value: object, path: str) -> Decimal:
    try:
        share = Members({"share": value}, path).number("share")
    except ValueError as error:
        raise ValueError(str(error).replace(f"{path}.share", path)) from None
    if share > 1:
        raise ValueError(f"{path}: expected a share between 0 and 1, got {share}")
    return share


def _object(value: object, path: str) -> Mapping[str, object]:
    return read_mapping(value, path, lambda item, _: item)


def _optional_notice(value: object, path: str) -> Notice | None:
    return None if value is None else Notice.from_json(value, path)
