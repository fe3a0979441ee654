"""A browser and a running demo for the tests of this folder, which `make slow` runs: too slow for `make test`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.conftest import CHROMIUM_OPTIONS, chromium_path
from tests.live.stage import Stage, running
from tests.live.watching import Visitor, visit

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is slow, and the story is watched while it is being played, not afterwards."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path.name != "test_story.py")


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """The demo, which begins its story as it is handed out and stays up afterwards."""
    with running("demo", "--json", "--deadline", "600") as stage:
        yield stage


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """One for all: there are no other event loops in these tests."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One browser; every visitor has a window and cookies of their own."""
    browser = playwright.chromium.launch(executable_path=chromium_path(), headless=True, args=CHROMIUM_OPTIONS)
    yield browser
    browser.close()


@pytest.fixture
def ben(stage: Stage, browser: Browser) -> Iterator[Visitor]:
    """Birch's engineer, signed in."""
    with visit(stage, browser, "ben") as visitor:
        yield visitor
