"""Resumable training in three lines: ``resume``, ``checkpoint`` and (in ``callbacks``) ``progress``.

A checkpoint is a directory that the job's own function fills. It is written beside its final place, hashed, synced
and renamed, so a directory with the final name is whole. Under a lease the host then commits it with the lease's
fence; on a laptop it stays in ``./checkpoints`` and the same script resumes from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from laissez.sdk.callbacks import Session, session

MANIFEST = "laissez-manifest.json"
SAVED_AND_STOPPED = 75  # exit status of a process that saved its state because it was told to leave
KEPT = 2  # committed checkpoints that stay on the local disk
_NAME = re.compile(r"checkpoint-(\d{6,})")


class DamagedCheckpoint(ValueError):
    """A checkpoint's files are not the ones that its manifest names."""


def resume() -> Path | None:
    """Return the directory of the checkpoint to go on from, or None for a fresh start.

    Under a lease this waits until the host knows (a stand-by process starts before its predecessor has saved). The
    files are checked against the checkpoint's manifest; ``DamagedCheckpoint`` is raised when they do not match.
    """
    current = session()
    if current.lease is None:
        return _resume_locally(current)
    answer = current.host().request("resume")
    if answer.get("path") is None:
        return None
    path = Path(answer["path"])
    if (path / MANIFEST).exists():
        _take_over(current, verify(path))
    return path


def checkpoint(save: Callable[[Path], None], due: bool = True) -> bool:
    """Save the job's state when it is due, or when the host asks for it; return whether a checkpoint was committed.

    ``save`` gets an empty directory to write into. When the host has told the job to leave, the process ends here
    (``SystemExit``) once the checkpoint is committed; what was not committed is never lost silently: then the call
    returns False and training goes on.
    """
    current = session()
    if current.lease is None:
        return due and _save(current, Path(os.environ.get("LAISSEZ_CHECKPOINT_DIR", "checkpoints")), save) is not None
    host = current.host()
    host.poll_pushes()
    if not due and not host.save_requested:
        return False
    began = time.monotonic()
    path = _save(current, current.lease.checkpoint_dir, save)
    answer = host.request(
        "checkpoint",
        name=path.name,
        progress=current.fraction,
        step=current.step,
        seconds=time.monotonic() - began,
    )
    if answer["then"] == "stop":
        raise SystemExit(SAVED_AND_STOPPED)
    return bool(answer["accepted"])


def verify(path: Path) -> dict[str, Any]:
    """Check a checkpoint directory against its manifest and return the manifest."""
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text())
        named = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{path} has no readable manifest: {error}") from error
    present = {str(file.relative_to(path)): file for file in _files(path)}
    if set(present) != set(named):
        raise DamagedCheckpoint(
            f"{path} holds other files than its manifest names: {sorted(set(present) ^ set(named))}"
        )
    for name, file in present.items():
        if _sha256(file) != named[name]["sha256"]:
            raise DamagedCheckpoint(f"{file} is not the file that was saved")
    return manifest


def _save(current: Session, root: Path, save: Callable[[Path], None]) -> Path:
    """Write, hash, sync and rename one checkpoint below ``root``; return its final directory."""
    root.mkdir(parents=True, exist_ok=True)
    number = max((number for number, _ in _committed(root)), default=0) + 1
    writing, final = root / f".writing-{os.getpid()}", root / f"checkpoint-{number:06d}"
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    try:
        save(writing)
        _seal(writing, current)
        writing.rename(final)
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise
    _sync(root)
    for _, old in sorted(_committed(root))[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def _seal(path: Path, current: Session) -> None:
    files = {}
    for file in _files(path):
        _sync(file)
        files[str(file.relative_to(path))] = {"sha256": _sha256(file), "size_bytes": file.stat().st_size}
    manifest = {"schema": 1, "progress": current.fraction, "step": current.step, "files": files}
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    _sync(path / MANIFEST)
    _sync(path)


def _resume_locally(current: Session) -> Path | None:
    root = Path(os.environ.get("LAISSEZ_CHECKPOINT_DIR", "checkpoints"))
    for _, path in sorted(_committed(root), reverse=True):
        try:
            _take_over(current, verify(path))
        except DamagedCheckpoint:
            continue
        return path
    return None


def _take_over(current: Session, manifest: dict[str, Any]) -> None:
    current.fraction, current.step = float(manifest.get("progress") or 0.0), manifest.get("step")


def _committed(root: Path) -> list[tuple[int, Path]]:
    if not root.is_dir():
        return []
    return [(int(match[1]), path) for path in root.iterdir() if (match := _NAME.fullmatch(path.name))]


def _files(path: Path) -> Iterator[Path]:
    """Every file below ``path`` but the manifest, in order; anything that is neither file nor directory is refused."""
    for entry in sorted(path.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _files(entry)
        elif not stat.S_ISREG(mode):
            raise DamagedCheckpoint(f"{entry} is neither a file nor a directory")
        elif entry.name != MANIFEST:
            yield entry


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
