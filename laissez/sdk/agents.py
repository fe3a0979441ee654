"""Economic agents: the tenant's decision code beside a job, and the sidecar that speaks JSON lines for it.

    class Mine(EconomicAgent):
        def decide(self, context: Context) -> Decision:
            return Decision("stay")

`python -m laissez.sdk.agents --class module:Mine` or `--policy break_even` reads one context per line from standard
input and writes one decision per line to standard output. What else an agent prints goes to standard error.
"""

import argparse
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from decimal import Decimal
from importlib import import_module
from typing import TextIO, cast

from laissez.sdk.contexts import (
    Cause,
    Context,
    Decision,
    Event,
    Kind,
    Moment,
    Notice,
    Quote,
    Row,
    State,
)
from laissez.sdk.policies import POLICIES, Policy

__all__ = [
    "Cause",
    "Context",
    "Decision",
    "EconomicAgent",
    "Event",
    "Kind",
    "Moment",
    "Notice",
    "PolicyAgent",
    "Quote",
    "Row",
    "State",
    "main",
    "serve",
]


class EconomicAgent(ABC):
    """Subclass this, and answer every context with a decision; an exception ends the sidecar and counts as "stay"."""

    @abstractmethod
    def decide(self, context: Context) -> Decision:
        """Return what the job should do now."""


class PolicyAgent(EconomicAgent):
    """An agent that follows a policy, a pure function of the context and fixed parameters."""

    def __init__(self, policy: Policy, params: Mapping[str, object]) -> None:
        self._policy = policy
        self._params = params

    def decide(self, context: Context) -> Decision:
        """Return what the policy says."""
        return self._policy(context, self._params)


def serve(agent: EconomicAgent, stdin: TextIO, stdout: TextIO) -> None:
    """Answer each line of stdin, a context in JSON, with a line on stdout, until stdin ends.

    ValueError on a line that is not a context; prints inside `decide` do not reach stdout.
    """
    for line in stdin:
        if not line.strip():
            continue
        context = Context.from_json(json.loads(line, parse_float=Decimal))
        with redirect_stdout(sys.stderr):
            decision = agent.decide(context)
        stdout.write(json.dumps(decision.to_json(), separators=(",", ":")) + "\n")
        stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sidecar that the arguments describe; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m laissez.sdk.agents", description=(__doc__ or "").split("\n")[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--policy", choices=sorted(POLICIES), help="a policy that ships with the SDK")
    which.add_argument("--class", dest="path", metavar="MODULE:CLASS", help="an EconomicAgent of your own")
    parser.add_argument("--params", default="{}", help="parameters of the policy, a JSON object")
    options = parser.parse_args(arguments)
    try:
        agent = _agent(options.policy, options.path, options.params)
    except (ValueError, ImportError, AttributeError) as error:
        parser.error(str(error))
    serve(agent, sys.stdin, sys.stdout)
    return 0


def _agent(policy: str | None, path: str | None, params: str) -> EconomicAgent:
    """Return the agent named on the command line; ValueError, ImportError or AttributeError if there is none."""
    if policy is not None:
        values = json.loads(params, parse_float=Decimal)
        if not isinstance(values, dict):
            raise ValueError("--params: expected a JSON object")
        return PolicyAgent(POLICIES[policy], values)
    module, _, name = (path or "").partition(":")
    if not module or not name:
        raise ValueError(f"--class: expected module:Class, got {path!r}")
    return cast(EconomicAgent, getattr(import_module(module), name)())


if __name__ == "__main__":
    sys.exit(main())
