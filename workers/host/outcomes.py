"""Why a lease's program ended, as a pure function of how it exited and what it had been told."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Literal

from laissez.sdk.checkpoints import SAVED_AND_STOPPED
from workers.host.executors import Exit

Reason = Literal["completed", "failed", "data_load_failed", "stopped", "killed", "sandbox_failed", "host_lost"]
MEANINGS = {
    signal.SIGXCPU: "it used up its CPU time",
    signal.SIGXFSZ: "it wrote a file larger than its disk limit",
    signal.SIGSEGV: "it touched memory that is not its own",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a lease as its exit report tells it."""

    reason: Reason
    detail: str
    ended: Exit = field(default_factory=lambda: Exit(None))

    def report(self) -> dict[str, object]:
        """The exit report's fields."""
        return {
            "kind": "exit",
            "reason": self.reason,
            "exit_code": self.ended.code,
            "signal": self.ended.signal,
            "detail": self.detail,
        }


def of_workload(ended: Exit, *, saved: bool, terminated: bool) -> Outcome:
    """The outcome of a workload that ended.

    `saved`: its last checkpoint was committed and answered with "stop"; `terminated`: it had been sent TERM. A program
    that was asked to save and finishes instead has completed.
    """
    if saved and ended.code == SAVED_AND_STOPPED:
        return Outcome("stopped", "saved its state and left", ended)
    if terminated:
        return Outcome("stopped", "left when it was told to", ended)
    if ended.clean:
        return Outcome("completed", "", ended)
    if ended.signal in (signal.SIGKILL, signal.SIGTERM):
        return Outcome("killed", f"somebody else ended it with {signal.Signals(ended.signal).name}", ended)
    if ended.signal is not None:
        return Outcome("failed", MEANINGS.get(signal.Signals(ended.signal), _name(ended.signal)), ended)
    return Outcome("failed", f"the command ended with exit status {ended.code}", ended)


def of_data_load(ended: Exit | None, timeout_seconds: float, tail: str) -> Outcome:
    """The outcome of a `data_load` that failed, or (None) did not end in time; `tail` is its last output."""
    how = f"did not end within {timeout_seconds:g} s" if ended is None else f"ended with {_how(ended)}"
    return Outcome("data_load_failed", f"data_load {how}: {tail or '(no output)'}", ended or Exit(None))


def _how(ended: Exit) -> str:
    return f"exit status {ended.code}" if ended.signal is None else _name(ended.signal)


def _name(signum: int) -> str:
    try:
        return f"signal {signal.Signals(signum).name}"
    except ValueError:
        return f"signal {signum}"
