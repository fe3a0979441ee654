"""Words for the JSON Schemas of events: one per kind of value, so that a price looks the same in every type."""

from collections.abc import Iterable, Mapping
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
FRACTION: Schema = {"type": "number", "minimum": 0, "maximum": 1}
TIME: Schema = {"type": "string", "format": "date-time", "description": "RFC 3339, UTC"}
MONEY: Schema = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "description": "US dollars"}
PRICE: Schema = {**MONEY, "description": "US dollars per accelerator-hour"}


def one_of(words: Iterable[str]) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": [str(word) for word in words]}


def or_null(schema: Schema) -> Schema:
    """The same, or null where it is not known or does not apply."""
    kinds = {"type": [schema["type"], "null"]}
    words = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, **kinds, **words}


def list_of(schema: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": dict(schema)}


def record(*, optional: Iterable[str] = (), **properties: Schema) -> Schema:
    """An object with these members, all of them there but the optional ones.

    Readers have to bear members that they do not know: within one version only additions are made.
    """
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": sorted(set(properties) - set(optional)),
    }
