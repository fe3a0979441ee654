"""The law of the feed: a snapshot and the events after it make the next snapshot. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from laissez.feed import vocabulary

Entities = dict[str, dict[str, Any]]
"""Rows by kind and by subject."""


def fold(entities: Mapping[str, Mapping[str, Any]], events: Iterable[tuple[str, str, Any]]) -> Entities:
    """Apply events to a snapshot's entities.

    Args:
        entities: as a snapshot gives them; left as they are.
        events: (type, subject, data), in the order of their numbers. Types that carry no row change nothing.
    """
    folded = {kind: dict(rows) for kind, rows in entities.items()}
    for name, subject, data in events:
        found = vocabulary.known(name)
        if found is None or found.entity is None:
            continue
        rows = folded.setdefault(found.entity, {})
        if found.removes:
            rows.pop(subject, None)
        else:
            rows[subject] = data
    return folded
