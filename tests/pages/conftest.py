"""Passwords of tests are hashed quickly; the browser's tests commit, and end with empty tables.

An empty market stands for a whole module, whose tests undo what they do.
"""

from collections.abc import Iterator
from copy import deepcopy

import pytest
from django.test import override_settings
from pytest_django.plugin import DjangoDbBlocker

from tests.flushing import flush_past_triggers, standing
from tests.pages.floor import Floor, make_floor

__all__ = ["flush_past_triggers"]


@pytest.fixture(scope="module", autouse=True)
def quick_passwords() -> Iterator[None]:
    """The real hasher is slow on purpose."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="module")
def untouched_floor(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Floor]:
    """One for all tests of a module."""
    with standing(django_db_blocker):
        yield make_floor()


@pytest.fixture
def floor(untouched_floor: Floor) -> Floor:
    """An empty market, ticked once."""
    return deepcopy(untouched_floor)
