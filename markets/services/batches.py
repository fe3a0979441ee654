"""Many rows in one transaction and no row in another's way: a batch that fails is split until the bad row is alone."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from django.db import DatabaseError

from laissez.errors import Refused
from laissez.events import Outbox, transact

logger = logging.getLogger(__name__)


def apply(work: Callable[[Sequence[int], Outbox], int], ids: Sequence[int], *, failed: str) -> int:
    """Do `work` with all these rows in one transaction or, where that fails, with each half of them in turn.

    Args:
        work: takes ids and an outbox; returns how many rows it has done something with.
        failed: what to log of a row that fails alone, with one %s for its id.

    Returns:
        The sum of what `work` returned.
    """
    if not ids:
        return 0
    try:
        return transact(partial(work, ids))
    except (DatabaseError, Refused):
        if len(ids) == 1:
            logger.exception(failed, ids[0])
            return 0
    middle = len(ids) // 2
    return apply(work, ids[:middle], failed=failed) + apply(work, ids[middle:], failed=failed)


def of(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """The same ids in the same order, so many at a time."""
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
