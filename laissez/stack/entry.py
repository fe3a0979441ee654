"""What `manage.py` does before Django reads its settings: have DATABASE_URL and REDIS_URL name running servers.

Variables that are set already win. Beside a running `manage.py up` a command uses that stack's servers. Where nothing
runs, a command that needs a database gets the embedded servers for as long as it lasts.
"""

import atexit
import contextlib
import os
import sys
from collections.abc import Sequence

from laissez.stack import record, servers
from laissez.stack.places import StackError, state_dir

STARTS_ITS_OWN = frozenset({"up", "demo"})
"""These run the stack themselves; only its addresses are wanted."""
NEEDS_NO_SERVER = frozenset(
    {"check", "collectstatic", "compilemessages", "findstatic", "help", "makemessages", "makemigrations", "simulate",
     "spectacular", "sqlmigrate", "startapp", "version"}
)  # fmt: skip
WAIT_SECONDS = 30
"""For another command's own servers to end."""


def prepare_environment(argv: Sequence[str]) -> None:
    """Set DATABASE_URL and REDIS_URL for the command in `argv[1]`, starting servers where nothing else would."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "laissez.settings")
    if os.environ.get("LAISSEZ_ENV") == "production" or {"DATABASE_URL", "REDIS_URL"} <= os.environ.keys():
        return
    try:
        for name, address in _addresses(argv).items():
            os.environ.setdefault(name, address)
    except StackError as error:
        sys.exit(f"laissez: {error}")


def _addresses(argv: Sequence[str]) -> dict[str, str]:
    """Where the servers are, or will be."""
    state = state_dir()
    command = argv[1] if len(argv) > 1 else "help"
    if command in STARTS_ITS_OWN:
        return servers.urls(state)
    running = record.read(state)
    if running and {"database_url", "redis_url"} <= running.keys():
        return {"DATABASE_URL": running["database_url"], "REDIS_URL": running["redis_url"]}
    if command in NEEDS_NO_SERVER or {"--help", "-h", "--version"} & set(argv):
        return servers.urls(state)
    stack = contextlib.ExitStack()
    addresses = stack.enter_context(servers.running(state, purpose=f"manage.py {command}", wait_seconds=WAIT_SECONDS))
    atexit.register(stack.close)
    return addresses
