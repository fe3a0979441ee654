"""Checkpoints on their way to and from the store, and artifacts in the host's cache; all of it hashed on the way.

The functions block; the daemon calls them in threads.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import fsspec

from workers.host.archives import pack

CHUNK = 1 << 20


class TransferFailed(RuntimeError):
    """A checkpoint or artifact could not be moved, or is not what it should be."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint in the store."""

    uri: str
    sha256: str
    size_bytes: int


def upload(directory: Path, uri: str) -> Stored:
    """Pack a directory into the store at `uri`; a local store sees the file whole or not at all."""
    try:
        local = local_path(uri)
        if local is not None:
            return Stored(uri, *_pack_locally(directory, local))
        with fsspec.open(uri, "wb") as sink:
            return Stored(uri, *pack(directory, sink))
    except (OSError, ValueError) as error:
        raise TransferFailed(f"the checkpoint cannot be stored at {uri}: {error}") from error


def _pack_locally(directory: Path, target: Path) -> tuple[str, int]:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as sink:
            described = pack(directory, sink)
            sink.flush()
            os.fsync(sink.fileno())
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return described


def fetch(uri: str, sha256: str, target: Path) -> None:
    """Bring a checkpoint from the store to `target` and check its hash."""
    digest = hashlib.sha256()
    try:
        local = local_path(uri)
        opened = local.open("rb") if local is not None else fsspec.open(uri, "rb")
        with opened as source, target.open("wb") as sink:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                sink.write(chunk)
    except (OSError, ValueError) as error:
        raise TransferFailed(f"the checkpoint {uri} cannot be read: {error}") from error
    if digest.hexdigest() != sha256:
        raise TransferFailed(f"the checkpoint {uri} is not the one that was committed: its hash differs")
    target.chmod(0o644)


def sha256_of(path: Path) -> str:
    """The hash of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def local_path(uri: str) -> Path | None:
    """The path of a `file://` address or plain path, None for anything else."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri) if parts.scheme == "" else None
