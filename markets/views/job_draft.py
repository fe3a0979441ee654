"""A job as it stands in the form: what was typed, and the submission that it means.

A field is named as its place in the submission's JSON: `rows-0-max_price_per_hour` is `/rows/0/max_price_per_hour`, so
that a fault finds its field by itself. Nothing is judged here: what cannot be read as what the API wants goes into the
submission as it was typed, and the API's own check refuses it.
"""

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rest_framework.exceptions import ParseError

from laissez.bodies import unstorable
from laissez.errors import Fault
from markets.services.bids import CAP

CALLBACKS = ("data_load", "save", "restore")
LIMITS = ("memory_bytes", "processes", "output_bytes", "cpu_seconds")
AGENT_KINDS = ("policy", "class", "command")
WHOLE_NUMBERS = ("heartbeat_seconds", "max_attempts", "queue_timeout_seconds", "seek_seconds")
TEXTS = ("name", "cluster", "artifact", "upgrade", "migration", "budget")
ROW_TEXTS = ("accelerator_type", "max_price_per_hour", "keep_price_per_hour", "expected_hours", "artifact")
ALWAYS_SENT = ("name", "cluster")
FIELDS = (
    *TEXTS,
    *WHOLE_NUMBERS,
    "command",
    "environment",
    "standby",
    *(f"limits-{name}" for name in LIMITS),
    *(f"{name}-{part}" for name in CALLBACKS for part in ("command", "timeout_seconds")),
    "agent-kind",
    *(f"agent-{name}" for name in (*AGENT_KINDS, "params", "timeout_seconds")),
    "artifact-name",
)
ROW_FIELDS = (*ROW_TEXTS, "cap", "command", "artifact-name")
MOST_ROWS_READ = 64
"""More than fit a launch table, so that too many are refused by the API's rule; not more than a page can show."""

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Draft:
    """What was typed: the job's fields by name, and the rows of its launch table in their order."""

    values: Mapping[str, str]
    rows: Sequence[Row] = field(default_factory=tuple)

    def value(self, name: str) -> str:
        """What stands in a field: `budget`, or `rows-1-expected_hours`."""
        if not name.startswith("rows-"):
            return self.values.get(name, "")
        _, place, part = name.split("-", 2)
        return self.rows[int(place)].get(part, "") if int(place) < len(self.rows) else ""

    def body(self) -> dict[str, Any]:
        """The submission, as the API takes it."""
        body: dict[str, Any] = {name: self.values[name].strip() for name in TEXTS if self._is_given(name)}
        body |= {name: whole(self.values[name]) for name in WHOLE_NUMBERS if self._is_given(name)}
        if self._is_given("command"):
            body["command"] = words(self.values["command"])
        if self._is_given("environment"):
            body["environment"] = environment(self.values["environment"])
        body["rows"] = [_row_body(row) for row in self.rows]
        if agent := self._agent():
            body["agent"] = agent
        if self._is_given("standby"):
            body["standby"] = True
        if limits := {
            name: whole(self.values[f"limits-{name}"]) for name in LIMITS if self._is_given(f"limits-{name}")
        }:
            body["limits"] = limits
        for name in CALLBACKS:
            if callback := self._command(name):
                body[name] = callback
        return body

    def _is_given(self, name: str) -> bool:
        return bool(self.values.get(name, "").strip()) or (name in ALWAYS_SENT and name in self.values)

    def _agent(self) -> dict[str, Any]:
        kind = self.values.get("agent-kind") or "policy"
        agent: dict[str, Any] = {}
        if kind in AGENT_KINDS and self._is_given(f"agent-{kind}"):
            typed = self.values[f"agent-{kind}"]
            agent[kind] = words(typed) if kind == "command" else typed.strip()
        if self._is_given("agent-params"):
            agent["params"] = parameters(self.values["agent-params"])
        if self._is_given("agent-timeout_seconds"):
            agent["timeout_seconds"] = number(self.values["agent-timeout_seconds"])
        return agent or ({} if kind == "policy" else {kind: ""})

    def _command(self, name: str) -> dict[str, Any]:
        callback: dict[str, Any] = {}
        if self._is_given(f"{name}-command"):
            callback["command"] = words(self.values[f"{name}-command"])
        if self._is_given(f"{name}-timeout_seconds"):
            callback["timeout_seconds"] = number(self.values[f"{name}-timeout_seconds"])
        return callback


