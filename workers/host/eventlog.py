"""A shim's journal: one JSON line per event in a file that the daemon reads, also after the shim has died."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LOG_CHUNK_CHARACTERS = 16_384


class EventLog:
    """Appends numbered events. Every line is written by one call, so a kill leaves whole lines or a last broken one."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.count = 0

    def append(self, event: dict[str, Any]) -> None:
        """Write one event down before anybody hears of it."""
        self.count += 1
        shown = {name: _storable(value) for name, value in event.items()}
        line = json.dumps({"n": self.count, **shown}, allow_nan=False) + "\n"
        os.write(self._descriptor, line.encode())


def read(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The whole events at and after byte `offset`, and the offset to go on from."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read()
    except FileNotFoundError:
        return [], offset
    whole = data[: data.rfind(b"\n") + 1]
    return [event for line in whole.splitlines() if (event := _event(line)) is not None], offset + len(whole)


def _event(line: bytes) -> dict[str, Any] | None:
    """One line as an event; None for what a full disk has cut short."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "kind" in event else None


def _storable(value: Any) -> Any:
    """Text without the one character that databases do not hold."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


class OutputLog:
    """Turns a lease's output into log events up to a cap; what follows is dropped after a line that says so."""

    def __init__(self, events: EventLog, cap_bytes: int) -> None:
        self._events, self._cap, self.offset, self._cut = events, cap_bytes, 0, False

    def write(self, stream: str, text: str) -> bool:
        """Log some output of `stream`; return whether anything was kept."""
        if self._cut or not text:
            return False
        data = text.encode()
        room = self._cap - self.offset
        if len(data) > room:
            self._cut = True
            self._append(stream, data[:room].decode(errors="ignore"))
            self._append("host", f"\n[output cut: this lease may log {self._cap} bytes]\n")
            return True
        for start in range(0, len(text), LOG_CHUNK_CHARACTERS):
            self._append(stream, text[start : start + LOG_CHUNK_CHARACTERS])
        return True

    def _append(self, stream: str, text: str) -> None:
        if text:
            self._events.append({"kind": "log", "stream": stream, "offset": self.offset, "text": text})
            self.offset += len(text.encode())
