"""The job of the form in the other ways of submitting it: a `job.yaml`, the command that sends it, and a request."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

ORDER = ("name", "cluster", "artifact", "command", "environment", "rows", "agent")


def as_yaml(body: Mapping[str, Any]) -> str:
    """The body of a submission as `laissez.sdk.jobfile` reads it."""
    ordered = {name: body[name] for name in ORDER if name in body} | dict(body)
    text: str = yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=100)
    return text


def as_command() -> str:
    """What sends the file above."""
    return "laissez job submit job.yaml"


def as_request(body: Mapping[str, Any], *, server: str) -> str:
    """The same with curl, for a token in LAISSEZ_TOKEN."""
    return " \\\n  ".join(
        [
            f"curl {server}/api/v1/jobs",
            '-H "Authorization: Bearer $LAISSEZ_TOKEN"',
            "-H 'Content-Type: application/json'",
            '-H "Idempotency-Key: $(date +%s%N)"',
            f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}",
        ]
    )
