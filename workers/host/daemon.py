"""`laissez-host`: joins this machine to a control plane and lends it its accelerators.

SIGTERM and SIGINT end all leases and then the daemon. SIGHUP ends the daemon only: its leases run on under their
shims, and the next daemon on the same state directory adopts them.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from workers.host import sandbox
from workers.host.client import ControlPlane
from workers.host.devices import Device, emulated
from workers.host.enrolment import NotEnrolled, join
from workers.host.journal import Journal
from workers.host.loop import HostLoop, KeyRefused, Settings

logger = logging.getLogger(__name__)
BAD_USAGE = 2
NO_SANDBOX = 3
NO_KEY = 4
OCCUPIED = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon; the exit status says why it ended."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        devices = emulated(options.emulate)
        speedup = _speedup(options.emulated_speedup)
    except ValueError as error:
        return _fail(str(error), BAD_USAGE)
    state_dir = Path(options.state_dir).resolve()
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    state_dir.chmod(0o700)
    try:
        lock = _occupy(state_dir)
    except BlockingIOError:
        return _fail(f"another laissez-host works in {state_dir}", OCCUPIED)
    try:
        bwrap = _isolation(options.bwrap, state_dir, trusting=options.trust_tenants)
        return asyncio.run(_serve(options, Settings(state_dir, devices, bwrap, speedup)))
    except sandbox.SandboxUnavailable as error:
        return _fail(
            f"{error}\nWithout a sandbox this host refuses tenants' code; --trust-tenants overrides.", NO_SANDBOX
        )
    except (NotEnrolled, KeyRefused) as error:
        return _fail(str(error), NO_KEY)
    finally:
        os.close(lock)


async def _serve(options: argparse.Namespace, settings: Settings) -> int:
    control_plane = ControlPlane(options.server)
    journal = Journal(settings.state_dir / "journal.sqlite3")
    try:
        isolation = "none" if settings.bwrap is None else "bubblewrap"
        member = await join(
            control_plane,
            settings.state_dir,
            code=options.code,
            name=options.name,
            isolation=isolation,
            devices=settings.devices,
        )
        logger.info("host %s: %s, isolation %s", member.host, _inventory(settings.devices), isolation)
        loop = HostLoop(settings, control_plane, journal)
        for signum, act in ((signal.SIGTERM, loop.leave), (signal.SIGINT, loop.leave), (signal.SIGHUP, loop.detach)):
            asyncio.get_running_loop().add_signal_handler(signum, act)
        await loop.run()
    finally:
        await control_plane.close()
        journal.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="laissez-host", description="Lend this machine's accelerators to a market.")
    parser.add_argument("--server", required=True, help="address of the control plane")
    parser.add_argument("--code", help="one-time enrolment code; needed once")
    parser.add_argument("--state-dir", required=True, help="where this host keeps its key, journal and leases")
    parser.add_argument("--name", default=socket.gethostname(), help="how people call this host")
    parser.add_argument("--emulate", required=True, metavar="TYPE=N,...", help="emulated accelerators to offer")
    parser.add_argument("--emulated-speedup", default="1", metavar="X", help="how much faster emulated devices run")
    parser.add_argument("--trust-tenants", action="store_true", help="run tenants' code even without a working sandbox")
    parser.add_argument("--bwrap", type=Path, help="the bubblewrap to use instead of the installed one")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


def _isolation(bwrap: Path | None, state_dir: Path, *, trusting: bool) -> Path | None:
    """Prove that the sandbox works and return its bubblewrap; None when it does not and the owner accepts that."""
    try:
        sandbox.refuse_exposed(state_dir)
        found = bwrap or sandbox.find_bwrap()
        sandbox.probe(found)
    except sandbox.SandboxUnavailable as error:
        if not trusting:
            raise
        logger.warning("no sandbox: %s. Tenants' code runs unconfined because of --trust-tenants.", error)
        return None
    return found


def _speedup(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1_000_000:
        raise ValueError(f"--emulated-speedup is a number above 0, not {text}")
    return value


def _occupy(state_dir: Path) -> int:
    """Hold the state directory for this process; `BlockingIOError` when another one does."""
    descriptor = os.open(state_dir / "daemon.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def _inventory(devices: tuple[Device, ...]) -> str:
    types = dict.fromkeys(device.accelerator_type for device in devices)
    counts = {name: sum(device.accelerator_type == name for device in devices) for name in types}
    return ", ".join(f"{number} {name} (emulated)" for name, number in counts.items())


def _fail(message: str, status: int) -> int:
    print(f"laissez-host: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
