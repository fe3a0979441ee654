"""Passwords of tests are hashed quickly; the browser's tests commit, and end with empty tables."""

from collections.abc import Iterator

import pytest
from django.test import override_settings

from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]


@pytest.fixture(autouse=True)
def quick_passwords() -> Iterator[None]:
    """The real hasher is slow on purpose."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield
