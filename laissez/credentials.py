"""Tokens: how they are drawn, recognised and stored. Pure but for the operating system's randomness.

A token is `lz_<kind>_`, 30 random base62 characters and a six-character checksum, so that a mistyped or truncated one
is recognised without a look-up. Only its SHA-256 is stored; 178 random bits need no slow hash.
"""

import logging
import re
import secrets
import string
import zlib
from hashlib import sha256

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_LENGTH = 30
CHECKSUM_LENGTH = 6
SHOWN_LENGTH = 6
ANY_TOKEN = re.compile(r"\b(lz_[a-z]+_[0-9A-Za-z]{6})[0-9A-Za-z]{18,}")


def new_token(kind: str) -> str:
    """A fresh token of a kind ("live" for tenants, "host" for hosts). Show it once and store `digest` of it."""
    body = f"lz_{kind}_{_draw(RANDOM_LENGTH)}"
    return body + _checksum(body)


def is_well_formed(token: str, *, kind: str) -> bool:
    """Whether the text could be a token of that kind: prefix, length, alphabet and checksum are right."""
    prefix = f"lz_{kind}_"
    body, checksum = token[:-CHECKSUM_LENGTH], token[-CHECKSUM_LENGTH:]
    return (
        token.isascii()
        and token.startswith(prefix)
        and len(token) == len(prefix) + RANDOM_LENGTH + CHECKSUM_LENGTH
        and secrets.compare_digest(checksum, _checksum(body))
    )


def digest(token: str) -> str:
    """The token's SHA-256 in hexadecimal: what is stored and looked up."""
    return sha256(token.encode()).hexdigest()


def shown_prefix(token: str) -> str:
    """The beginning of a token, enough to tell two apart in a list and useless to a thief."""
    kind_length = token.index("_", 3) + 1
    return token[: kind_length + SHOWN_LENGTH]


class Redaction(logging.Filter):
    """Leaves no more of a token in a log line than tells it apart: an invitation's is part of an address."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, mended."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):  # logging itself says so, where it writes the line
            return True
        if "lz_" in text:
            record.msg, record.args = ANY_TOKEN.sub(r"\1...", text), ()
        return True


def _draw(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(CHECKSUM_LENGTH):
        number, remainder = divmod(number, len(ALPHABET))
        digits = ALPHABET[remainder] + digits
    return digits
