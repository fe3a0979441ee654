"""Hostile workloads: what they may not reach, and what they may not use up."""

from __future__ import annotations

import itertools
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.host.conftest import Host
from workers.host import processes, sandbox
from workers.host.limits import Limits

pytestmark = pytest.mark.usefixtures("sandboxed")


def printed(host: Host, script: str, **fields: object) -> str:
    """Run a script to its end and return what it printed."""
    lease = host.run(script, **fields)
    report = host.end(lease)
    assert report["reason"] == "completed", host.plane.text(lease)
    return host.plane.text(lease, "stdout")


def test_there_is_no_network(host: Host) -> None:
    port = int(host.plane.url.rpartition(":")[2])
    script = f"""
import socket
for address in ("127.0.0.1", {port}), ("1.1.1.1", 53):
    try:
        socket.create_connection(address, 1)
        print("REACHED", address)
    except OSError as error:
        print(type(error).__name__)
"""
    assert printed(host, script) == "ConnectionRefusedError\nOSError\n"


def test_neither_the_hosts_key_nor_its_state_nor_the_project_can_be_read(host: Host) -> None:
    state, project = host.state_dir, Path(sandbox.__file__).parents[2]
    secrets = [state / "host.json", state / "journal.sqlite3", state / "leases", state / "artifacts", host.plane.store]
    secrets += [project / "manage.py", project / "workers", project / "laissez/settings.py", project / ".local"]
    secrets += [Path("/etc/shadow"), Path("/etc/passwd"), Path("/var")]
    if not Path(sys.prefix).is_relative_to("/home"):  # else the folders above the interpreter, and nothing beside it
        secrets.append(Path("/home"))
    script = f"""
import os
for path in {[str(path) for path in secrets]}:
    try:
        os.stat(path)
        print("SEEN", path, len(os.listdir(path)) if os.path.isdir(path) else len(open(path, "rb").read()))
    except OSError:
        pass
"""
    assert printed(host, script) == ""


def test_the_launchers_environment_and_the_hosts_processes_are_out_of_sight(host: Host) -> None:
    script = """
import glob
print(sorted(open(path).read().split(chr(0))[0].rpartition("/")[2] for path in glob.glob("/proc/[0-9]*/cmdline")))
try:
    print([line.partition("=")[0] for line in open("/proc/1/environ").read().split(chr(0)) if line])
except OSError:
    print([])
"""
    seen = printed(host, script).splitlines()
    assert seen[0] in ("['bwrap', 'python']", "['bwrap', 'python3']")
    assert seen[1] in ("[]", "['LAISSEZ_MARK']")  # by which the host finds what a lease left behind


def test_the_root_is_read_only_and_only_the_jobs_places_can_be_written(host: Host) -> None:
    script = """
import os
for place in "/", "/usr", "/dev", "/run/laissez", "/resume", "/job", "/checkpoints", "/tmp", "/dev/shm":
    try:
        open(os.path.join(place, "mine"), "w").close()
        print("wrote", place)
    except OSError:
        pass
"""
    assert printed(host, script) == "wrote /job\nwrote /checkpoints\nwrote /tmp\nwrote /dev/shm\n"


def test_no_rights_can_be_won_back(host: Host) -> None:
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["CapEff"], 16), status["NoNewPrivs"].strip(), os.getuid(), os.getgroups() in ([], [1000], [65534]))
print("namespace", libc.unshare(0x10000000))
print("mount", libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
for id in 0, 1:
    try:
        os.setuid(id)
        print("BECAME", id)
    except OSError:
        print("no")
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")) < 5)
"""
    text = printed(host, script).splitlines()
    assert text[0] == "0 1 1000 True"
    assert text[1:] == ["namespace -1", "mount -1", "no", "no", "['0', '1', '2'] True"]


def test_another_leases_files_are_out_of_sight(host: Host) -> None:
    victim = host.run("import signal; open('secret', 'w').write('mine'); print('up', flush=True); signal.pause()")
    host.plane.wait(lambda: "up" in host.plane.text(victim), "the victim to start")
    hidden = ["/usr", "/proc", "/sys", *(str(bind.target) for bind in sandbox.interpreter_binds())]
    script = f"""
import os
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in {hidden}]
    if "secret" in files:
        print("FOUND", folder)
print("searched")
"""
    assert printed(host, script, index=1) == "searched\n"
    host.plane.drop(victim)
    host.plane.wait_state(victim, "ended")


def test_a_fork_bomb_hits_its_limit_and_leaves_nothing(host: Host) -> None:
    script = """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
except OSError:
    print("limit", flush=True)
"""
    lease = host.run(script, spec={"limits": {"processes": 40}})
    mark = host.order(lease).mark
    report = host.end(lease)
    assert report["reason"] == "completed"
    assert host.plane.text(lease, "stdout") == "limit\n"
    assert processes.marked(mark) == []


def test_memory_has_a_limit(host: Host) -> None:
    lease = host.run("x = bytearray(1 << 30)", spec={"limits": {"memory_bytes": 256 << 20}})
    assert host.end(lease)["reason"] == "failed"
    assert "MemoryError" in host.plane.text(lease, "stderr")


def test_many_processes_together_have_the_same_limit_on_memory(host: Host) -> None:
    script = """
