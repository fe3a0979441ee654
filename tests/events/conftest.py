"""These tests commit, and speak of things that the product does not."""

from laissez.feed.vocabulary import EventType, register
from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]

register(
    EventType(name, "operators", "A test.", {"type": "object", "properties": {"n": {}, "streams": {}}})
    for name in ("org.laissez.test.v1", *(f"type {n}" for n in range(3)), "type")
)
