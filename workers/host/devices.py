"""Accelerators of this machine; so far emulated ones, which pace a job by the speed that a profile gives their type.

Pure but for nothing: pacing takes the time as an argument and returns how long to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RELATIVE_SPEED: Mapping[str, float] = {
    "nvidia-h100": 3.2,
    "nvidia-a100": 2.0,
    "nvidia-a10": 1.0,
    "nvidia-l4": 0.7,
    "nvidia-t4": 0.4,
    "aws-trainium": 1.1,
    "aws-trainium1": 1.1,
    "google-tpu-v5e": 1.4,
    "amd-alveo-u250": 0.3,
}


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator: its number on this host and its type."""

    index: int
    accelerator_type: str
    emulated: bool = True
    healthy: bool = True

    def enrolment(self) -> dict[str, object]:
        """What the control plane is told when the host joins."""
        return {"index": self.index, "type": self.accelerator_type, "emulated": self.emulated}


def emulated(description: str) -> tuple[Device, ...]:
    """Read `nvidia-a10=1,nvidia-l4=4` into devices numbered from 0; `ValueError` names the part that is wrong."""
    types: list[str] = []
    for part in description.split(","):
        name, equals, number = part.strip().partition("=")
        if not name or not equals or not number.isdecimal() or not 1 <= int(number) <= 64:
            raise ValueError(
                f"emulated devices are written TYPE=NUMBER with a number from 1 to 64, not {part.strip()!r}"
            )
        types += [name] * int(number)
    return tuple(Device(index, name) for index, name in enumerate(types))


@dataclass(slots=True)
class Pacer:
    """Holds a job to an emulated device's speed.

    With `hours` (the whole job on this type, in market time) the job may be at progress p no earlier than
    `(p - p0) * hours * 3600 / speedup` seconds after the start at p0. Without, each step takes as much longer as the
    type is slower than this machine would be at relative speed 1.
    """

    hours: float | None
    speedup: float
    relative_speed: float
    _began: float | None = None
    _from: float = 0.0
    _last: float = 0.0

    def begin(self, *, at: float, progress: float) -> None:
        """The job starts, or goes on, at time `at` (seconds) with this progress."""
        self._began, self._from, self._last = at, progress, at

    def delay(self, *, at: float, progress: float) -> float:
        """Seconds that the device still needs to have reached `progress`, asked at time `at`."""
        if self._began is None:
            self.begin(at=at, progress=progress)
        assert self._began is not None
        if self.hours is not None:
            due = self._began + (progress - self._from) * self.hours * 3600 / self.speedup
        else:
            due = at + max(0.0, at - self._last) * (1 / self.relative_speed - 1)
        self._last = max(at, due)
        return max(0.0, due - at)


def pacer(device: Device, *, expected_hours: str | None, speedup: float) -> Pacer | None:
    """The pacer of an emulated device; real devices have none."""
    if not device.emulated:
        return None
    hours = float(expected_hours) if expected_hours is not None else None
    return Pacer(hours, speedup, RELATIVE_SPEED.get(device.accelerator_type, 1.0))
