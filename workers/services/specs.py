"""A job as submitted, checked field by field. The launch table's prices are the market's to check.

Pure: values in, a `Spec` or all faults out. Forms, API and command line use this one function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from laissez.errors import Fault, Invalid
from laissez.sdk.policies import POLICIES
from markets.engine.money import parse_price
from workers.models import Job

CALLBACKS = ("data_load", "save", "restore")
MAX_CALLBACK_SECONDS = 24 * 3600
MAX_ENVIRONMENT = 100
MAX_WORDS = 256
MAX_TEXT = 4096
LEAST_HOURS = Decimal("0.000001")  # policies divide by hours: bounds keep their arithmetic within bounds
MOST_HOURS = Decimal(1_000_000)
DEFAULTS: Mapping[str, Any] = {
    "heartbeat_seconds": 10,
    "max_attempts": 3,
    "queue_timeout_seconds": 24 * 3600,
    "seek_seconds": 600,
    "migration": Job.MigrationMode.STOP_AND_COPY.value,
    "standby": False,
}
_WHOLE = {
    "heartbeat_seconds": (1, 3600),
    "max_attempts": (1, 100),
    "queue_timeout_seconds": (1, 365 * 24 * 3600),
    "seek_seconds": (1, 7 * 24 * 3600),
}
_LIMITS = {
    "memory_bytes": (16 * 1024**2, 1024**4),
    "processes": (1, 65536),
    "output_bytes": (1024, 1024**4),
    "cpu_seconds": (1, 365 * 24 * 3600),
}
_FIELDS = {
    "cluster",
    "name",
    "command",
    "artifact",
    "environment",
    "rows",
    "agent",
    "standby",
    "upgrade",
    "migration",
    "limits",
    "budget",
    *CALLBACKS,
    *_WHOLE,
}
_ROW_FIELDS = {
    "accelerator_type",
    "max_price_per_hour",
    "keep_price_per_hour",
    "expected_hours",
    "command",
    "artifact",
}
_AGENT_FIELDS = {"policy", "params", "class", "command", "timeout_seconds"}


@dataclass(frozen=True, slots=True)
class Spec:
    """A valid job. `document` is what hosts and pages get, with every default written out."""

    name: str
    cluster: str
    artifact: str | None
    policy: str
    policy_params: Mapping[str, Any]
    budget_microdollars: int | None
    document: Mapping[str, Any]


def parse(body: object) -> Spec:
    """Check a submission but for its prices and types.

    Raises:
        Invalid: with every fault, each with a JSON pointer and the remedy.
    """
    if not isinstance(body, dict):
        raise Invalid([Fault("bad_body", "The body is not an object with name, cluster, command and rows.")])
    check = _Check()
    check.unknown(body, _FIELDS, "")
    document: dict[str, Any] = {
        "name": check.text(body, "name", 120),
        "cluster": check.text(body, "cluster", 64),
        "command": check.words(body, "command", "", required=True),
        "artifact": None if body.get("artifact") is None else check.text(body, "artifact", 64),
        "environment": check.environment(body),
        "rows": check.rows(body),
        "agent": check.agent(body),
        "standby": check.flag(body, "standby"),
        "migration": check.choice(body, "migration", Job.MigrationMode.values, DEFAULTS["migration"]),
        "limits": check.limits(body),
    }
    for name in CALLBACKS:
        document[name] = check.callback(body, name)
    for name, (least, most) in _WHOLE.items():
        document[name] = check.whole(body, name, least, most, DEFAULTS[name])
    document["upgrade"] = check.choice(body, "upgrade", Job.Upgrade.values, Job.Upgrade.AT_CHECKPOINT.value)
    budget = check.budget(body)
    if check.faults:
        raise Invalid(check.faults)
    agent = document["agent"]
    return Spec(
        name=document["name"],
        cluster=document["cluster"],
        artifact=document["artifact"],
        policy=agent.get("policy") or "",
        policy_params=agent.get("params") or {},
        budget_microdollars=budget,
        document=document | {"budget": body.get("budget")},
    )


def row_faults(rows: object) -> list[Fault]:
    """What is wrong with a launch table's rows but for their prices and types."""
    check = _Check()
    check.rows({"rows": rows})
    return check.faults