import os, signal
for _ in range(8):
    if os.fork() == 0:
        break
hold = bytearray(os.urandom(1 << 20) * 60)
signal.pause()
"""
    lease = host.run(script, spec={"limits": {"memory_bytes": 256 << 20}})
    report = host.end(lease)
    assert report["reason"] == "failed"
    assert "bytes of memory" in report["detail"]


def test_a_file_has_a_limit(host: Host) -> None:
    script = "f = open('big', 'wb')\nwhile True: f.write(b'x' * 65536)"
    lease = host.run(script, spec={"limits": {"disk_bytes": 1 << 20}})
    report = host.end(lease)
    assert report["reason"] == "failed"
    assert "disk" in report["detail"] or "File too large" in host.plane.text(lease, "stderr")


def test_many_files_together_have_a_limit(host: Host) -> None:
    script = "import signal\nfor n in range(64): open(str(n), 'wb').write(b'x' * 65536)\nsignal.pause()"
    lease = host.run(script, spec={"limits": {"disk_bytes": 1 << 20}})
    report = host.end(lease)
    assert report["reason"] == "failed"
    assert "bytes of disk" in report["detail"]


def test_memory_file_systems_have_a_limit(host: Host) -> None:
    script = """
try:
    with open("/dev/shm/big", "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))
except OSError as error:
    print(error.strerror)
"""
    assert printed(host, script) == "No space left on device\n"


def test_cpu_time_has_a_limit(host: Host) -> None:
    lease = host.run("while True: pass", spec={"limits": {"cpu_seconds": 1}})
    report = host.end(lease)
    assert (report["reason"], report["detail"]) == ("failed", "it used up its CPU time")


def test_a_flood_of_output_is_cut_and_says_so(host: Host) -> None:
    script = "import sys\nfor _ in range(3000): print('flood ' * 20)"
    lease = host.run(script, spec={"limits": {"output_bytes": 10_000}})
    assert host.end(lease)["reason"] == "completed"
    text = host.plane.text(lease)
    assert text.endswith("[output cut: this lease may log 10000 bytes]\n")
    assert len(text) < 10_100
    offsets = [(r["offset"], len(r["text"])) for r in host.plane.said(lease, "log")]
    assert all(start + size == following for (start, size), (following, _) in itertools.pairwise(offsets))


def test_output_that_is_no_text_is_shown_as_well_as_it_can_be(host: Host) -> None:
    assert printed(host, r"import os; os.write(1, b'caf\xc3\xa9 \xff\n')") == "caf\u00e9 \ufffd\n"


def test_a_checkpoint_that_is_a_link_to_the_hosts_files_is_not_stored(host: Host) -> None:
    script = f"""
import os, socket, json
os.symlink({str(host.state_dir)!r}, "/checkpoints/stolen")
os.mkdir("/checkpoints/inner")
os.symlink("/etc/shadow", "/checkpoints/inner/shadow")
os.mkfifo("/checkpoints/inner/pipe")
host = socket.socket(socket.AF_UNIX)
host.connect(os.environ["LAISSEZ_SOCKET"])
stream = host.makefile("rw")
for name in "stolen", "inner", "../run", "/etc":
    stream.write(json.dumps({{"op": "checkpoint", "name": name, "progress": 0.5}}) + chr(10)); stream.flush()
    print(json.loads(stream.readline()))
"""
    text = printed(host, script).splitlines()
    assert text[0] == "{'error': \"there is no checkpoint directory 'stolen'\"}"
    assert text[1].startswith("{'accepted': False, 'then': 'continue'")
    assert "no checkpoint name" in text[2]
    assert "no checkpoint name" in text[3]
    assert not list(host.plane.store.glob("**/*stolen*"))


def test_the_hosts_key_is_its_owners_alone(host: Host) -> None:
    assert stat.S_IMODE((host.state_dir / "host.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(host.state_dir.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's tenants keep its id")
def test_as_root_tenants_run_under_ids_of_their_own() -> None:
    ids = {sandbox.current_tenant_uid(index) for index in range(3)}
    assert len(ids) == 3
    assert 0 not in ids


def test_inside_a_container_with_few_ids_tenants_get_one_of_those() -> None:
    assert sandbox.tenant_uid(1, euid=0, uid_map="0 100000 65536\n") == sandbox.FALLBACK_UID + 1
    assert sandbox.tenant_uid(1, euid=0, uid_map="0 0 4294967295\n") == sandbox.FIRST_UID + 1
    assert sandbox.tenant_uid(1, euid=1000, uid_map="0 0 4294967295\n") is None
    with pytest.raises(sandbox.SandboxUnavailable, match="no second user id"):
        sandbox.tenant_uid(0, euid=0, uid_map="0 1000 1\n")


def test_what_lies_below_the_private_tmp_is_shown_in_it() -> None:
    """A clone under /tmp has its interpreter there: the private /tmp must be made before the folders above it."""
    box = sandbox.Sandbox(Path("bwrap"), None, Limits())
    words = box.command([sandbox.Bind(Path("/usr/share"), Path("/tmp/clone/.venv"))], info=3, order=4)
    assert words.index("/tmp") < words.index("/tmp/clone") < words.index("/tmp/clone/.venv")
