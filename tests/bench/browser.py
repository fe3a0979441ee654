"""From a commit to the page in a real browser that is open on the market: when the frame reaches the page's socket."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep, time

import numpy as np
from django.core.management import call_command
from playwright.sync_api import Page, sync_playwright

from markets.scale.seeding import Shape, seed
from markets.services import scheduling
from tests.bench.figures import Figure, Run
from tests.bench.stage import fresh_database, web
from tests.bench.telling import tell_every_row
from tests.conftest import CHROMIUM_OPTIONS
from workers.models import Cluster

ROUNDS = 50
PAUSE_SECONDS = 0.3
PATIENCE_SECONDS = 10

HEAR = """
window.listens = false;
window.heard = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", (message) => {
      window.listens = true;
      if (message.data.includes("price.changed")) window.heard.push(performance.timeOrigin + performance.now());
    });
  }
};
"""


def figures(run: Run) -> Iterator[Figure]:
    """Median and worst of some ticks in which every type's price has changed."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # the browser's driver runs an event loop in this thread
    with fresh_database():
        cluster = seed(Shape(hosts=20, jobs=40, running=20, tenants=4), generator=np.random.default_rng(run.seed))
        scheduling.tick(cluster.pk)
        call_command("prepare", verbosity=0)
        with web() as url, _page() as page:
            page.goto(f"{url}/market/{cluster.slug}")
            _wait(page, "window.listens")
            times = sorted(_heard_after(page, cluster) for _ in range(run.of(ROUNDS)))
    detail = f"median of {len(times)} ticks in Chromium, worst {times[-1]:.1f} ms"
    yield Figure("feed.commit_to_browser", median(times), "ms", goal=50, detail=detail)


def _heard_after(page: Page, cluster: Cluster) -> float:
    """Tell every row of the market once; milliseconds from the commit to the page."""
    sleep(PAUSE_SECONDS)
    page.evaluate("window.heard.length = 0")
    committed_at = tell_every_row(cluster, time)
    _wait(page, "window.heard.length")
    return float(page.evaluate("window.heard[0]")) - committed_at * 1e3


def _wait(page: Page, condition: str) -> None:
    """Ask the page again and again, since its content policy refuses the driver's own way of waiting."""
    deadline = time() + PATIENCE_SECONDS
    while not page.evaluate(condition):
        if time() > deadline:
            raise RuntimeError(f"not within {PATIENCE_SECONDS} s: {condition}")


@contextmanager
def _page() -> Iterator[Page]:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise RuntimeError("no browser: set CHROMIUM, or install chromium")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(Path(folder)), executable_path=found, headless=True, args=CHROMIUM_OPTIONS
        )
        context.add_init_script(HEAR)
        try:
            yield context.pages[0]
        finally:
            context.close()
