"""The whole product on this machine with three hosts of emulated devices: where the story is played."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import connections

from laissez import clock
from laissez.demo import seed
from laissez.sdk.client import Client
from laissez.stack.places import StackError, make_private
from laissez.stack.process import ProcessSpec
from laissez.stack.product import host, listen, product, web_address
from laissez.stack.supervisor import Supervisor
from workers.host import enrolment
from workers.host.sandbox import SandboxUnavailable, probe
from workers.models import Lease

ADDRESSES = ("DATABASE_URL", "REDIS_URL")
HOSTS_READY_SECONDS = 60
SETTLED_SECONDS = 60
POLL_SECONDS = 0.2
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """The stack as it stands: its address, who may enter, and its supervisor."""

    url: str
    log: Path
    seeded: seed.Seeded
    clients: dict[str, Client]
    """A client for the tenant of each app."""
    supervisor: Supervisor

    def check(self) -> None:
        """Raises StackError when a process cannot be kept running."""
        if self.supervisor.failure:
            raise StackError(self.supervisor.failure)

    def wait(self, condition: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Until the condition holds; raises StackError when it does not in time or the stack fails."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise StackError(f"{what} did not happen in {seconds:.0f} seconds; see {self.log}")
            time.sleep(POLL_SECONDS)


@contextmanager
def standing(*, port: int, speedup: float, say: Say) -> Iterator[Stage]:
    """Starts everything for the length of a block. `speedup`: of the meter and of the emulated devices."""
    state = settings.STATE_DIR
    addresses = {name: os.environ[name] for name in ADDRESSES}
    log = make_private(state / "log") / "demo.log"
    with listen("127.0.0.1", port) as listener, log.open("w", encoding="utf-8") as output:
        url = web_address(listener)
        environment = {"LAISSEZ_METER_SPEEDUP": f"{speedup:g}"}
        specs = product(state, listener, addresses=addresses, environment=environment)
        facts = {"url": url} | {name.lower(): address for name, address in addresses.items()}
        say("Starting PostgreSQL, Valkey, web, Celery and beat.")
        with Supervisor(specs, state, facts=facts, output=output) as supervisor, ExitStack() as stack:
            stack.callback(connections.close_all)
            seeded = seed.seed()
            clients = {app: stack.enter_context(Client(url, token)) for app, token in seeded.tokens.items()}
            stage = Stage(url, log, seeded, clients, supervisor)
            _furnish(stage, state, speedup, say)
            yield stage


def _furnish(stage: Stage, state: Path, speedup: float, say: Say) -> None:
    """Sweeps up after an earlier demo, starts the hosts and waits for their devices."""
    began = clock.now()
    for job in seed.cancel_leftovers():
        say(f"Cancelled {job}, which an earlier demo left open.")
    options = _isolation(say)
    for slug, name, _, units in seed.TYPES:
        say(f"Starting a host with {units} emulated {name}.")
        stage.supervisor.add(_host(slug, units, stage.url, state, speedup, options))
    what = "the opening of the market with every device free"
    stage.wait(lambda: _is_open(began), seconds=HOSTS_READY_SECONDS, what=what)


def _isolation(say: Say) -> tuple[str, ...]:
    """The host's option where bubblewrap does not work, said out loud; nothing where it does."""
    try:
        probe()
    except SandboxUnavailable as error:
        say(f"No sandbox works here ({error}); the demo's own programs run with --trust-tenants.")
        return ("--trust-tenants",)
    return ()


def _host(slug: str, units: int, url: str, state: Path, speedup: float, options: tuple[str, ...]) -> ProcessSpec:
    name = f"demo-{slug}"
    folder = make_private(state / "hosts") / name
    _tell_new_address(folder, url)
    code = seed.enrolment_code(name)
    arguments = (
        *("--server", url, "--name", name, "--state-dir", str(folder)),
        *("--emulate", f"{slug}={units}", "--emulated-speedup", f"{speedup:g}"),
        *(("--code", code) if code else ()),
    )
    return host(name, *arguments, *options, environment={})


def _tell_new_address(folder: Path, url: str) -> None:
    """A host of an earlier demo knows its control plane at the port of then; a daemon gives its key to no other."""
    known = folder / enrolment.FILE
    if known.exists():
        member = enrolment.Membership(**json.loads(known.read_text()))
        enrolment.remember(folder, replace(member, server=url))


def _is_open(since: datetime) -> bool:
    """Whether every device has been seen by its host, none is held by an earlier run, and all of it is priced."""
    wanted = {slug: units for slug, _, _, units in seed.TYPES}
    held = Lease.objects.exclude(state=Lease.State.CLOSED).exists()
    return not held and seed.units_ready(since) == wanted and seed.units_priced() == wanted
