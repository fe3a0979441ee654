"""How the loops are compiled: once for the whole installation, at first use or by `python -m markets.engine.kernels`.

Numba keeps the machine code beside the source, or where that is not writable in the user's cache folder; a process that
can write neither compiles for itself. Files are written under another name and renamed, so processes do not disturb
one another.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Return the loop as machine code of the same signature; integers are 64 bits wide and wrap around."""
    return cast(Loop, numba.njit(cache=True)(loop))
