"""Reads `job.yaml`, the file that describes a job. First stop on the tenant's side.

`load` checks everything that needs no server and names the row and the field of each fault; the server checks again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import yaml

PRICE_DECIMALS = 6

ROW_FIELDS = {
    "accelerator_type",
    "max_price_per_hour",
    "keep_price_per_hour",
    "expected_hours",
    "command",
    "directory",
    "artifact",
}
CALLBACKS = ("data_load", "save", "restore")
CHOICES = {
    "upgrade": ("never", "at_checkpoint", "now"),
    "migration": ("stop_and_copy", "overlap"),
}
WHOLE_NUMBERS = {
    "heartbeat_seconds": 1,
    "max_attempts": 1,
    "queue_timeout_seconds": 1,
    "seek_seconds": 1,
}
AGENT_KINDS = {"policy", "class", "command"}
LIMITS = {"memory_bytes", "processes", "output_bytes", "cpu_seconds"}
FIELDS = {
    "name",
    "cluster",
    "directory",
    "artifact",
    "command",
    "environment",
    "rows",
    "agent",
    "standby",
    "budget",
    "limits",
    *CALLBACKS,
    *CHOICES,
    *WHOLE_NUMBERS,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a job file: where (`rows[1].max_price_per_hour`) and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class JobFileError(Exception):
    """The job file, or the directory that it names, cannot be used; `faults` says why, all of it at once."""

    def __init__(self, path: Path, faults: list[Fault]) -> None:
        self.path = path
        self.faults = faults
        super().__init__("\n".join([f"{path}: {len(faults)} fault(s)", *(f"  {fault}" for fault in faults)]))


@dataclass(frozen=True, slots=True)
class JobFile:
    """A valid job file. `spec` is the body for the API but for artefacts; `directories` holds, for each part of the
    spec that needs an upload (None for the job, a number for a launch-table row), the directory to pack.
    """

    path: Path
    spec: dict[str, Any]
    directories: dict[int | None, Path]

    def with_artifacts(self, artifacts: Mapping[int | None, str]) -> dict[str, Any]:
        """The body of a submission, with uploaded artefact ids in the places of the directories."""
        body = {**self.spec, "rows": [dict(row) for row in self.spec["rows"]]}
        for place, artifact in artifacts.items():
            (body if place is None else body["rows"][place])["artifact"] = artifact
        return body


class _ExactLoader(yaml.SafeLoader):
    """YAML in which 0.652 stays the text that was written, so that no price passes through a float."""


_ExactLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:float"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(path: Path) -> JobFile:
    """The job file at `path`, checked. Raises JobFileError with every fault found."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_ExactLoader)  # a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileError(path, [Fault("file", f"cannot be read: {error}")]) from error
    except yaml.YAMLError as error:
        raise JobFileError(path, [Fault("file", f"is not YAML: {' '.join(str(error).split())}")]) from error
    if not isinstance(document, dict):
        raise JobFileError(
            path,
            [Fault("file", "must be a mapping with name, cluster, command and rows")],
        )
    faults = list(_faults(document, path.parent))
    if faults:
        raise JobFileError(path, faults)
    spec = _body(document)
    directories: dict[int | None, Path] = {}
    if "artifact" not in document:
        directories[None] = _resolve(path.parent, document.get("directory", "."))
    for number, row in enumerate(document["rows"]):
        if "directory" in row:
            directories[number] = _resolve(path.parent, row["directory"])
    return JobFile(path=path, spec=spec, directories=directories)


