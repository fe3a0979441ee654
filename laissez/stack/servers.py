"""PostgreSQL and Valkey by themselves: for tests, and for a command that needs a database while nothing runs.

python -m laissez.stack.servers start --state-dir DIR     prints DATABASE_URL=... and REDIS_URL=...
python -m laissez.stack.servers stop --state-dir DIR
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from laissez.stack import postgres, record, valkey
from laissez.stack.places import StackError, make_private, state_dir
from laissez.stack.process import ProcessSpec, spawn

START_SECONDS = 60
STOP_SECONDS = 30


def urls(state: Path) -> dict[str, str]:
    """The environment by which the project reaches the servers of a state folder."""
    return {"DATABASE_URL": postgres.url(state), "REDIS_URL": valkey.url(state)}


def postgres_spec(state: Path, *, durable: bool = True) -> ProcessSpec:
    """The embedded PostgreSQL. Fast shutdown on stop, and when its supervisor is killed."""
    return ProcessSpec(
        name="postgres",
        command=postgres.command(state, durable=durable),
        stop_rank=90,
        stop_signal=signal.SIGINT,
        death_signal=signal.SIGINT,
        grace_seconds=20,
        before=lambda: postgres.initialise(state, durable=durable),
        ready=lambda pid: postgres.is_ready(state, pid),
        unprivileged=postgres.folders(state),
    )


def valkey_spec(state: Path) -> ProcessSpec:
    """The embedded Valkey."""
    return ProcessSpec(
        name="valkey", command=valkey.command(state), stop_rank=80, ready=lambda _pid: valkey.is_ready(state)
    )


@contextlib.contextmanager
def running(state: Path, *, purpose: str, durable: bool = True, wait_seconds: float = 0) -> Iterator[dict[str, str]]:
    """Both servers for the length of a block, tied to the calling thread. Yields their addresses as an environment."""
    handle = record.acquire(state, purpose=purpose, wait_seconds=wait_seconds)
    children: list[tuple[ProcessSpec, subprocess.Popen[bytes]]] = []
    try:
        postgres.initialise(state, durable=durable)
        for spec in (postgres_spec(state, durable=durable), valkey_spec(state)):
            children.insert(0, (spec, _start(spec, state, handle, tied=True)))
        yield urls(state)
    finally:
        for spec, child in children:
            _stop(child.pid, spec, child)
        record.release(handle)


def start(state: Path) -> dict[str, str]:
    """Start both servers so that they outlive this process; they hold the folder's lock."""
    handle = record.acquire(state, purpose="python -m laissez.stack.servers")
    postgres.initialise(state)
    specs = (postgres_spec(state), valkey_spec(state))
    children = {spec.name: _start(spec, state, handle, tied=False) for spec in specs}
    record.name_holder(handle, purpose="python -m laissez.stack.servers", pid=children["postgres"].pid)
    record.write(state, {"processes": {name: child.pid for name, child in children.items()}} | _recorded(state))
    return urls(state)


def stop(state: Path) -> None:
    """Stop what `start` started here; nothing runs afterwards."""
    content = record.read(state)
    if content is None:
        return
    if "pid" in content:
        raise StackError(f"`manage.py up` (process {content['pid']}) runs in {state}: stop that one instead")
    for spec in (valkey_spec(state), postgres_spec(state)):
        _stop(content["processes"][spec.name], spec, None)
    record.remove(state)


def _recorded(state: Path) -> dict[str, str]:
    """The addresses under the names that `up.json` uses."""
    return {name.lower(): value for name, value in urls(state).items()}


def _start(spec: ProcessSpec, state: Path, lock: int, *, tied: bool) -> "subprocess.Popen[bytes]":
    """Start one server and wait until it answers; its output is kept for an error to quote. It shares the lock."""
    log = make_private(state / "log") / f"{spec.name}.log"
    with log.open("wb") as output:
        child = spawn(spec, output=output, tied=tied, inherited=(lock,))
    ready = spec.ready
    assert ready is not None, spec.name
    record.wait_for(lambda: child.poll() is not None or ready(child.pid), seconds=START_SECONDS)
    if child.poll() is None and ready(child.pid):
        return child
    _stop(child.pid, spec, child)
    raise StackError(f"{spec.name} did not start: {log.read_text(errors='replace').strip()[-2000:] or 'no output'}")


def _stop(pid: int, spec: ProcessSpec, child: "subprocess.Popen[bytes] | None") -> None:
    """Ask, wait, kill."""

    def gone() -> bool:
        return child.poll() is not None if child else not _is_running(pid)

    for number in (spec.stop_signal, signal.SIGKILL):
        if not gone():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if record.wait_for(gone, seconds=STOP_SECONDS):
            return


def _is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main() -> None:
    """The command line above."""
    parser = argparse.ArgumentParser(prog="python -m laissez.stack.servers", description=__doc__.splitlines()[0])
    parser.add_argument("act", choices=["start", "stop"])
    parser.add_argument("--state-dir", type=Path, default=None)
    chosen = parser.parse_args()
    state = (chosen.state_dir or state_dir()).absolute()
    try:
        if chosen.act == "stop":
            stop(state)
            return
        for name, value in start(state).items():
            print(f"{name}={value}")
    except StackError as error:
        sys.exit(f"laissez: {error}")


if __name__ == "__main__":
    main()
