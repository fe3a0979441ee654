"""Nothing bad is half done: every invariant holds after every test, deferred constraints among them."""

from collections.abc import Iterator

import pytest
from django.db import connection

from tests import soundness


@pytest.fixture(autouse=True)
def sound_afterwards(db: None) -> Iterator[None]:
    """No detector finds anything afterwards."""
    yield
    connection.check_constraints()
    assert soundness.violations() == []
