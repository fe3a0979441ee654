"""What the market tells: prices and supply to everybody, bids, awards, notices and decisions to their holders."""

from laissez.feed.schemas import (
    COUNT,
    FRACTION,
    PRICE,
    TEXT,
    TIME,
    WHOLE,
    Schema,
    list_of,
    one_of,
    or_null,
    record,
)
from laissez.feed.vocabulary import EventType, register
from markets.models import Award, Bid, Notice

PUBLIC, HOLDER, OPERATORS = "public", "holder", "operators"

EXCHANGE: Schema = record(
    accelerator_type=TEXT,
    name=TEXT,
    price_per_hour=or_null(PRICE),
    lease_price_per_hour=or_null(PRICE),
    base_price_per_hour=PRICE,
    cap_price_per_hour=PRICE,
    previous_price_per_hour=or_null(PRICE),
    since=or_null(TIME),
    cause=or_null(TEXT),
    receipt=or_null(COUNT),
    units_total=COUNT,
    units_free=COUNT,
    units_leaving=COUNT,
    waiting_awards=COUNT,
    depth=list_of(COUNT),
)
PRICE_CHANGE: Schema = record(
    price_change=TEXT,
    accelerator_type=TEXT,
    base_price_per_hour=PRICE,
    cap_price_per_hour=PRICE,
    effective_at=TIME,
    policy=TEXT,
    reason_class=TEXT,
    state=TEXT,
)
CLUSTER: Schema = record(cluster=TEXT, name=TEXT)
BID: Schema = record(
    bid=TEXT,
    accelerator_type=TEXT,
    position=COUNT,
    max_price_per_hour={"type": "string", "description": "US dollars per accelerator-hour, or the word cap"},
    keep_price_per_hour=or_null(PRICE),
    set_by=one_of(Bid.Origin.values),
    accepted_at=TIME,
)
AWARD: Schema = record(
    award=TEXT,
    accelerator_type=TEXT,
    state=one_of(Award.State.values),
    since=TIME,
    deadline=TIME,
    lease=or_null(TEXT),
)
NOTICE: Schema = record(
    notice=TEXT,
    lease=TEXT,
    accelerator_type=TEXT,
    reason=one_of(Notice.Reason.values),
    state=one_of(Notice.State.values),
    answer=or_null(one_of(Notice.Answer.values)),
    price_per_hour=or_null(PRICE),
    bid_per_hour=or_null(PRICE),
    opened_at=TIME,
    deadline=TIME,
    closed_at=or_null(TIME),
)
DECIDED: Schema = record(
    kind=TEXT, moment=or_null(TEXT), bids={"type": "object"}, reason=or_null(TEXT), progress=FRACTION
)
AGENT_FAILED: Schema = record(outcome=TEXT, code=TEXT, detail=TEXT, meaning=TEXT, optional=("code",))
UNCOVERED: Schema = record(
    award=TEXT,
    lease=TEXT,
    amount_microdollars=WHOLE,
    due_microdollars=WHOLE,
    charged_microdollars=WHOLE,
    detail=TEXT,
    optional=("award", "lease", "amount_microdollars", "due_microdollars", "charged_microdollars", "detail"),
)

_AWARDS = {
    "handed_over": "The award's device has been handed over.",
    "lost": "Somebody else has won the unit meanwhile.",
    "withdrawn": "Its winner does not want it any more.",
    "lapsed": "No unit has come free in time.",
}
_NOTICES = {
    "answered": "The job has answered: it bids more, has moved, or has left.",
    "withdrawn": "What the notice was about is no longer so.",
    "executed": "The deadline has passed; the job has been told to leave.",
}
_CHANGES = {
    "cancelled": "An announced change of base and cap price will not happen.",
    "in_force": "An announced change of base and cap price is in force.",
}


def _market(word: str, summary: str, schema: Schema, entity: str, **traits: bool) -> EventType:
    return EventType(f"org.laissez.market.{word}.v1", PUBLIC, summary, schema, entity=entity, **traits)


def _holder(word: str, summary: str, schema: Schema, entity: str | None = None, *, removes: bool = False) -> EventType:
    return EventType(f"org.laissez.market.{word}.v1", HOLDER, summary, schema, entity=entity, removes=removes)


register(
    [
        _market("cluster.opened", "A cluster has opened.", CLUSTER, "cluster"),
        _market("type.opened", "A kind of hardware is offered from now on.", EXCHANGE, "exchange"),
        _market(
            "price.changed",
            "The price of a type has moved, or its base or cap price has. Bids are never shown.",
            EXCHANGE,
            "exchange",
            coalesces=True,
        ),
        _market(
            "supply.changed",
            "Units of a type, or the losing bids below its price in buckets, have changed.",
            EXCHANGE,
            "exchange",
            coalesces=True,
        ),
        _market("base_price.scheduled", "A change of base and cap price is announced.", PRICE_CHANGE, "price_change"),
    ]
)
register(
    _market(f"base_price.{word}", summary, PRICE_CHANGE, "price_change", removes=True)
    for word, summary in _CHANGES.items()
)
register(
    [
        _holder("bid.opened", "A row of the launch table stands from now on.", BID, "bid"),
        _holder("bid.closed", "A row of the launch table stands no more.", BID, "bid", removes=True),
        _holder("award.opened", "The job has won a unit, which is not free yet.", AWARD, "award"),
        _holder("notice.opened", "The job is to leave a lease by the deadline, unless that changes.", NOTICE, "notice"),
        _holder("agent.decided", "The job's agent has decided something.", DECIDED),
        _holder("agent.failed", "The agent said nothing usable, or what it wanted was refused: stay.", AGENT_FAILED),
        EventType(
            "org.laissez.ops.charge.uncovered.v1",
            OPERATORS,
            "Something due could not be charged and was waived.",
            UNCOVERED,
        ),
    ]
)
register(_holder(f"award.{word}", summary, AWARD, "award", removes=True) for word, summary in _AWARDS.items())
register(_holder(f"notice.{word}", summary, NOTICE, "notice", removes=True) for word, summary in _NOTICES.items())
