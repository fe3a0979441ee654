"""The floor as values in tuples; see markets.engine.floor for what they mean."""

from dataclasses import dataclass

from markets.engine import floor as arrays
from markets.engine.floor import FloorJob, OpenNotice, TableRow, Tenure, TypeOffer, Unit, WaitingAward

__all__ = ["Floor", "FloorJob", "OpenNotice", "TableRow", "Tenure", "TypeOffer", "Unit", "WaitingAward"]


@dataclass(frozen=True, slots=True)
class Floor:
    """One cluster at the instant `now`; notice_us is how long a notice runs. Plans go through jobs in this order."""

    now: int
    notice_us: int
    types: tuple[TypeOffer, ...]
    units: tuple[Unit, ...]
    jobs: tuple[FloorJob, ...]

    def arrays(self) -> arrays.Floor:
        """Return the same floor for the engine."""
        return arrays.Floor.of(
            now=self.now, notice_us=self.notice_us, types=self.types, units=self.units, jobs=self.jobs
        )
