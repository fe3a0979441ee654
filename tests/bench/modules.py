"""The modules of measurements, in the order in which they run, and what each finds standing."""

from dataclasses import dataclass
from enum import Enum, auto


class Ground(Enum):
    """What is there before a module is imported."""

    NOTHING = auto()
    """No Django: the engine alone."""
    FOLDER = auto()
    """Django, set up for a state folder in which the module starts what it needs."""
    SERVERS = auto()
    """Django, PostgreSQL with a migrated template database, Valkey."""


@dataclass(frozen=True, slots=True)
class Module:
    """`tests.bench.<name>`, which has a function `figures(run)`."""

    name: str
    ground: Ground = Ground.SERVERS
    seconds: float = 900
    """How long it may take in full; then it is killed and has failed."""


MODULES = {
    module.name: module
    for module in (
        Module("clearing", Ground.NOTHING),
        Module("planning", Ground.NOTHING),
        Module("reading"),
        Module("ticks"),
        Module("hand_overs"),
        Module("metering"),
        Module("requests"),
        Module("sockets"),
        Module("browser"),
        Module("restart", Ground.FOLDER),
    )
}


def chosen(only: str) -> list[Module]:
    """The modules that a comma-separated list names, in their own order; all where it is empty.

    Raises:
        ValueError: naming what is no module.
    """
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        raise ValueError(f"no measurements are called {', '.join(unknown)}; there are {', '.join(MODULES)}")
    return [module for module in MODULES.values() if not names or module.name in names]
