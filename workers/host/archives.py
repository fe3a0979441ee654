"""Archives from strangers: unpacked member by member against a list of what is allowed, packed without following links.

Runs alone inside a sandbox (``python -I -S archives.py FILE DIRECTORY``), standard library only.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import lzma
import os
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

CHUNK = 1 << 16
GZIP = b"\x1f\x8b"


class ArchiveRefused(ValueError):
    """An archive breaks a rule; the message names the member and the rule."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that an archive may hold."""

    total_bytes: int = 2 << 30
    members: int = 20_000
    depth: int = 32
    name_bytes: int = 512


class _Capped(io.RawIOBase):
    """A stream that ends with an error once more bytes have been read than allowed: bombs stop here."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most, self._read = stream, most, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size if size >= 0 else CHUNK)
        self._read += len(data)
        if self._read > self._most:
            raise ArchiveRefused(f"the archive unpacks to more than {self._most} bytes")
        return data


def extract(archive: Path, directory: Path, caps: Caps | None = None) -> int:
    """Unpack a tar, plain or gzipped, into an existing empty ``directory``; return the number of members.

    Only plain files and directories with relative names that stay inside are taken; owners, times, special bits and
    extended attributes are not. Raises ``ArchiveRefused`` at the first member that breaks a rule.
    """
    caps = caps or Caps()
    count = 0
    try:
        with archive.open("rb") as raw, _tar(raw, caps) as tar:
            for member in tar:
                count += 1
                if count > caps.members:
                    raise ArchiveRefused(f"the archive holds more than {caps.members} members")
                _take(tar, member, directory, caps)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ArchiveRefused(f"the archive is damaged: {error}") from error
    except MemoryError as error:
        raise ArchiveRefused("the archive's headers need more memory than there is") from error
    return count


def _tar(raw: BinaryIO, caps: Caps) -> tarfile.TarFile:
    packed = raw.peek(2)[:2] if isinstance(raw, io.BufferedReader) else b""
    stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed == GZIP else raw
    overhead = 2048 * caps.members
    return tarfile.open(fileobj=cast("IO[bytes]", _Capped(stream, caps.total_bytes + overhead)), mode="r|")


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, directory: Path, caps: Caps) -> None:
    path = checked_name(member.name, caps)
    if member.isdir():
        (directory / path).mkdir(parents=True, exist_ok=True)
        return
    if not member.isreg() or member.issparse():
        raise ArchiveRefused(f"member {member.name!r} is {_kind(member)}; only files and directories are allowed")
    if path == PurePosixPath("."):
        raise ArchiveRefused(f"member {member.name!r} is no file name")
    source = tar.extractfile(member)
    if source is None:
        raise ArchiveRefused(f"member {member.name!r} has no content")
    target = directory / path
    mode = 0o755 if member.mode & 0o111 else 0o644
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except (FileExistsError, NotADirectoryError) as error:
        raise ArchiveRefused(f"member {member.name!r} appears twice, or lies below a file") from error
    with os.fdopen(descriptor, "wb") as sink:
        while chunk := source.read(CHUNK):
            sink.write(chunk)


def checked_name(name: str, caps: Caps) -> PurePosixPath:
    """Return a member's name as a relative path that stays inside, or raise ``ArchiveRefused``."""
    path = PurePosixPath(name)
    if path.is_absolute():
        raise ArchiveRefused(f"member {name!r} has an absolute name")
    if ".." in path.parts:
        raise ArchiveRefused(f"member {name!r} leaves the directory")
    if "\0" in name or len(name.encode(errors="surrogateescape")) > caps.name_bytes or len(path.parts) > caps.depth:
        raise ArchiveRefused(f"member {name[:80]!r} has a name that is too long, too deep or not text")
    return path


def _kind(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return f"a link to {member.linkname!r}"
    if member.ischr() or member.isblk():
        return "a device"
    return "a pipe" if member.isfifo() else "of an unknown kind"


class _Hashing:
    """A writer that counts and hashes what passes through."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink, self.digest, self.size = sink, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._sink.write(data)


def pack(directory: Path, sink: IO[bytes]) -> tuple[str, int]:
    """Write ``directory`` as a tar that depends on its content only; return the tar's sha256 and size in bytes.

    The directory belongs to a stranger who may change it meanwhile: nothing is opened through a link, and anything
    that is neither file nor directory raises ``ArchiveRefused``.
    """
    hashing = _Hashing(sink)
    with tarfile.open(fileobj=cast("IO[bytes]", hashing), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name, descriptor, size in _walk(directory):
            member = tarfile.TarInfo(name)
            member.mode = 0o755 if size is None else 0o644
            if size is None:
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
                continue
            member.size = size
            with os.fdopen(os.dup(descriptor), "rb") as source:
                tar.addfile(member, source)
    return hashing.digest.hexdigest(), hashing.size


def _walk(directory: Path) -> Iterator[tuple[str, int, int | None]]:
    """Yield (relative name, descriptor, size or None for a directory), in order, every step by descriptor."""
    top = os.fspath(directory)
    for folder, folders, files, at in os.fwalk(top, follow_symlinks=False):
        folders.sort()
        prefix = os.path.relpath(folder, top)
        for name in folders + sorted(files):
            label = name if prefix == "." else f"{prefix}/{name}"
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
            except OSError as error:
                raise ArchiveRefused(f"{label!r} cannot be packed: {error.strerror}") from error
            try:
                about = os.fstat(descriptor)
                if stat.S_ISDIR(about.st_mode):
                    yield label, descriptor, None
                elif stat.S_ISREG(about.st_mode):
                    yield label, descriptor, about.st_size
                else:
                    raise ArchiveRefused(f"{label!r} is neither a file nor a directory")
            finally:
                os.close(descriptor)


def main(arguments: list[str]) -> int:
    """Unpack from the command line; a refusal goes to standard error with exit status 1."""
    parser = argparse.ArgumentParser(prog="archives")
    parser.add_argument("archive", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--total-bytes", type=int, default=Caps().total_bytes)
    options = parser.parse_args(arguments)
    try:
        extract(options.archive, options.directory, Caps(total_bytes=options.total_bytes))
    except (ArchiveRefused, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
