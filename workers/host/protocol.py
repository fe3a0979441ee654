"""What the control plane and this host say to each other, as values. Reading is strict and names what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from workers.host.limits import Limits

Wish = Literal["run", "save", "stop"]
Observed = Literal["ready", "standby", "running", "saving", "ended"]
DEFAULT_CALLBACK_SECONDS = 300.0
DEFAULT_AGENT_SECONDS = 10.0


class BadMessage(ValueError):
    """A message lacks a field or has one of the wrong kind; the text names it."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The archive that a lease's program comes in."""

    url: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a job goes on: `none` from the start, `wait` until its predecessor has saved, `ready` from a checkpoint."""

    state: Literal["none", "wait", "ready"]
    uri: str = ""
    sha256: str = ""
    progress: float = 0.0
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Callback:
    """A command of the tenant's with its time limit."""

    command: tuple[str, ...]
    timeout_seconds: float

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> Callback | None:
        """Read a callback of a job's specification; null stays None."""
        if not value or not value.get("command"):
            return None
        return cls(words(value["command"], "command"), float(value.get("timeout_seconds") or DEFAULT_CALLBACK_SECONDS))


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """How the economic agent is run: a named policy with parameters, a class, or a command."""

    policy: str | None
    params: Mapping[str, Any]
    class_path: str | None
    command: tuple[str, ...]
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The part of a job's specification that its host acts on."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    data_load: Callback | None
    save: Callback | None
    restore: Callback | None
    agent: AgentSpec | None
    standby: bool
    limits: Limits

    @classmethod
    def of(cls, spec: Mapping[str, Any], accelerator_type: str) -> JobSpec:
        """Read a specification for one accelerator type: that row's command goes before the job's."""
        rows = [row for row in spec.get("rows") or () if row.get("accelerator_type") == accelerator_type]
        command = (rows[0].get("command") if rows else None) or spec.get("command")
        return cls(
            command=words(command, "command"),
            environment={str(name): str(value) for name, value in (spec.get("environment") or {}).items()},
            data_load=Callback.of(spec.get("data_load")),
            save=Callback.of(spec.get("save")),
            restore=Callback.of(spec.get("restore")),
            agent=_agent(spec.get("agent")),
            standby=bool(spec.get("standby")),
            limits=Limits.of(spec.get("limits") or {}),
        )


@dataclass(frozen=True, slots=True)
class DesiredLease:
    """What the control plane wants of one lease on this host. Seconds are real ones."""

    lease: str
    job: str
    fence: int
    index: int
    accelerator_type: str
    desired: Wish
    grace_seconds: float
    deadline_seconds: float | None
    ask: int
    cause: str
    checkpoint: bool
    resume: ResumePoint
    spec: Mapping[str, Any]
    artifact: Artifact | None
    expected_hours: str | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> DesiredLease:
        """Read one lease of a sync answer, or raise `BadMessage`."""
        try:
            return cls(
                lease=_name(value["lease"]),
                job=str(value["job"]),
                fence=int(value["fence"]),
                index=int(value["index"]),
                accelerator_type=str(value["accelerator_type"]),
                desired=_one_of(value["desired"], ("run", "save", "stop")),
                grace_seconds=float(value.get("grace_seconds") or 0.0),
                deadline_seconds=_optional_seconds(value.get("deadline_seconds")),
                ask=int(value.get("ask") or 0),
                cause=str(value.get("cause") or ""),
                checkpoint=bool(value.get("checkpoint")),
                resume=_resume(value.get("resume") or {"state": "none"}),
                spec=value["spec"],
                artifact=_artifact(value.get("artifact")),
                expected_hours=None if value.get("expected_hours") is None else str(value["expected_hours"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadMessage(f"a lease in the answer cannot be read: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in a message that the control plane did not accept: a report (its id), or a lease's state (id 0)."""

    id: int
    lease: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The control plane's answer to one sync."""

    host_state: str
    lease_ttl_seconds: float
    heartbeat_seconds: float
    acknowledged: int
    refused: tuple[Refusal, ...]
    results: Mapping[int, Mapping[str, Any]]
    checkpoint_store: str
    leases: tuple[DesiredLease, ...]
    unreadable: tuple[str, ...]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> SyncAnswer:
        """Read an answer; one lease that cannot be read is listed and does not spoil the others."""
        leases, unreadable = [], []
        for entry in value["leases"]:
            try:
                leases.append(DesiredLease.of(entry))
            except BadMessage as error:
                unreadable.append(str(error))
        return cls(
            host_state=str(value.get("host", {}).get("state", "")),
            lease_ttl_seconds=float(value["lease_ttl_seconds"]),
            heartbeat_seconds=float(value.get("heartbeat_seconds") or 2.0),
            acknowledged=int(value.get("acknowledged") or 0),
            refused=tuple(
                Refusal(
                    id=int(entry.get("id") or 0),
                    lease=str(entry.get("lease") or ""),
                    code=str(entry.get("code", "")),
                    detail=str(entry.get("detail", "")),
                )
                for entry in value.get("refused") or ()
            ),
            results={int(number): result for number, result in (value.get("results") or {}).items()},
            checkpoint_store=str(value.get("checkpoint_store") or ""),
            leases=tuple(leases),
            unreadable=tuple(unreadable),
        )


def words(value: Any, name: str) -> tuple[str, ...]:
    """Read a command line: a list of at least one text."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(word, str) for word in value):
        raise BadMessage(f"{name} must be a list of words, not {value!r}")
    return tuple(value)


def _agent(value: Mapping[str, Any] | None) -> AgentSpec | None:
    if not value:
        return None
    command = words(value["command"], "agent.command") if value.get("command") else ()
    return AgentSpec(
        policy=value.get("policy"),
        params=value.get("params") or {},
        class_path=value.get("class"),
        command=command,
        timeout_seconds=float(value.get("timeout_seconds") or DEFAULT_AGENT_SECONDS),
    )


def _artifact(value: Mapping[str, Any] | None) -> Artifact | None:
    if not value:
        return None
    sha256 = str(value["sha256"])
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise ValueError(f"{sha256!r} is no sha256")
    return Artifact(str(value["url"]), sha256, int(value["size_bytes"]))


def _resume(value: Mapping[str, Any]) -> ResumePoint:
    state = _one_of(value["state"], ("none", "wait", "ready"))
    if state != "ready":
        return ResumePoint(state)
    step = value.get("step")
    return ResumePoint(
        state=state,
        uri=str(value["uri"]),
        sha256=str(value["sha256"]),
        progress=float(value.get("progress") or 0.0),
        step=None if step is None else int(step),
    )


def _name(value: Any) -> str:
    """A lease's name becomes a directory's name, so it must be harmless as one."""
    text = str(value)
    if not text or len(text) > 80 or not text.replace("_", "").replace("-", "").isalnum() or not text.isascii():
        raise ValueError(f"{text!r} is no lease name")
    return text


def _optional_seconds(value: Any) -> float | None:
    return None if value is None else float(value)


def _one_of(value: Any, allowed: tuple[str, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
    return cast(Any, value)
