"""Where measurements play: a PostgreSQL and a Valkey of their own, as durable as in production, in a folder that goes.

`standing` sets Django up, and so comes before any module that imports models: `tests.bench.child` enters it and then
imports the module of measurements. There `fresh_database` gives each measurement a database of its own, and `web` runs
the web process on it:

    with fresh_database(), web() as url:
        cluster = seed(Shape(...), generator=numpy.random.default_rng(run.seed))
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import django
import psycopg
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from laissez.stack import private, product, record, servers
from laissez.stack.process import ProcessSpec, spawn

START_SECONDS = 60
STOP_SECONDS = 20
ERRORS = 2
"""The file descriptor of the error output."""
NUMBERS = count(1)
"""Databases are never named alike, so that nothing that remembers one is right about another."""


@contextmanager
def settled() -> Iterator[Path]:
    """Set Django up as in production for a state folder in which nothing runs yet. Yields the folder."""
    with tempfile.TemporaryDirectory(prefix="laissez-bench-", ignore_cleanup_errors=True) as folder:
        state = Path(folder)
        os.environ |= private.production(state)
        django.setup()
        yield state


@contextmanager
def standing() -> Iterator[Path]:
    """As `settled`, with the servers running and the schema of the template database up to date."""
    with settled() as state, servers.running(state, purpose="bench", durable=True):
        call_command("migrate", interactive=False, verbosity=0)
        connections.close_all()
        yield state


@contextmanager
def fresh_database() -> Iterator[str]:
    """An empty database with the schema, for this process and those it starts. Yields its DATABASE_URL."""
    settings = connections.settings["default"]
    template, former_url = settings["NAME"], os.environ["DATABASE_URL"]
    name = f"bench_{next(NUMBERS)}"
    connections.close_all()
    _administer("CREATE DATABASE {} TEMPLATE {}", name, template)
    settings["NAME"], os.environ["DATABASE_URL"] = name, _renamed(former_url, name)
    try:
        yield os.environ["DATABASE_URL"]
    finally:
        connections.close_all()
        settings["NAME"], os.environ["DATABASE_URL"] = template, former_url
        _administer("DROP DATABASE {} WITH (FORCE)", name)


def _administer(statement: str, *names: str) -> None:
    url = _renamed(os.environ["DATABASE_URL"], "postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*(sql.Identifier(name) for name in names)))


def _renamed(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


@contextmanager
def web(*, pages: bool = False, **environment: str) -> Iterator[str]:
    """The web process as `manage.py up` runs it, on the present database. Yields its address.

    Args:
        pages: collect static files first, without which pages with styles cannot be shown; takes half a minute.
        environment: what else it is told, such as LAISSEZ_DATABASE_POOL.
    """
    if pages:
        call_command("prepare", verbosity=0)
    with closing(product.listen("127.0.0.1", 0)) as listener:
        address = product.web_address(listener)
        spec = product.web(listener, {**os.environ, "LAISSEZ_INTERNAL_URL": address, **environment})
        with running(spec):
            yield address


@contextmanager
def running(spec: ProcessSpec) -> Iterator["subprocess.Popen[bytes]"]:
    """One process of the product for the length of a block, once it is ready."""
    child = spawn(spec, output=ERRORS, tied=True)
    try:
        ready = spec.ready
        if ready is not None:
            record.wait_for(lambda: child.poll() is not None or ready(child.pid), seconds=START_SECONDS)
            if child.poll() is not None or not ready(child.pid):
                raise RuntimeError(f"{spec.name} did not start")
        yield child
    finally:
        stop(child)


def stop(child: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end, then make it."""
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
