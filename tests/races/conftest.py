"""Races commit, on connections of their own; whoever wins, every invariant holds afterwards."""

from collections.abc import Iterator

import pytest

from tests import soundness
from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]


@pytest.fixture(autouse=True)
def sound_afterwards(transactional_db: None) -> Iterator[None]:
    """No detector finds anything once the race is over."""
    yield
    assert soundness.violations() == []
