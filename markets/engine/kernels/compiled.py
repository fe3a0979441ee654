"""How the loops are compiled: once for the whole installation, at first use or by `python -m markets.engine.kernels`.

The machine code is kept beside the source, or in the user's cache folder where that cannot be written to; a process
that can write to neither compiles for itself. Files are written under another name and then renamed, so that processes
that compile at the same time do not disturb one another. A loop is compiled again when any file of this folder has
changed, for what it calls from another one is in its machine code too.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import caching, config

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Return the loop as machine code of the same signature; integers are 64 bits wide and wrap around."""
    return _machine_code(loop)


def innermost(loop: Loop) -> Loop:
    """Return a loop that makes no arrays as machine code that does not count references to its arguments either.

    Counting them costs several times as much as a comparison of two rows.
    """
    return _machine_code(loop, _nrt=False)


class Stamped:
    """What tells whether kept machine code is still that of the source."""

    def get_source_stamp(self) -> bytes:
        """Return what changes with any file of this folder."""
        return fingerprint()


class Named(Stamped, caching.UserProvidedCacheLocator):
    """The folder that NUMBA_CACHE_DIR names, if it does."""


class BesideSource(Stamped, caching.InTreeCacheLocator):
    """The folder __pycache__ beside the source."""


class UserWide(Stamped, caching.UserWideCacheLocator):
    """The user's cache folder."""


PLACES = ",".join(f"{place.__module__}.{place.__name__}" for place in (Named, BesideSource, UserWide))


@cache
def fingerprint() -> bytes:
    """Return a hash of every source file of this folder."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).digest()


def _machine_code(loop: Loop, **options: object) -> Loop:
    """Return the loop compiled at its first call, and kept if there is a place for it."""
    settings, machine_code = cast(Any, config), cast(Callable[..., Loop], njit)
    others, settings.CACHE_LOCATOR_CLASSES = settings.CACHE_LOCATOR_CLASSES, PLACES
    try:
        return machine_code(loop, cache=True, **options)
    except RuntimeError:
        return machine_code(loop, **options)
    finally:
        settings.CACHE_LOCATOR_CLASSES = others
