"""Tests here commit, and end with empty tables."""

from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]
