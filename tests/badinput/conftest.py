"""Nothing bad is half done: every invariant holds after every test, deferred constraints among them.

What a module's tests begin with stands for the whole module; they undo what they do.
"""

from collections.abc import Iterator

import pytest
from django.db import connection

from tests import soundness
from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]


@pytest.fixture(autouse=True)
def sound_afterwards(db: None) -> Iterator[None]:
    """No detector finds anything afterwards."""
    yield
    connection.check_constraints()
    assert soundness.violations() == []
