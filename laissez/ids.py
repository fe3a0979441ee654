"""Public ids: a prefix that names the kind, and enough chance that nobody guesses another tenant's."""

import os

_ALPHABET = "0123456789abcdefghijkmnpqrstuvwxyz"
_LENGTH = 20
_LETTERS = bytes(ord(_ALPHABET[byte % len(_ALPHABET)]) for byte in range(256))
_UNEVEN = bytes(range(256 - 256 % len(_ALPHABET), 256))
"""Bytes above the last whole run of the alphabet: with them, some letters would be likelier than others."""

_DRAWN = 40
"""Bytes: with so many, one draw is as good as always enough."""


def new_id(prefix: str) -> str:
    """A fresh opaque id such as `job_4k9…`: 20 characters of a 34-letter alphabet, about 101 bits.

    Args:
        prefix: the kind of thing, e.g. `job`, `bid`, `lse`.
    """
    letters = b""
    while len(letters) < _LENGTH:
        letters = os.urandom(_DRAWN).translate(_LETTERS, _UNEVEN)
    return f"{prefix}_{letters[:_LENGTH].decode()}"