class _Check:
    """Collects faults instead of stopping at the first."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def fault(self, pointer: str, detail: str, code: str = "bad_value") -> None:
        self.faults.append(Fault(code, detail, pointer))

    def unknown(self, given: Mapping[str, Any], known: set[str], at: str) -> None:
        for name in sorted(set(map(str, given)) - known):
            self.fault(
                f"{at}/{name}", f"{name!r} is not a field here; known are {', '.join(sorted(known))}.", "unknown_field"
            )

    def text(self, given: Mapping[str, Any], name: str, most: int) -> str:
        value = given.get(name)
        if not isinstance(value, str) or not 0 < len(value.strip()) <= most or "\x00" in value:
            self.fault(f"/{name}", f"{name} is {value!r}; it must be a text of 1 to {most} characters.")
            return ""
        return value.strip()

    def words(self, given: Mapping[str, Any], name: str, at: str, *, required: bool) -> list[str] | None:
        value = given.get(name)
        if value is None and not required:
            return None
        if not isinstance(value, list) or not 0 < len(value) <= MAX_WORDS or not all(map(_is_word, value)):
            self.fault(
                f"{at}/{name}", f'{name} is {value!r}; it must be a list of words, such as ["python", "train.py"].'
            )
            return []
        return list(value)

    def environment(self, given: Mapping[str, Any]) -> dict[str, str]:
        value = given.get("environment") or {}
        if not isinstance(value, dict) or len(value) > MAX_ENVIRONMENT:
            self.fault("/environment", f"environment is not an object of at most {MAX_ENVIRONMENT} texts.")
            return {}
        for name, text in value.items():
            if not str(name).isidentifier() or not isinstance(text, str) or "\x00" in text or len(text) > MAX_TEXT:
                self.fault(f"/environment/{name}", f"{name!r} is not a variable with a text as its value.")
            elif name.startswith("LAISSEZ_"):
                self.fault(f"/environment/{name}", f"{name} is reserved: variables named LAISSEZ_ are set by the host.")
        return {str(name): str(text) for name, text in value.items()}

    def rows(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        value = given.get("rows")
        if not isinstance(value, list):
            return []  # the market's check names it
        return [self._row(row, f"/rows/{place}", place) for place, row in enumerate(value) if isinstance(row, dict)]

    def _row(self, row: Mapping[str, Any], at: str, place: int) -> dict[str, Any]:
        self.unknown(row, _ROW_FIELDS, at)
        hours = row.get("expected_hours")
        if hours is not None and not _is_positive_decimal(hours):
            span = f'from {LEAST_HOURS} to {MOST_HOURS}, such as "0.23"'
            detail = f"Row {place + 1}: expected_hours is {hours!r}; it must be a decimal {span}."
            self.fault(f"{at}/expected_hours", detail)
        if (command := self.words(row, "command", at, required=False)) is not None:
            row = {**row, "command": command}
        artifact = row.get("artifact")
        if artifact is not None and not (isinstance(artifact, str) and len(artifact) <= 64):
            self.fault(f"{at}/artifact", f"Row {place + 1}: artifact is {artifact!r}, not the id of an upload.")
        return {name: row.get(name) for name in sorted(_ROW_FIELDS)}

    def agent(self, given: Mapping[str, Any]) -> dict[str, Any]:
        value = given.get("agent") or {"policy": "hold"}
        if not isinstance(value, dict):
            self.fault("/agent", 'agent is not an object such as {"policy": "break_even"}.')
            return {}
        self.unknown(value, _AGENT_FIELDS, "/agent")
        kinds = [name for name in ("policy", "class", "command") if value.get(name)]
        if len(kinds) != 1:
            self.fault("/agent", "agent needs exactly one of policy, class and command.")
        if value.get("policy") is not None and value["policy"] not in list(POLICIES):
            known = ", ".join(sorted(POLICIES))
            self.fault("/agent/policy", f"{value['policy']!r} is not a policy; known are {known}.", "unknown_policy")
        if value.get("params") is not None and not isinstance(value["params"], dict):
            self.fault("/agent/params", "params is not an object.")
        if value.get("command") is not None:
            self.words(value, "command", "/agent", required=True)
        if value.get("class") is not None and not (isinstance(value["class"], str) and ":" in value["class"]):
            self.fault("/agent/class", f"class is {value['class']!r}; it must be module:Class.")
        seconds = value.get("timeout_seconds")
        if seconds is not None and not _is_number(seconds, 0.1, 60):
            self.fault("/agent/timeout_seconds", f"timeout_seconds is {seconds!r}; it must be from 0.1 to 60.")
        return dict(value)

    def callback(self, given: Mapping[str, Any], name: str) -> dict[str, Any] | None:
        value = given.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fault(f"/{name}", f'{name} is not an object such as {{"command": ["python", "load.py"]}}.')
            return None
        self.unknown(value, {"command", "timeout_seconds"}, f"/{name}")
        seconds = value.get("timeout_seconds", 300)
        if not _is_number(seconds, 1, MAX_CALLBACK_SECONDS):
            detail = f"timeout_seconds is {seconds!r}; it must be from 1 to {MAX_CALLBACK_SECONDS}."
            self.fault(f"/{name}/timeout_seconds", detail)
        return {"command": self.words(value, "command", f"/{name}", required=True), "timeout_seconds": seconds}

    def limits(self, given: Mapping[str, Any]) -> dict[str, int]:
        value = given.get("limits") or {}
        if not isinstance(value, dict):
            self.fault("/limits", f"limits is not an object of {', '.join(_LIMITS)}.")
            return {}
        self.unknown(value, set(_LIMITS), "/limits")
        return {
            name: self.whole(value, name, *_LIMITS[name], None, at="/limits")
            for name in _LIMITS
            if value.get(name) is not None
        }

    def whole(
        self, given: Mapping[str, Any], name: str, least: int, most: int, default: int | None, *, at: str = ""
    ) -> int:
        value = given.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.fault(f"{at}/{name}", f"{name} is {value!r}; it must be a whole number from {least} to {most}.")
            return least
        return value

    def flag(self, given: Mapping[str, Any], name: str) -> bool:
        value = given.get(name, DEFAULTS[name])
        if not isinstance(value, bool):
            self.fault(f"/{name}", f"{name} is {value!r}; it must be true or false.")
        return bool(value)

    def choice(self, given: Mapping[str, Any], name: str, known: list[str], default: str) -> str:
        value = given.get(name, default)
        if value not in known:
            self.fault(f"/{name}", f"{name} is {value!r}; it must be one of {', '.join(known)}.")
            return default
        return str(value)

    def budget(self, given: Mapping[str, Any]) -> int | None:
        value = given.get("budget")
        if value is None:
            return None
        try:
            if not isinstance(value, str):
                raise ValueError(f'{value!r} is not an amount of dollars in quotes, such as "5.00"')
            return parse_price(value)
        except ValueError as error:
            self.fault("/budget", f"budget: {error}.")
            return None


def _is_word(value: object) -> bool:
    return isinstance(value, str) and "\x00" not in value and len(value) <= MAX_TEXT


def _is_positive_decimal(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        hours = Decimal(value)
    except InvalidOperation:
        return False
    return hours.is_finite() and LEAST_HOURS <= hours <= MOST_HOURS


def _is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
