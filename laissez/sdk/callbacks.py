"""The workload's side of its lease: what the host told this process, and the calls back to the host.

Standard library only, because every training process imports it. Outside a lease (no ``LAISSEZ_SOCKET``)
the same calls work locally and do nothing that needs a host.
"""

from __future__ import annotations

import json
import math
import os
import select
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

MAX_SOCKET_PATH = 100  # bytes; the kernel takes 107


class HostGone(ConnectionError):
    """The host closed the lease's socket: the lease is over and this process is about to be ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease that this process runs under, as the host described it in the environment."""

    job: str
    accelerator: str
    lease: str
    fence: int
    checkpoint_dir: Path
    resume_from: Path | None
    socket: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Lease | None:
        """Return the lease named by the ``LAISSEZ_*`` variables, or None outside one."""
        if not environment.get("LAISSEZ_SOCKET"):
            return None
        resume_from = environment.get("LAISSEZ_RESUME_FROM")
        return cls(
            job=environment["LAISSEZ_JOB"],
            accelerator=environment["LAISSEZ_ACCELERATOR"],
            lease=environment["LAISSEZ_LEASE"],
            fence=int(environment["LAISSEZ_FENCE"]),
            checkpoint_dir=Path(environment["LAISSEZ_CHECKPOINT_DIR"]),
            resume_from=Path(resume_from) if resume_from else None,
            socket=Path(environment["LAISSEZ_SOCKET"]),
        )


class HostSocket:
    """JSON lines to the host and back, one request at a time; lines with ``push`` arrive unasked."""

    def __init__(self, path: Path) -> None:
        self.save_requested = False
        self._lock = threading.Lock()
        self._buffer = b""
        self._socket = _connect(path)

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send one request and wait for its answer; ``HostGone`` when the host ends the lease meanwhile."""
        line = json.dumps({"op": op, **fields}, allow_nan=False).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(line)
                answer = self._answer()
            except OSError as error:
                raise HostGone(str(error)) from error
        if answer.get("error"):
            raise ValueError(str(answer["error"]))
        return answer

    def poll_pushes(self) -> None:
        """Take in what the host has said unasked, without waiting."""
        with self._lock:
            while b"\n" in self._buffer or select.select([self._socket], [], [], 0)[0]:
                self._note(self._line())

    def _answer(self) -> dict[str, Any]:
        while True:
            message = self._line()
            self._note(message)
            if "push" not in message:
                return message

    def _note(self, message: dict[str, Any]) -> None:
        if "save" in message:
            self.save_requested = bool(message["save"])

    def _line(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            chunk = self._socket.recv(65536)
            if not chunk:
                raise HostGone("the host closed the lease's socket")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise HostGone("the host sent something that is no message")
        return message


def _connect(path: Path) -> socket.socket:
    """Connect to a unix socket, through its directory's descriptor where the path is too long for the kernel."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            connection.connect(str(path))
            return connection
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)
    except OSError as error:
        connection.close()
        raise HostGone(f"cannot reach the host at {path}: {error}") from error
    return connection


@dataclass(slots=True)
class Session:
    """What this process knows of its lease: none when it runs on a laptop."""

    lease: Lease | None
    fraction: float = 0.0
    step: int | None = None
    _host: HostSocket | None = field(default=None, repr=False)
    _pid: int = 0

    def host(self) -> HostSocket:
        """The connection to the host; a forked child gets its own."""
        if self.lease is None:
            raise HostGone("this process runs outside a lease")
        if self._host is None or self._pid != os.getpid():
            self._host, self._pid = HostSocket(self.lease.socket), os.getpid()
        return self._host


@cache
def session() -> Session:
    """This process' session, read from its environment once."""
    return Session(Lease.from_environment(os.environ))


def progress(fraction: float, step: int | None = None, loss: float | None = None) -> None:
    """Tell the host how far the job is.

    ``fraction`` is the finished part of the whole job, from 0 to 1; ``step`` and ``loss`` are shown as they are (a loss
    that is not finite is shown as none). On an emulated device the call returns when that device would have got there.
    """
    done = float(fraction)
    if not 0.0 <= done <= 1.0:
        raise ValueError(f"progress is a fraction from 0 to 1, not {fraction!r}")
    current = session()
    current.fraction, current.step = done, None if step is None else int(step)
    if current.lease is not None:
        shown = None if loss is None or not math.isfinite(float(loss)) else float(loss)
        current.host().request("progress", progress=done, step=current.step, loss=shown)
