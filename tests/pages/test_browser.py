"""In a real browser: sign in, read the market and a job, see them update themselves, cancel; on a small screen too.

The test server speaks no websocket, so each test plays the feed's part itself; tests/live does it over a whole stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, WebSocketRoute, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer
from pytest_django.plugin import DjangoDbBlocker

from markets.templatetags import figures
from tests import scenes
from tests.conftest import CHROMIUM_OPTIONS, chromium_path
from tests.flushing import standing
from tests.pages.floor import A10, L4, PASSWORD, Floor, apart, make_floor, moved_job
from workers.models import Job

pytestmark = pytest.mark.slow


@dataclass
class PlayedFeed:
    """The server's end of the page's socket. `is_up`: it answers; else it closes what is opened."""

    sockets: list[WebSocketRoute] = field(default_factory=list)
    is_up: bool = True

    def serve(self, socket: WebSocketRoute) -> None:
        """Take a connection and greet it."""
        if not self.is_up:
            socket.close(code=1012)
            return
        self.sockets.append(socket)
        socket.on_message(lambda _message: socket.send('{"type": "alive"}'))

    def touch(self) -> None:
        """Tell the page that something changed."""
        self.sockets[-1].send('{"type": "touched", "stream": "job:any"}')

    def fall(self) -> None:
        """Go down."""
        self.is_up = False
        self.sockets[-1].close(code=1012)


@dataclass
class Stage:
    """A market with a job that has a history, the server that shows it, and a browser."""

    floor: Floor
    moved: Job
    url: str
    browser: Browser


@pytest.fixture(scope="module")
def market(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[Floor, Job]]:
    """Made before the browser's event loop takes the thread, and emptied after that has ended."""
    with standing(django_db_blocker):
        floor = make_floor()
        yield floor, moved_job(floor)


@pytest.fixture(scope="module")
def stage(market: tuple[Floor, Job]) -> Iterator[Stage]:
    """One for all tests, which go on from where the one before has left the market."""
    server = LiveServer("localhost")
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the browser's own loop runs in this thread
        browser = playwright.chromium.launch(executable_path=chromium_path(), headless=True, args=CHROMIUM_OPTIONS)
        yield Stage(*market, server.url, browser)
        browser.close()
    server.stop()


@pytest.fixture
def floor(stage: Stage) -> Floor:
    return stage.floor


@pytest.fixture
def moved(stage: Stage) -> Job:
    """A job with a history."""
    return stage.moved


@pytest.fixture
def page(stage: Stage) -> Iterator[Page]:
    """A fresh window that remembers nothing."""
    with stage.browser.new_context() as context:
        yield context.new_page()


@pytest.fixture
def feed(page: Page) -> PlayedFeed:
    played = PlayedFeed()
    page.route_web_socket("**/ws/feed", played.serve)
    return played


@pytest.fixture
def signed_in(stage: Stage, page: Page, feed: PlayedFeed) -> Iterator[Page]:
    """Ben's browser. Whatever it complains of on its console fails the test."""
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{stage.url}/jobs")
    page.get_by_label("User name").fill("ben")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    yield page
    assert complaints == []


def test_a_person_reads_market_and_job_and_sees_them_change(
    floor: Floor, moved: Job, signed_in: Page, feed: PlayedFeed
) -> None:
    page = signed_in
    page.get_by_role("link", name="text-classifier").click()
    expect(page.locator("#job-state")).to_contain_text("Moved here from nvidia-a10: outbid there")
    expect(page.locator(".timeline .arrow")).to_have_count(1)
    page.get_by_text("Cancel this job").click()
    apart(lambda: floor.l4.report(moved, "progress", progress=0.8, step=800, loss=0.5123))
    feed.touch()
    expect(page.get_by_text("0.5123").first).to_be_visible(timeout=15_000)
    expect(page.get_by_role("button", name="Cancel it for good")).to_be_visible()  # what was opened stays open

    page.get_by_role("link", name="Market", exact=True).click()
    price = page.locator(f'[data-price="{A10}"]')
    expect(price).to_have_text("$0.6500/h")
    apart(lambda: (scenes.submit(floor.birch, (A10, "0.7")), scenes.tick(floor.cluster)))
    feed.touch()
    expect(price).to_have_text("$0.7000/h", timeout=15_000)
    page.get_by_role("link", name=A10).click()
    expect(page.locator("figure.chart[data-drawn] .plot svg").first).to_be_visible(timeout=15_000)
    drawn = page.evaluate("document.querySelector('figure.chart').series.points")
    assert drawn[-1]["price_per_hour"] == "0.700000"

    for seconds in (0.44, 9.96, 59.9, 61, 3661, 86_400 * 3):
        said = page.evaluate(f"import('/static/ages.js').then((ages) => ages.duration({seconds}))")
        assert said == figures.duration(seconds)  # ages counted on here read like those of the server
    literal = "import('/static/chart.js').then((chart) => chart.literal('<b>\\u202e&'))"
    assert page.evaluate(literal) == "\N{FIRST STRONG ISOLATE}&lt;b&gt;&amp;\N{POP DIRECTIONAL ISOLATE}"

    expect(page.locator("[data-word]")).not_to_have_text("Reconnecting")
    feed.fall()
    expect(page.locator("[data-word]")).to_have_text("Reconnecting", timeout=3_000)
    feed.is_up = True
    expect(page.locator("[data-word]")).not_to_have_text("Reconnecting", timeout=10_000)


def test_nothing_scrolls_sideways_on_a_small_screen(stage: Stage, floor: Floor, moved: Job, signed_in: Page) -> None:
    page = signed_in
    queued = apart(lambda: scenes.submit(floor.birch, (L4, "2.0"), name="W" * 120))
    page.set_viewport_size({"width": 320, "height": 640})
    jobs = [f"/jobs/{job.public_id}" for job in (moved, queued)]
    for path in ("/", "/jobs", *jobs, "/market/gemm", f"/market/gemm/{A10}"):
        page.goto(stage.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, path


def test_a_page_without_scripts_is_whole(stage: Stage, moved: Job, signed_in: Page) -> None:
    page = signed_in
    page.route("**/*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(f"{stage.url}/jobs/{moved.public_id}")
    expect(page.get_by_role("heading", name="What it would take")).to_be_visible()
    expect(page.locator(".timeline .arrow")).to_have_count(1)


def test_a_job_is_cancelled_with_the_keyboard(moved: Job, signed_in: Page) -> None:
    page = signed_in
    page.get_by_role("link", name="text-classifier").press("Enter")
    page.locator("#cancel summary").press("Enter")
    page.get_by_role("button", name="Cancel it for good").press("Enter")
    expect(page.get_by_text("The job is cancelled.")).to_be_visible()
    expect(page.locator("h1 .chip")).to_have_text("cancelled")
    assert apart(lambda: Job.objects.get(pk=moved.pk).state) == Job.State.CANCELLED