def _row_body(row: Row) -> dict[str, Any]:
    body: dict[str, Any] = {
        name: row[name].strip() for name in ROW_TEXTS if row.get(name, "").strip() or name == "accelerator_type"
    }
    body["max_price_per_hour"] = CAP if row.get("cap") else row.get("max_price_per_hour", "").strip()
    if row.get("command", "").strip():
        body["command"] = words(row["command"])
    return body


# From what is typed to what the API takes; what does not fit is left as it is


def words(text: str) -> Any:
    """A command as its words, by a shell's rules of quoting."""
    try:
        return shlex.split(text)
    except ValueError:
        return text


def whole(text: str) -> Any:
    """A whole number."""
    stripped = text.strip()
    return int(stripped) if stripped.isascii() and stripped.isdecimal() and len(stripped) < 20 else text


def number(text: str) -> Any:
    """A number of seconds; whole where it is written so."""
    if isinstance(read := whole(text), int):
        return read
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def environment(text: str) -> dict[str, Any]:
    """Variables, one `NAME=value` a line. A line without a sign is a variable without a value."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): value if sign else None for name, sign, value in pairs}


def parameters(text: str) -> Any:
    """An object in JSON. Fractions stay text, as in a job file: nothing passes through a float."""
    try:
        value = json.loads(text, parse_float=str, parse_constant=str)
        return text if any(unstorable(value)) else value
    except (ValueError, RecursionError, ParseError):
        return text


# From a form's fields, and from a job


def of_post(posted: Mapping[str, str]) -> Draft:
    """What a browser has sent."""
    values = {name: posted.get(name, "") for name in FIELDS}
    rows: list[Row] = []
    while len(rows) < MOST_ROWS_READ and f"rows-{len(rows)}-accelerator_type" in posted:
        rows.append({name: posted.get(f"rows-{len(rows)}-{name}", "") for name in ROW_FIELDS})
    return Draft(values, rows)


def of_document(document: Mapping[str, Any]) -> Draft:
    """A submitted job's document, to be changed and submitted as another job."""
    values = {name: _text(document.get(name)) for name in (*TEXTS, *WHOLE_NUMBERS)}
    values["command"] = _joined(document.get("command"))
    values["environment"] = "\n".join(f"{name}={value}" for name, value in (document.get("environment") or {}).items())
    values["standby"] = "on" if document.get("standby") else ""
    values |= {f"limits-{name}": _text((document.get("limits") or {}).get(name)) for name in LIMITS}
    for name in CALLBACKS:
        callback = document.get(name) or {}
        values[f"{name}-command"] = _joined(callback.get("command"))
        values[f"{name}-timeout_seconds"] = _text(callback.get("timeout_seconds"))
    return Draft(values | _agent_values(document.get("agent") or {}), [_row_values(row) for row in document["rows"]])


def _agent_values(agent: Mapping[str, Any]) -> dict[str, str]:
    params = agent.get("params")
    return {
        "agent-kind": next((kind for kind in AGENT_KINDS if agent.get(kind)), "policy"),
        "agent-policy": _text(agent.get("policy")),
        "agent-class": _text(agent.get("class")),
        "agent-command": _joined(agent.get("command")),
        "agent-params": json.dumps(params, ensure_ascii=False) if params else "",
        "agent-timeout_seconds": _text(agent.get("timeout_seconds")),
    }


def _row_values(row: Mapping[str, Any]) -> Row:
    values = {name: _text(row.get(name)) for name in ROW_TEXTS}
    values["command"] = _joined(row.get("command"))
    if row.get("max_price_per_hour") == CAP:
        values |= {"cap": "on", "max_price_per_hour": ""}
    return values


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _joined(command: Any) -> str:
    return shlex.join(command) if isinstance(command, list) else ""


# Faults by field


def by_field(faults: Iterable[Fault], draft: Draft) -> dict[str, list[str]]:
    """What is wrong, by the name of the field where it stands; under "" what concerns the whole."""
    known = {*FIELDS, "rows", "agent"} | {
        f"rows-{place}-{name}" for place in range(len(draft.rows)) for name in ROW_FIELDS
    }
    found: dict[str, list[str]] = {}
    for fault in faults:
        found.setdefault(_field_of(fault.pointer, known), []).append(fault.detail)
    return found


def _field_of(pointer: str, known: set[str]) -> str:
    """The field of a JSON pointer, or of the nearest place above it that has one."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    while parts and "-".join(parts) not in known:
        parts.pop()
    name = "-".join(parts)
    if name == "agent":
        return "agent-kind"
    return name
