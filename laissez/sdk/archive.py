"""Packs a workload's directory for upload: the same tree gives the same bytes, and nothing from outside gets in."""

import fnmatch
import gzip
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from laissez.sdk.jobfile import Fault, JobFileError

IGNORE_FILE = ".laissezignore"
ALWAYS_IGNORED = (
    ".git/",
    ".venv/",
    "__pycache__/",
    "*.pyc",
    "/checkpoints/",
    IGNORE_FILE,
)
ARCHIVE_LIMIT_BYTES = 64 * 1024 * 1024
UNPACKED_LIMIT_BYTES = 512 * 1024 * 1024
FILES_LIMIT = 10_000


def pack(directory: Path) -> bytes:
    """`directory` as a tar.gz that depends on nothing but names, contents and executable bits: the same tree gives the
    same bytes on any machine. Links that stay inside become plain files. Raises JobFileError for a link that leaves,
    a linked folder, a device or socket, and a directory that is too large.
    """
    root = directory.resolve()
    ignored = [*ALWAYS_IGNORED, *_ignore_patterns(root)]
    names = sorted(_files(root, root, ignored))
    if not names:
        raise JobFileError(root, [Fault("directory", "holds no file to send")])
    if len(names) > FILES_LIMIT:
        raise JobFileError(
            root,
            [
                Fault(
                    "directory",
                    f"holds {len(names)} files, more than {FILES_LIMIT}; add a {IGNORE_FILE}",
                )
            ],
        )
    total = sum((root / name).stat().st_size for name in names)
    if total > UNPACKED_LIMIT_BYTES:
        raise JobFileError(
            root,
            [
                Fault(
                    "directory",
                    f"holds {total} bytes, over {UNPACKED_LIMIT_BYTES}; add a {IGNORE_FILE}",
                )
            ],
        )
    archive = _archive((name, (root / name).read_bytes(), os.access(root / name, os.X_OK)) for name in names)
    if len(archive) > ARCHIVE_LIMIT_BYTES:
        fault = Fault(
            "directory",
            f"packs to {len(archive)} bytes, over {ARCHIVE_LIMIT_BYTES}; add a {IGNORE_FILE}",
        )
        raise JobFileError(root, [fault])
    return archive


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """Single files by their names as a tar.gz, the same bytes as `pack` of a directory that holds just them."""
    return _archive((name, files[name], False) for name in sorted(files))


def _archive(entries: Iterable[tuple[str, bytes, bool]]) -> bytes:
    """The tar.gz of entries of name, content and whether it may be run."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content, runs in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755 if runs else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _files(folder: Path, root: Path, ignored: list[str]) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda found: found.name):
        name = Path(entry.path).relative_to(root).as_posix()
        is_folder = entry.is_dir(follow_symlinks=False)
        if _is_ignored(name, ignored, is_folder):
            continue
        if is_folder:
            yield from _files(Path(entry.path), root, ignored)
            continue
        target = Path(entry.path).resolve()
        if entry.is_symlink() and not target.is_relative_to(root):
            raise JobFileError(
                root,
                [Fault(name, f"is a link that leaves the directory (to {target})")],
            )
        if not target.exists():
            raise JobFileError(root, [Fault(name, "is a link to nothing")])
        if not stat.S_ISREG(target.stat().st_mode):
            raise JobFileError(root, [Fault(name, "is neither a file nor a folder of this directory")])
        yield name


def _ignore_patterns(root: Path) -> list[str]:
    file = root / IGNORE_FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _is_ignored(name: str, patterns: list[str], is_folder: bool) -> bool:
    """As in a .gitignore: the last pattern that fits decides, `!` takes back, `/` at the end means folders only, and a
    slash elsewhere ties the pattern to the directory's top.
    """
    ignored = False
    for pattern in patterns:
        keep, bare = pattern.startswith("!"), pattern.removeprefix("!")
        if bare.endswith("/") and not is_folder:
            continue
        bare = bare.rstrip("/")
        subject = name if "/" in bare else name.rsplit("/", 1)[-1]
        if fnmatch.fnmatchcase(subject, bare.removeprefix("/")):
            ignored = not keep
    return ignored
