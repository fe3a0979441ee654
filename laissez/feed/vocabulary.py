"""Every type of event, declared once: who it is for, what it says, and the JSON Schema of its data.

Each app declares its own in its module `vocabulary`, which is imported when Django starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from laissez.feed.schemas import Schema

ADDRESS = "/api/v1/schemas/"


class UnknownType(LookupError):
    """An event of a type that nobody has declared."""


class BadData(ValueError):
    """An event whose data is not what its type promises."""


@dataclass(frozen=True, slots=True)
class EventType:
    """One word of the vocabulary.

    Args:
        name: such as `org.laissez.market.lease.active.v1`.
        audience: public, tenant, holder, operators.
        entity: where the data is the whole public row of the event's subject: the kind of row. See `folding`.
        removes: the subject's row leaves the snapshot.
        coalesces: a reader who is behind is served by the newest one per subject.
    """

    name: str
    audience: str
    summary: str
    schema: Schema
    entity: str | None = None
    removes: bool = False
    coalesces: bool = False

    def document(self) -> dict[str, Any]:
        """The published JSON Schema of the data."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": ADDRESS + self.name,
            "title": self.name,
            "description": self.summary,
            **self.schema,
            "x-audience": self.audience,
            "x-entity": self.entity,
            "x-removes": self.removes,
            "x-coalesces": self.coalesces,
        }


_types: dict[str, EventType] = {}


def register(types: Iterable[EventType]) -> None:
    """Declare types. The same name twice is an error unless it says the same."""
    for each in types:
        if _types.setdefault(each.name, each) != each:
            raise ValueError(f"{each.name} is declared twice")


def find(name: str) -> EventType:
    """The type of a name.

    Raises:
        UnknownType: nobody has declared it.
    """
    try:
        return _types[name]
    except KeyError:
        raise UnknownType(f"{name} is not in the vocabulary; declare it in its app's vocabulary.py") from None


def known(name: str) -> EventType | None:
    """The type of a name; None for one from an older or newer version of the product."""
    return _types.get(name)


def all_types() -> Sequence[EventType]:
    """Every type, by name."""
    return [_types[name] for name in sorted(_types)]


def check(name: str, data: Mapping[str, Any]) -> None:
    """Refuse data that its type's schema does not describe, members that it does not name included.

    Raises:
        BadData: with the first fault.
    """
    found = find(name)
    undeclared = sorted(set(data) - set(found.schema.get("properties", {})))
    if undeclared:
        raise BadData(f"{name}: {', '.join(undeclared)} is not in its schema")
    fault = next(iter(_validator(name).iter_errors(dict(data))), None)
    if fault is not None:
        raise BadData(f"{name}: {fault.json_path}: {fault.message}")


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(dict(find(name).schema))
