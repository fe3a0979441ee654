"""What the daemon writes down for a shim before starting it, and how a shim's programs see their lease."""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workers.host.devices import Device, Pacer, pacer
from workers.host.executors import Places
from workers.host.protocol import DesiredLease, JobSpec

FILE = "lease.json"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Order:
    """One lease as its shim is told about it; `until` is its first deadline in seconds since boot."""

    lease: str
    job: str
    fence: int
    index: int
    accelerator_type: str
    emulated: bool
    expected_hours: str | None
    speedup: float
    spec: dict[str, Any]
    resume_state: str  # none | wait | ready; anything but none is settled by a message
    artifact: dict[str, Any] | None  # url, sha256, size_bytes
    bwrap: str | None  # None: bare processes
    uid: int | None
    mark: str
    secret: str
    until: float

    def write(self, directory: Path) -> None:
        """Leave the order in the lease's directory, for the host's own eyes."""
        descriptor = os.open(directory / FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(self), file)

    @classmethod
    def read(cls, directory: Path) -> Order:
        """Read the order back; `ValueError` or `OSError` when there is no whole one."""
        value = json.loads((directory / FILE).read_text())
        try:
            return cls(**value)
        except TypeError as error:
            raise ValueError(f"{directory / FILE} is no lease order: {error}") from error

    @classmethod
    def of(
        cls,
        desired: DesiredLease,
        device: Device,
        *,
        speedup: float,
        bwrap: Path | None,
        uid: int | None,
        until: float,
    ) -> Order:
        """Write down what the control plane wants of a lease and what this host adds."""
        return cls(
            lease=desired.lease,
            job=desired.job,
            fence=desired.fence,
            index=device.index,
            accelerator_type=device.accelerator_type,
            emulated=device.emulated,
            expected_hours=desired.expected_hours,
            speedup=speedup,
            spec=dict(desired.spec),
            resume_state=desired.resume.state,
            artifact=asdict(desired.artifact) if desired.artifact is not None else None,
            bwrap=str(bwrap) if bwrap is not None else None,
            uid=uid,
            mark=f"LAISSEZ_MARK={secrets.token_hex(16)}",
            secret=secrets.token_hex(32),
            until=until,
        )

    def job_spec(self) -> JobSpec:
        """The job's specification for this lease's accelerator type."""
        return JobSpec.of(self.spec, self.accelerator_type)

    def pacer(self) -> Pacer | None:
        """What holds the job to an emulated device's speed."""
        device = Device(self.index, self.accelerator_type, self.emulated)
        return pacer(device, expected_hours=self.expected_hours, speedup=self.speedup)


def environment(order: Order, spec: JobSpec, places: Places, *, resumes: bool) -> dict[str, str]:
    """The environment of a lease's programs.

    Numeric libraries get one thread unless the job says otherwise: sums then come out the same on every host.
    """
    own = spec.environment
    paths = [str(places.python_path), *([own["PYTHONPATH"]] if own.get("PYTHONPATH") else [])]
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:{places.tools / 'bin'}",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(THREADS, "1"),
        **own,
        "PYTHONPATH": ":".join(paths),
        "LAISSEZ_JOB": order.job,
        "LAISSEZ_LEASE": order.lease,
        "LAISSEZ_FENCE": str(order.fence),
        "LAISSEZ_ACCELERATOR": order.accelerator_type,
        "LAISSEZ_CHECKPOINT_DIR": str(places.checkpoints),
        "LAISSEZ_SOCKET": str(places.socket),
        **({"LAISSEZ_RESUME_FROM": str(places.resume)} if resumes else {}),
    }
