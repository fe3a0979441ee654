"""The one way a service says no: pure exceptions with a closed code, a sentence, and the place in the input.

Services raise them, `laissez.api` turns them into RFC 9457 answers, commands print them. Nothing here knows HTTP
beyond the number that an interface should answer with.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input; `pointer` is a JSON pointer into it, such as "/rows/1/max_price_per_hour"."""

    code: str
    detail: str
    pointer: str = ""


class Refused(Exception):
    """The act was refused and nothing was written. Carries one fault or several."""

    def __init__(
        self, code: str, detail: str, pointer: str = "", status: int = 400, *, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status
        self.faults: tuple[Fault, ...] = tuple(faults) or (Fault(code=code, detail=detail, pointer=pointer),)

    @property
    def pointer(self) -> str:
        """Where the first fault lies in the input; empty when it concerns the whole request."""
        return self.faults[0].pointer


class Invalid(Refused):
    """The input has one or more faults, all of which are named at once."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        detail = faults[0].detail if len(faults) == 1 else f"The request has {len(faults)} faults."
        super().__init__(faults[0].code if len(faults) == 1 else "invalid", detail, status=400, faults=faults)


class NotFound(Refused):
    """There is no such thing, or it belongs to somebody else: the two are told apart nowhere."""

    def __init__(self, what: str, code: str = "not_found") -> None:
        super().__init__(code, f"There is no such {what}.", status=404)


class Conflict(Refused):
    """The request was fine, but the present state does not allow it."""

    def __init__(self, code: str, detail: str, pointer: str = "") -> None:
        super().__init__(code, detail, pointer, 409)
