"""These tests commit; what they tell is declared here."""

from laissez.feed.vocabulary import EventType, register
from tests.feed.told import NOTED, PRICED
from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]

ANYTHING = {"type": "object", "properties": {"n": {"type": "integer"}}}
register(
    [
        EventType(NOTED, "operators", "A test.", ANYTHING),
        EventType(PRICED, "operators", "A test.", ANYTHING, entity="price", coalesces=True),
    ]
)
