"""The processes of the product, in the order in which the supervisor starts them.

`docker/compose.yaml` runs the same ones beside servers of its own.
"""

import http.client
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from laissez.stack import servers
from laissez.stack.places import PROJECT, StackError
from laissez.stack.process import ProcessSpec

BEAT, CELERY, HOSTS, WEB = 10, 20, 30, 40
"""Stop ranks; the embedded servers stop after all of these. Hosts tell the web process how their leases end."""
CELERY_APP = (sys.executable, "-m", "celery", "--quiet", "--app", "laissez.celery")
QUEUES = {"celery-ticks": "ticks", "celery": "celery"}
"""Celery's processes and the queue that each serves: a busy queue never delays a tick."""


def listen(host: str, port: int) -> socket.socket:
    """The listening socket of the web process; port 0 takes a free one.

    The supervisor keeps it, so that callers wait while that process restarts instead of being refused, and so that a
    port in use is known at once.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise StackError(
            f"{host} port {port} cannot be used: {error.strerror}. Choose another with --port, or 0 for any free one."
        ) from error
    # uvicorn takes an inherited socket for a unix one and does not set this; accepted connections inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def web_address(listener: socket.socket) -> str:
    """The address that a browser on this machine opens, without a slash at its end."""
    host, port = listener.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def product(
    state: Path, listener: socket.socket, *, addresses: Mapping[str, str], environment: Mapping[str, str]
) -> list[ProcessSpec]:
    """Every process but the hosts. The addresses are DATABASE_URL and REDIS_URL; the environment is everybody's."""
    common = {
        "PYTHONUNBUFFERED": "1",
        "LAISSEZ_STATE_DIR": str(state),
        "LAISSEZ_INTERNAL_URL": web_address(listener),
        **addresses,
        **environment,
    }
    return [*embedded(state, addresses), prepare(common), web(listener, common),
            *(celery(name, common) for name in QUEUES), beat(state, common)]  # fmt: skip


def embedded(state: Path, addresses: Mapping[str, str]) -> list[ProcessSpec]:
    """PostgreSQL and Valkey of this state folder, each unless its address names another server."""
    own = servers.urls(state)
    makers = {"DATABASE_URL": servers.postgres_spec, "REDIS_URL": servers.valkey_spec}
    return [make(state) for name, make in makers.items() if addresses[name] == own[name]]


def prepare(environment: Mapping[str, str]) -> ProcessSpec:
    """Brings the schema and the static files up to date, in one process since starting Django takes seconds."""
    command = (sys.executable, str(PROJECT / "manage.py"), "prepare")
    return ProcessSpec(
        name="prepare", command=command, environment=environment, stop_rank=CELERY, ready_seconds=180, once=True
    )


def web(listener: socket.socket, environment: Mapping[str, str]) -> ProcessSpec:
    """The web process: pages, API, websockets."""
    command = (
        sys.executable, "-m", "uvicorn", "laissez.asgi:application", "--fd", str(listener.fileno()),
        "--ws", "websockets-sansio", "--ws-per-message-deflate", "false", "--lifespan", "off", "--ws-max-size", "65536",
        "--timeout-graceful-shutdown", "3", "--no-access-log", "--log-level", "warning",
    )  # fmt: skip
    return ProcessSpec(
        name="web",
        command=command,
        environment=environment,
        stop_rank=WEB,
        inherited=(listener.fileno(),),
        ready=lambda _pid: _answers(web_address(listener)),
    )


def celery(name: str, environment: Mapping[str, str]) -> ProcessSpec:
    """A Celery process with one pool child."""
    command = (
        *CELERY_APP, "worker", "--queues", QUEUES[name], "--hostname", f"{name}@%h",
        "--pool", "prefork", "--concurrency", "1", "--loglevel", "WARNING",
        "--without-gossip", "--without-mingle", "--without-heartbeat",
    )  # fmt: skip
    return ProcessSpec(
        name=name,
        command=command,
        environment={"PYTHONWARNINGS": "ignore:You're running the worker with superuser", **environment},
        stop_rank=CELERY,
        grace_seconds=10,
    )


def beat(state: Path, environment: Mapping[str, str]) -> ProcessSpec:
    """Celery's clock."""
    command = (*CELERY_APP, "beat", "--schedule", str(state / "beat-schedule"), "--pidfile=", "--loglevel", "WARNING")
    return ProcessSpec(name="beat", command=command, environment=environment, stop_rank=BEAT)


def host(name: str, *arguments: str, environment: Mapping[str, str]) -> ProcessSpec:
    """A host worker's daemon on this machine. Told to stop it ends its leases; started after a kill it adopts them."""
    return ProcessSpec(
        name=name,
        command=(str(Path(sys.executable).with_name("laissez-host")), *arguments),
        environment={"PYTHONUNBUFFERED": "1", **environment},
        stop_rank=HOSTS,
        grace_seconds=15,
        death_signal=signal.SIGTERM,
    )


def _answers(base: str) -> bool:
    """Whether the web process answers requests, with whatever status."""
    place = urlsplit(base)
    with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=2)) as connection:
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status < 500
        except OSError:
            return False
