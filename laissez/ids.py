"""Public ids: a prefix that names the kind, and enough chance that nobody guesses another tenant's."""

import os
from collections.abc import Iterator

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


def new_ids(prefix: str, *, at_once: int) -> Iterator[str]:
    """As many as are asked for, each as `new_id` gives them; the chance for so many of them is drawn together."""
    while True:
        letters = os.urandom(_DRAWN * at_once).translate(_LETTERS, _UNEVEN).decode()
        for start in range(0, len(letters) - _LENGTH + 1, _LENGTH):
            yield f"{prefix}_{letters[start : start + _LENGTH]}"
