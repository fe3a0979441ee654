"""Archives from strangers: every known attack is refused by name, and what is packed comes back the same."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.host.conftest import Host
from workers.host.archives import ArchiveRefused, Caps, checked_name, extract, main, pack


def archive(path: Path, *members: tarfile.TarInfo, content: bytes = b"x", packed: bool = False) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz" if packed else "w") as tar:
        for member in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes(buffer.getvalue())
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    ("evil", "why"),
    [
        (member("../escape"), "leaves the directory"),
        (member("a/../../escape"), "leaves the directory"),
        (member("/etc/passwd"), "absolute name"),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"), "a link to '/etc/passwd'"),
        (member("hard", tarfile.LNKTYPE, "good"), "a link to 'good'"),
        (member("null", tarfile.CHRTYPE), "a device"),
        (member("disk", tarfile.BLKTYPE), "a device"),
        (member("pipe", tarfile.FIFOTYPE), "a pipe"),
        (member("good"), "appears twice"),
        (member("good/below"), "appears twice, or lies below a file"),
        (member("/".join("d" * 40)), "too deep"),
        (member("n" * 600), "too long"),
        (member("."), "no file name"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_hostile_member_is_refused_by_name(tmp_path, evil, why, packed):
    (tmp_path / "out").mkdir()
    path = archive(tmp_path / "a.tar", member("good"), evil, packed=packed)
    with pytest.raises(ArchiveRefused, match=why.replace("(", r"\(")):
        extract(path, tmp_path / "out")
    assert not (tmp_path / "escape").exists()


def test_a_bomb_stops_at_its_cap(tmp_path):
    (tmp_path / "out").mkdir()
    path = archive(tmp_path / "a.tar", member("zeros"), content=bytes(64 << 20), packed=True)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ArchiveRefused, match="unpacks to more than"):
        extract(path, tmp_path / "out", Caps(total_bytes=1 << 20, members=10))
    assert (tmp_path / "out/zeros").stat().st_size <= 2 << 20


def test_a_member_that_claims_a_huge_size_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    huge = member("huge")
    huge.size = 1 << 60
    (tmp_path / "a.tar").write_bytes(huge.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(ArchiveRefused):
        extract(tmp_path / "a.tar", tmp_path / "out")


def test_too_many_members_are_refused(tmp_path):
    (tmp_path / "out").mkdir()
    path = archive(tmp_path / "a.tar", *(member(str(number)) for number in range(20)))
    with pytest.raises(ArchiveRefused, match="more than 10 members"):
        extract(path, tmp_path / "out", Caps(members=10))


@pytest.mark.parametrize(
    "rubbish",
    [b"not a tar at all" * 100, gzip.compress(b"neither" * 1000, mtime=0), b"\x1f\x8bbroken"],
    ids=["plain text", "compressed text", "broken compression"],
)
def test_what_is_no_archive_is_refused(tmp_path, rubbish, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "a.tar").write_bytes(rubbish)
    assert main([str(tmp_path / "a.tar"), str(tmp_path / "out")]) == 1
    assert "damaged" in capsys.readouterr().err


def test_special_bits_and_owners_are_not_taken(tmp_path):
    (tmp_path / "out").mkdir()
    program = member("program")
    program.mode, program.uid = 0o6777, 12345
    extract(archive(tmp_path / "a.tar", program), tmp_path / "out")
    assert (tmp_path / "out/program").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "out/program").stat().st_uid == os.getuid()


def test_what_is_packed_comes_back_and_depends_on_the_content_only(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep/er").mkdir(parents=True)
    target.mkdir()
    (source / "deep/er/weights.bin").write_bytes(os.urandom(100_000))
    (source / "empty").write_text("")
    first, second = io.BytesIO(), io.BytesIO()
    described = pack(source, first)
    os.utime(source / "empty", (1, 1))
    assert pack(source, second) == described
    assert first.getvalue() == second.getvalue()
    (tmp_path / "a.tar").write_bytes(first.getvalue())
    extract(tmp_path / "a.tar", target)
    assert (target / "deep/er/weights.bin").read_bytes() == (source / "deep/er/weights.bin").read_bytes()
    assert (target / "empty").read_text() == ""


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe"])
def test_packing_follows_no_link_and_reads_no_pipe(tmp_path, kind):
    source = tmp_path / "source"
    source.mkdir()
    match kind:
        case "link":
            (source / "x").symlink_to("/etc/passwd")
        case "folder link":
            (source / "x").symlink_to("/etc")
        case "pipe":
            os.mkfifo(source / "x")
    with pytest.raises(ArchiveRefused, match="'x'"):
        pack(source, io.BytesIO())


@given(st.text(max_size=60))
def test_a_name_that_is_accepted_stays_inside(name):
    try:
        path = checked_name(name, Caps())
    except ArchiveRefused:
        return
    assert os.path.normpath(os.path.join("/base", path)).startswith("/base")


@pytest.mark.usefixtures("sandboxed")
def test_a_hostile_artifact_fails_the_lease_with_the_rule_that_it_breaks(host: Host, tmp_path):
    path = archive(tmp_path / "a.tar", member("../../host.json"))
    lease = host.run("", artifact=host.plane.add_archive(path.read_bytes()))
    report = host.end(lease)
    assert report["reason"] == "failed"
    assert report["detail"] == "the artifact was refused: member '../../host.json' leaves the directory"
