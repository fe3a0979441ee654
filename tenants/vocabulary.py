"""What a tenant hears of itself: members, tokens and money."""

from laissez.feed.schemas import MONEY, TEXT, Schema, list_of, record
from laissez.feed.vocabulary import EventType, register

TENANT = "tenant"
MOVEMENT: Schema = record(reference=TEXT, amount=MONEY, currency=TEXT)

_MOVEMENTS = {
    "top_up_settled": "Funds have been added.",
    "charge_settled": "Funds have been taken for what was used.",
    "refund_settled": "A charge has been given back.",
    "hold_placed": "Funds are set aside.",
    "hold_resized": "More or less is set aside.",
    "hold_released": "What was set aside is free again.",
}

register(
    [
        EventType("org.laissez.tenant.created.v1", TENANT, "The tenant exists.", record(name=TEXT)),
        EventType("org.laissez.member.added.v1", TENANT, "A person may act for it.", record(user=TEXT, role=TEXT)),
        EventType(
            "org.laissez.member.role_changed.v1",
            TENANT,
            "That person may do other things now.",
            record(user=TEXT, role=TEXT, previous_role=TEXT),
        ),
        EventType(
            "org.laissez.member.removed.v1",
            TENANT,
            "A person may not act for it any more.",
            record(user=TEXT, role=TEXT),
        ),
        EventType(
            "org.laissez.token.rolled.v1",
            TENANT,
            "Another token stands in its place; it ends soon.",
            record(name=TEXT, rolled_into=TEXT, expires_at=TEXT),
        ),
        EventType("org.laissez.token.created.v1", TENANT, "A program may.", record(name=TEXT, scopes=list_of(TEXT))),
        EventType("org.laissez.token.revoked.v1", TENANT, "That token is no good any more.", record(name=TEXT)),
    ]
)
register(EventType(f"org.laissez.ledger.{word}.v1", TENANT, summary, MOVEMENT) for word, summary in _MOVEMENTS.items())
