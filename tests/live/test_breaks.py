"""The page keeps telling the truth while parts of the product die, and while nobody looks at it."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from laissez.sdk.client import Client
from tests.live import bidders
from tests.live.stage import Stage, wait_for
from tests.live.watching import Visitor, visit

TYPE_PAGE = f"/market/gemm/{bidders.A10}?range=1h"
DRAWN = """() => {
  const series = document.querySelector("figure.chart[data-chart=price]").series;
  return series ? series.points.filter((point) => point.at !== series.as_of) : [];
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  const state = hidden ? "hidden" : "visible";
  Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A headless browser shows every tab; this is what a tab in the background tells its page."""


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[Client]:
    """The guest's way in."""
    with stage.client() as client:
        yield client


@pytest.fixture(scope="module")
def token(stage: Stage) -> str:
    """For asking the API what no client method asks."""
    return stage.token()


@pytest.fixture(scope="module")
def holder(stage: Stage, client: Client) -> Iterator[str]:
    """The A10 is held, so that every other bid on it sets its price."""
    wait_for(lambda: any("invariants" in line for line in stage.told), seconds=300, what="the end of the story")
    with bidders.held(client) as job:
        yield job


@pytest.fixture
def watcher(stage: Stage, browser: Browser, holder: str) -> Iterator[Visitor]:
    """Somebody who looks at the A10's chart."""
    with visit(stage, browser, "guest") as visitor:
        visitor.open(TYPE_PAGE)
        expect(chip(visitor.page)).to_contain_text("Live")
        wait_for(lambda: visitor.page.evaluate(DRAWN), seconds=10, what="the chart")
        visitor.keep()
        yield visitor
        assert visitor.is_kept(), "the page was loaded anew"


def chip(page: Page) -> Any:
    """What the page says of how true it is."""
    return page.locator("[data-freshness]").first


def told(stage: Stage, token: str) -> list[dict[str, Any]]:
    """The API's rows of the last day but the last, which is the present moment. The stack is younger than the chart."""
    address = f"{stage.url}/api/v1/markets/gemm/types/{bidders.A10}/history"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        points: list[dict[str, Any]] = json.load(answer)["points"]
    return points[:-1]


def shows(visitor: Visitor, price: str) -> None:
    """Wait until the page's own figures say a price."""
    expect(visitor.page.locator(f'[data-price="{bidders.A10}"]').first).to_contain_text(price, timeout=15_000)


def is_complete(visitor: Visitor, stage: Stage, token: str) -> None:
    """The chart holds what the API says, row for row."""
    rows = told(stage, token)
    with suppress(AssertionError):
        wait_for(lambda: visitor.page.evaluate(DRAWN) == rows, seconds=15, what="the chart")
    assert visitor.page.evaluate(DRAWN) == rows


def test_a_killed_web_process_is_said_within_three_seconds_and_nothing_is_missing_afterwards(
    stage: Stage, watcher: Visitor, client: Client, token: str
) -> None:
    with bidders.wanted(client, "0.71"):
        shows(watcher, "$0.7100/h")
        stage.kill("web")
        expect(chip(watcher.page)).to_contain_text("Reconnecting", timeout=3_000)
        with bidders.wanted(client, "0.73"):
            expect(chip(watcher.page)).to_contain_text("Live", timeout=30_000)
            shows(watcher, "$0.7300/h")
    shows(watcher, "$0.6060/h")
    is_complete(watcher, stage, token)


def test_prices_go_on_within_six_seconds_after_valkey_has_lost_everything(
    stage: Stage, watcher: Visitor, client: Client, token: str
) -> None:
    stage.flush_valkey()
    with bidders.wanted(client, "0.74"):
        wait_for(lambda: bidders.price(client) == "0.740000", seconds=10, what="the price")
        price = watcher.page.locator(f'[data-price="{bidders.A10}"]').first
        expect(price).to_contain_text("$0.7400/h", timeout=6_000)
    shows(watcher, "$0.6060/h")
    is_complete(watcher, stage, token)


def test_a_tab_that_was_hidden_shows_everything_once_it_is_looked_at(
    stage: Stage, watcher: Visitor, client: Client, token: str
) -> None:
    watcher.page.evaluate(HIDE, True)
    for bid in ("0.75", "0.76"):
        with bidders.wanted(client, bid):
            wait_for(lambda bid=bid: bidders.price(client).startswith(bid), seconds=10, what="the price")
        wait_for(lambda: bidders.price(client) == bidders.BASE, seconds=10, what="the base price again")
    hidden = watcher.page.evaluate(DRAWN)
    assert not any(str(point["price_per_hour"]).startswith("0.76") for point in hidden)
    watcher.page.evaluate(HIDE, False)
    is_complete(watcher, stage, token)
    assert watcher.complaints == []
