"""A pytest plugin, named with `-p`: PostgreSQL and Valkey for the session, before pytest-django reads the settings.

Started once, by the process that the developer started; pytest-xdist's workers inherit the addresses. Servers named by
DATABASE_URL and REDIS_URL are used as they are.
"""

import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from laissez.stack import servers

STACK = contextlib.ExitStack()
OWN_SERVERS = "LAISSEZ_TESTS_OWN_SERVERS"
"""Set where the servers are the run's own and began empty."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Start the servers, unless nothing will run or others are named."""
    options = early_config.known_args_namespace
    os.environ["DJANGO_SETTINGS_MODULE"] = "laissez.settings"
    os.environ["LAISSEZ_CHANNEL_PREFIX"] = os.environ.get("PYTEST_XDIST_WORKER", "alone")  # no hints of other workers
    without_django = early_config.pluginmanager.is_blocked("django")
    idle = options.help or options.version or without_django or "PYTEST_XDIST_WORKER" in os.environ
    if not idle:
        folder = STACK.enter_context(tempfile.TemporaryDirectory(prefix="laissez-tests-", ignore_cleanup_errors=True))
        (Path(folder) / "static").mkdir()
        os.environ |= {"LAISSEZ_ENV": "test", "LAISSEZ_STATE_DIR": folder}
        if not {"DATABASE_URL", "REDIS_URL"} <= os.environ.keys():
            os.environ |= STACK.enter_context(servers.running(Path(folder), purpose="pytest", durable=False))
            os.environ[OWN_SERVERS] = "1"
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Stop what was started; pytest-django has dropped its databases by now."""
    STACK.close()
