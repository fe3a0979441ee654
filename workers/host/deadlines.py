"""When a lease's programs must end: the shim's own deadlines, as a value that takes the time as an argument."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

TERM_SECONDS = 5.0  # between TERM and KILL where nobody has said otherwise


@dataclass(frozen=True, slots=True)
class Deadlines:
    """All instants are seconds since boot. `until` is the life that the control plane has granted so far."""

    until: float
    told: Literal["run", "save", "stop"] = "run"
    term_at: float | None = None
    kill_at: float | None = None

    def renewed(self, until: float) -> Deadlines:
        """The control plane grants a life until this instant."""
        return replace(self, until=until)

    def saving(self, until: float) -> Deadlines:
        """Told to save: TERM at `until`. Being told to stop outlives it."""
        if self.told == "stop":
            return self
        return replace(self, told="save", term_at=until, kill_at=until + TERM_SECONDS)

    def staying(self) -> Deadlines:
        """The wish to save is taken back."""
        return replace(self, told="run", term_at=None, kill_at=None) if self.told == "save" else self

    def stopping(self, now: float, until: float) -> Deadlines:
        """Told to stop: TERM now, KILL at `until`."""
        return replace(self, told="stop", term_at=now, kill_at=until)

    def leaving(self, now: float) -> Deadlines:
        """The state is saved and the program knows that it must end; help it if it does not."""
        return replace(self, told="stop", term_at=now + TERM_SECONDS, kill_at=now + 2 * TERM_SECONDS)

    def due(self, now: float) -> Literal["nothing", "term", "kill", "expired"]:
        """What has come due at `now`."""
        if now >= self.until:
            return "expired"
        if self.kill_at is not None and now >= self.kill_at:
            return "kill"
        return "term" if self.term_at is not None and now >= self.term_at else "nothing"

    def next_after(self, now: float) -> float:
        """The earliest instant after `now` at which something comes due."""
        later = [at for at in (self.until, self.term_at, self.kill_at) if at is not None and at > now]
        return min(later, default=now)
