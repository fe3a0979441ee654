"""Public ids: a prefix that names the kind, and enough chance that nobody guesses another tenant's."""

import secrets

_ALPHABET = "0123456789abcdefghijkmnpqrstuvwxyz"
_LENGTH = 20


def new_id(prefix: str) -> str:
    """A fresh opaque id such as `job_4k9…`: 20 characters of a 34-letter alphabet, about 101 bits.

    Args:
        prefix: the kind of thing, e.g. `job`, `bid`, `lse`.
    """
    chance = secrets.randbelow(len(_ALPHABET) ** _LENGTH)
    letters = []
    for _ in range(_LENGTH):
        chance, place = divmod(chance, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return f"{prefix}_{''.join(letters)}"
