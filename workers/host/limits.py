"""What one lease may use: a job's `limits`, with defaults, as kernel limits and as watched totals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps of one lease; bytes and seconds. Memory counts per process (address space) and in total (resident)."""

    memory_bytes: int = 4 * GIB
    processes: int = 256
    cpu_seconds: int | None = None
    output_bytes: int = MIB
    disk_bytes: int = 4 * GIB
    files: int = 50_000
    shared_memory_bytes: int = 256 * MIB

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Limits:
        """Read a job's `limits`; names that are missing or null keep their default."""
        names = ("memory_bytes", "processes", "cpu_seconds", "output_bytes", "disk_bytes")
        return cls(**{name: int(spec[name]) for name in names if spec.get(name) is not None})

    def kernel(self, *, count_processes: bool) -> dict[str, tuple[int, int]]:
        """The limits that the kernel holds for each process: name of the resource to (soft, hard)."""
        limits = {
            "RLIMIT_AS": (self.memory_bytes, self.memory_bytes),
            "RLIMIT_FSIZE": (self.disk_bytes, self.disk_bytes),
            "RLIMIT_NOFILE": (4096, 4096),
            "RLIMIT_CORE": (0, 0),
        }
        if count_processes:
            limits["RLIMIT_NPROC"] = (self.processes, self.processes)
        if self.cpu_seconds is not None:
            limits["RLIMIT_CPU"] = (self.cpu_seconds, self.cpu_seconds + 5)
        return limits
