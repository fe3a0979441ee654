"""These tests commit, and make many users."""

from typing import Any

import pytest

from tests.flushing import flush_past_triggers

__all__ = ["flush_past_triggers"]


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    """Hashing a password takes long on purpose, which no test here is about."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