def parse_price(value: object) -> Decimal:
    """A price per accelerator-hour as written: finite, above zero, at most six decimals. Raises ValueError."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    try:
        price = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a price; write US dollars per hour, such as 0.652") from None
    if not price.is_finite():
        raise ValueError(f"{value} is not finite")
    if price <= 0:
        raise ValueError(f"{value} is not above zero")
    if price != round(price, PRICE_DECIMALS):
        raise ValueError(f"{value} has more than {PRICE_DECIMALS} decimals")
    return price


def _faults(document: dict[str, Any], base: Path) -> Iterator[Fault]:
    for name in document.keys() - FIELDS:
        yield Fault(
            str(name),
            f"is not a field of a job; the fields are {', '.join(sorted(FIELDS))}",
        )
    for name in ("name", "cluster"):
        if not isinstance(document.get(name), str) or not document[name].strip():
            yield Fault(name, "is required, as text")
    yield from _command_faults(document, "command")
    if "artifact" in document and "directory" in document:
        yield Fault("artifact", "cannot stand beside directory; give one of them")
    if "artifact" not in document:
        yield from _directory_faults(document.get("directory", "."), base, "directory")
    yield from _rows_faults(document.get("rows"), base)
    yield from _setting_faults(document)
    yield from _agent_faults(document.get("agent", {"policy": "hold"}))


def _rows_faults(rows: object, base: Path) -> Iterator[Fault]:
    if not isinstance(rows, list) or not rows:
        yield Fault("rows", "must list at least one accelerator type to bid for")
        return
    seen: set[str] = set()
    for number, row in enumerate(rows):
        where = f"rows[{number}]"
        if not isinstance(row, dict):
            yield Fault(where, "must be a mapping with accelerator_type and max_price_per_hour")
            continue
        yield from _row_faults(row, where, base)
        kind = row.get("accelerator_type")
        if isinstance(kind, str) and kind in seen:
            yield Fault(f"{where}.accelerator_type", f"{kind} stands in the table twice")
        seen.add(str(kind))


def _row_faults(row: dict[str, Any], where: str, base: Path) -> Iterator[Fault]:
    for name in row.keys() - ROW_FIELDS:
        yield Fault(
            f"{where}.{name}",
            f"is not a field of a row; the fields are {', '.join(sorted(ROW_FIELDS))}",
        )
    if not isinstance(row.get("accelerator_type"), str) or not row["accelerator_type"]:
        yield Fault(f"{where}.accelerator_type", "is required, such as nvidia-a10")
    if "max_price_per_hour" not in row:
        yield Fault(
            f"{where}.max_price_per_hour",
            "is required; the word cap bids the cap price",
        )
    prices: dict[str, Decimal] = {}
    for name in ("max_price_per_hour", "keep_price_per_hour", "expected_hours"):
        value = row.get(name)
        if value is None or (value == "cap" and name != "expected_hours"):
            continue
        try:
            prices[name] = parse_price(value)
        except ValueError as error:
            yield Fault(
                f"{where}.{name}",
                str(error).replace("a price", "a number of hours") if "hours" in name else str(error),
            )
    if prices.get("keep_price_per_hour", Decimal("Infinity")) < prices.get("max_price_per_hour", Decimal(0)):
        yield Fault(
            f"{where}.keep_price_per_hour",
            "is under max_price_per_hour: a job that runs would be worth less to itself",
        )
    yield from _command_faults(row, "command", where=f"{where}.", required=False)
    if "directory" in row:
        yield from _directory_faults(row["directory"], base, f"{where}.directory")


def _setting_faults(document: dict[str, Any]) -> Iterator[Fault]:
    for name, choices in CHOICES.items():
        if name in document and document[name] not in choices:
            yield Fault(name, f"is {document[name]!r}; choose one of {', '.join(choices)}")
    for name, least in WHOLE_NUMBERS.items():
        value = document.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            yield Fault(name, f"is {value!r}; it must be a whole number of at least {least}")
    if not isinstance(document.get("standby", False), bool):
        yield Fault("standby", "must be true or false")
    environment = document.get("environment", {})
    if not isinstance(environment, dict) or not all(
        isinstance(part, str) for pair in environment.items() for part in pair
    ):
        yield Fault("environment", "must map names to text; quote numbers")
    limits = document.get("limits", {})
    if not isinstance(limits, dict) or limits.keys() - LIMITS:
        yield Fault("limits", f"must be a mapping of {', '.join(sorted(LIMITS))}")
    for name in CALLBACKS:
        if document.get(name) is not None:
            yield from _callback_faults(document[name], name)
    if document.get("budget") is not None:
        try:
            parse_price(document["budget"])
        except ValueError as error:
            yield Fault("budget", str(error))


def _callback_faults(callback: object, name: str) -> Iterator[Fault]:
    if not isinstance(callback, dict) or callback.keys() - {
        "command",
        "timeout_seconds",
    }:
        yield Fault(name, "must be a mapping of command and timeout_seconds")
        return
    yield from _command_faults(callback, "command", where=f"{name}.")
    yield from _seconds_faults(callback, f"{name}.")


def _seconds_faults(holder: dict[str, Any], where: str) -> Iterator[Fault]:
    """`timeout_seconds` where it is given; a fraction has been kept as text so far."""
    try:
        parse_price(holder.get("timeout_seconds", 1))
    except ValueError as error:
        yield Fault(f"{where}timeout_seconds", str(error).replace("a price", "a number of seconds").split(";")[0])


def _agent_faults(agent: object) -> Iterator[Fault]:
    if not isinstance(agent, dict) or len(agent.keys() & AGENT_KINDS) != 1:
        yield Fault("agent", "must name one of policy, class and command")
    elif unknown := agent.keys() - AGENT_KINDS - {"params", "timeout_seconds"}:
        yield Fault("agent", f"knows policy, class, command, params and timeout_seconds, not {', '.join(unknown)}")
    else:
        yield from _command_faults(agent, "command", where="agent.", required=False)
        yield from _seconds_faults(agent, "agent.")


def _command_faults(holder: dict[str, Any], name: str, where: str = "", required: bool = True) -> Iterator[Fault]:
    command = holder.get(name)
    if command is None and not required:
        return
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        yield Fault(f"{where}{name}", "must be a list of words, such as [python, train.py]")


def _directory_faults(value: object, base: Path, where: str) -> Iterator[Fault]:
    if not isinstance(value, str) or not _resolve(base, value).is_dir():
        yield Fault(where, f"{value!r} is not a directory beside the job file")


def _body(document: dict[str, Any]) -> dict[str, Any]:
    """The document as the API takes it: amounts as text, seconds as numbers, no directories."""
    spec = {name: value for name, value in document.items() if name != "directory"}
    spec["rows"] = [_row_body(row) for row in document["rows"]]
    if spec.get("budget") is not None:
        spec["budget"] = str(spec["budget"])
    for name in (*CALLBACKS, "agent"):
        if isinstance(spec.get(name), dict) and isinstance(spec[name].get("timeout_seconds"), str):
            spec[name] = {**spec[name], "timeout_seconds": float(spec[name]["timeout_seconds"])}
    return spec


def _row_body(row: dict[str, Any]) -> dict[str, Any]:
    money = ("max_price_per_hour", "keep_price_per_hour", "expected_hours")
    return {
        name: str(value) if name in money and value is not None else value
        for name, value in row.items()
        if name != "directory"
    }


def _resolve(base: Path, value: str) -> Path:
    return (base / Path(value).expanduser()).resolve()
