"""The daemon's memory: reports until they are acknowledged, what has been read of each shim's journal, message numbers.

An SQLite file in the state directory, so that a kill at any instant leaves either all of a step or nothing of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS boots (boot INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE IF NOT EXISTS reports (
    id INTEGER PRIMARY KEY, lease TEXT NOT NULL, body TEXT NOT NULL, checkpoint INTEGER, result TEXT,
    acknowledged INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS one_report_per_checkpoint ON reports (lease, checkpoint);
CREATE TABLE IF NOT EXISTS leases (
    lease TEXT PRIMARY KEY, fence INTEGER NOT NULL, accelerator INTEGER NOT NULL, offset INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0
);
"""


@dataclass(frozen=True, slots=True)
class KnownLease:
    """A lease that this host has had to do with: `offset` is how far its shim's journal has been taken in."""

    lease: str
    fence: int
    accelerator: int
    offset: int
    ended: bool


class Journal:
    """All methods are one transaction each and quick; the daemon calls them from its loop."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(SCHEMA)
        with self._transaction():
            self._boot = int(self._database.execute("INSERT INTO boots DEFAULT VALUES").lastrowid or 0)
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._next_message = self._next_report = 0

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def next_message(self) -> int:
        """A number larger than that of any earlier sync of this host."""
        self._next_message += 1
        return (self._boot << 32) | self._next_message

    def new_boot(self) -> None:
        """Leap ahead: the control plane has seen a number that this journal does not know."""
        with self._transaction():
            self._boot = int(self._database.execute("INSERT INTO boots DEFAULT VALUES").lastrowid or 0)
        self._next_message = self._next_report = 0

    def know(self, lease: str, fence: int, accelerator: int) -> None:
        """Remember a lease before anything is started for it."""
        self._database.execute(
            "INSERT OR IGNORE INTO leases (lease, fence, accelerator) VALUES (?, ?, ?)", (lease, fence, accelerator)
        )

    def leases(self) -> list[KnownLease]:
        """Every lease that is not forgotten."""
        rows = self._database.execute("SELECT lease, fence, accelerator, offset, ended FROM leases ORDER BY lease")
        return [KnownLease(lease, fence, index, offset, bool(ended)) for lease, fence, index, offset, ended in rows]

    def lease(self, lease: str) -> KnownLease | None:
        """One lease, None when it is not known."""
        return next((known for known in self.leases() if known.lease == lease), None)

    def report(self, lease: str, fence: int, body: Mapping[str, Any], *, checkpoint: int | None = None) -> int | None:
        """Keep a report until it is acknowledged; None when that checkpoint has been reported before."""
        with self._transaction():
            return self._insert(lease, fence, body, checkpoint)

    def take_in(self, lease: str, fence: int, bodies: Iterable[Mapping[str, Any]], offset: int) -> None:
        """Keep what a shim's journal said up to byte `offset`; an exit report among it ends the lease."""
        with self._transaction():
            for body in bodies:
                self._insert(lease, fence, body, None)
                if body["kind"] == "exit":
                    self._database.execute("UPDATE leases SET ended = 1 WHERE lease = ?", (lease,))
            self._database.execute("UPDATE leases SET offset = ? WHERE lease = ?", (offset, lease))

    def end(self, lease: str, fence: int, exit_report: Mapping[str, Any]) -> bool:
        """End a lease whose shim said nothing; False when it had ended already."""
        with self._transaction():
            changed = self._database.execute("UPDATE leases SET ended = 1 WHERE lease = ? AND ended = 0", (lease,))
            if changed.rowcount == 1:
                self._insert(lease, fence, exit_report, None)
            return changed.rowcount == 1

    def pending(self, *, most: int = 200, most_bytes: int = 512 * 1024) -> list[dict[str, Any]]:
        """The oldest unacknowledged reports, in order, as many as one message may hold."""
        rows = self._database.execute(
            "SELECT id, body FROM reports WHERE acknowledged = 0 ORDER BY id LIMIT ?", (most,)
        )
        reports: list[dict[str, Any]] = []
        size = 0
        for number, body in rows:
            size += len(body)
            if reports and size > most_bytes:
                break
            reports.append({"id": number, **json.loads(body)})
        return reports

    def settle(self, acknowledged: int, results: Mapping[int, Mapping[str, Any]], refused: Iterable[int]) -> None:
        """Take in what the control plane has dealt with; answers to checkpoints stay until their lease is forgotten."""
        with self._transaction():
            for number, result in results.items():
                self._database.execute("UPDATE reports SET result = ? WHERE id = ?", (json.dumps(result), number))
            for number in refused:
                self._database.execute("UPDATE reports SET acknowledged = 1 WHERE id = ?", (number,))
            self._database.execute("UPDATE reports SET acknowledged = 1 WHERE id <= ?", (acknowledged,))
            self._database.execute("DELETE FROM reports WHERE acknowledged = 1 AND checkpoint IS NULL")

    def checkpoint_reported(self, lease: str, sequence: int) -> bool:
        """Whether that checkpoint of the lease has been reported."""
        found = self._database.execute(
            "SELECT 1 FROM reports WHERE lease = ? AND checkpoint = ?", (lease, sequence)
        ).fetchone()
        return found is not None

    def checkpoint_result(self, lease: str, sequence: int) -> dict[str, Any] | None:
        """The control plane's answer to a checkpoint, None while there is none."""
        found = self._database.execute(
            "SELECT result FROM reports WHERE lease = ? AND checkpoint = ?", (lease, sequence)
        ).fetchone()
        if found is None or found[0] is None:
            return None
        answer: dict[str, Any] = json.loads(found[0])
        return answer

    def has_pending(self, lease: str) -> bool:
        """Whether something that the lease said is unacknowledged."""
        found = self._database.execute(
            "SELECT 1 FROM reports WHERE lease = ? AND acknowledged = 0 LIMIT 1", (lease,)
        ).fetchone()
        return found is not None

    def forget(self, lease: str) -> None:
        """Remove an ended lease."""
        with self._transaction():
            self._database.execute("DELETE FROM reports WHERE lease = ?", (lease,))
            self._database.execute("DELETE FROM leases WHERE lease = ?", (lease,))

    def _insert(self, lease: str, fence: int, body: Mapping[str, Any], checkpoint: int | None) -> int | None:
        self._next_report += 1
        number = (self._boot << 32) | self._next_report
        text = json.dumps({"lease": lease, "fence": fence, **body}, allow_nan=False)
        written = self._database.execute(
            "INSERT OR IGNORE INTO reports (id, lease, body, checkpoint) VALUES (?, ?, ?, ?)",
            (number, lease, text, checkpoint),
        )
        return number if written.rowcount == 1 else None

    def _transaction(self) -> _Transaction:
        return _Transaction(self._database)


class _Transaction:
    """BEGIN IMMEDIATE to COMMIT, or ROLLBACK."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")
