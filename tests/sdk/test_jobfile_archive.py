"""Packing a directory: reproducible, and closed to what lies outside it."""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from laissez.sdk import archive
from laissez.sdk.archive import pack
from laissez.sdk.jobfile import JobFileError


def names_in(packed: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return tar.getnames()


def test_the_same_tree_gives_the_same_bytes_wherever_and_whenever_it_lies(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "data").mkdir(parents=True)
    (first / "train.py").write_text("print(1)")
    (first / "data" / "words").write_text("a b")
    shutil.copytree(first, second)
    os.utime(second / "train.py", (1, 1))
    assert pack(first) == pack(second)
    assert names_in(pack(first)) == ["data/words", "train.py"]


def test_only_the_executable_bit_of_a_mode_travels(tmp_path: Path):
    (tmp_path / "run.sh").touch(mode=0o777)
    (tmp_path / "train.py").touch(mode=0o600)
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path))) as tar:
        assert {entry.name: entry.mode for entry in tar} == {"run.sh": 0o755, "train.py": 0o644}


def test_a_link_that_leaves_the_directory_is_refused_by_name(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.touch()
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "inside").symlink_to(secret)
    with pytest.raises(JobFileError, match="inside: is a link that leaves the directory"):
        pack(tmp_path / "job")


def test_a_folder_behind_a_link_is_refused(tmp_path: Path):
    (tmp_path / "job" / "real").mkdir(parents=True)
    (tmp_path / "job" / "again").symlink_to("real")
    with pytest.raises(JobFileError, match="again: is neither a file nor a folder of this directory"):
        pack(tmp_path / "job")


def test_links_that_stay_inside_become_plain_files(tmp_path: Path):
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "main.py").symlink_to("train.py")
    os.link(tmp_path / "train.py", tmp_path / "hard.py")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path))) as tar:
        assert [(entry.name, entry.isreg(), entry.size) for entry in tar] == [
            ("hard.py", True, 8),
            ("main.py", True, 8),
            ("train.py", True, 8),
        ]


def test_a_pipe_or_socket_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JobFileError, match="pipe: is neither a file nor a folder"):
        pack(tmp_path)


def test_ignored_are_a_few_things_always_and_what_the_ignore_file_names(tmp_path: Path):
    kept = ["train.py", "data/keep.bin", "src/model.py", "logs.txt"]
    dropped = [
        ".git/HEAD",
        "__pycache__/x.pyc",
        "checkpoints/1",
        "data/big.bin",
        "logs/run.txt",
        "notes.tmp",
        "src/a.tmp",
    ]
    for name in [*kept, *dropped]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".laissezignore").write_text("# big things\n*.tmp\nlogs/\n/data/*.bin\n!/data/keep.bin\n")
    assert sorted(names_in(pack(tmp_path))) == sorted(kept)


def test_an_empty_directory_is_refused(tmp_path: Path):
    with pytest.raises(JobFileError, match="holds no file to send"):
        pack(tmp_path)


def test_a_directory_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(archive.UNPACKED_LIMIT_BYTES + 1)
    with pytest.raises(JobFileError, match=r"add a \.laissezignore"):
        pack(tmp_path)
