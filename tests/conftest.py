"""Fixtures for every test."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings
from playwright.sync_api import Page, sync_playwright
from pytest_django.plugin import DjangoDbBlocker

from tests import databases
from tests.servers import OWN_SERVERS

CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_finish() -> None:
    """The modules stay to the end: looking through them for garbage again and again took a tenth of all time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Several workers migrate once."""
    if OWN_SERVERS in os.environ and "PYTEST_XDIST_WORKER" in os.environ:
        with django_db_blocker.unblock():
            databases.copy_from_template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database can be dropped when all is over, whatever threads have left open."""
    yield
    with django_db_blocker.unblock():
        databases.end_other_sessions()


@pytest.fixture(scope="session", autouse=True)
def static_files_as_they_are_asked_for() -> Iterator[None]:
    """Every test client loads the middleware anew, which in the product reads the headers of all static files once."""
    with override_settings(WHITENOISE_AUTOREFRESH=True):
        yield


def chromium_path() -> str:
    """The browser that CHROMIUM names, else one on the PATH; without either the test is skipped and says so."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("no browser: set CHROMIUM, or install chromium")
    return found


@pytest.fixture
def chromium() -> str:
    """As `chromium_path` finds it."""
    return chromium_path()


@pytest.fixture
def page(chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """A fresh browser window. One browser per test: a longer-lived one leaves an event loop that breaks later tests."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the browser's own loop runs in this thread
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "browser"), executable_path=chromium, headless=True, args=CHROMIUM_OPTIONS
        )
        yield context.pages[0]
        context.close()
