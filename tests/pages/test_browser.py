"""In a real browser: sign in, read the market and a job, see them update themselves, cancel; on a small screen too."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests import scenes
from tests.pages.floor import A10, L4, PASSWORD, Floor, apart, make_floor, moved_job
from workers.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("browser")]


@pytest.fixture
def floor() -> Floor:
    return make_floor()


@pytest.fixture
def moved(floor: Floor) -> Job:
    """A job with a history; made before the browser's event loop takes the thread."""
    return moved_job(floor)


@pytest.fixture
def signed_in(moved: Job, live_server: LiveServer, page: Page) -> Iterator[Page]:
    """Ben's browser. Whatever it complains of on its console fails the test."""
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{live_server.url}/jobs")
    page.get_by_label("User name").fill("ben")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    yield page
    assert complaints == []


def test_a_person_reads_market_and_job_and_sees_them_change(
    floor: Floor, moved: Job, signed_in: Page, live_server: LiveServer
) -> None:
    page = signed_in
    page.get_by_role("link", name="text-classifier").click()
    expect(page.get_by_text("Running on nvidia-l4 at $0.4755/h")).to_be_visible()
    expect(page.locator(".timeline .arrow")).to_have_count(1)
    page.get_by_text("Cancel this job").click()
    apart(lambda: floor.l4.report(moved, "progress", progress=0.8, step=800, loss=0.5123))
    expect(page.get_by_text("0.5123")).to_be_visible(timeout=15_000)
    expect(page.get_by_role("button", name="Cancel it for good")).to_be_visible()  # what was opened stays open

    page.get_by_role("link", name="Market", exact=True).click()
    row = page.get_by_role("row").filter(has_text=A10).first
    expect(row).to_contain_text("$0.6500/h")
    apart(lambda: (scenes.submit(floor.birch, (A10, "0.7")), scenes.tick(floor.cluster)))
    expect(page.get_by_role("row").filter(has_text=A10).first).to_contain_text("$0.7000/h", timeout=15_000)


def test_a_job_is_cancelled_with_the_keyboard(floor: Floor, moved: Job, signed_in: Page) -> None:
    page = signed_in
    page.get_by_role("link", name="text-classifier").press("Enter")
    page.locator("#cancel summary").press("Enter")
    page.get_by_role("button", name="Cancel it for good").press("Enter")
    expect(page.get_by_text("The job is cancelled.")).to_be_visible()
    expect(page.locator("h1 .chip")).to_have_text("cancelled")
    assert apart(lambda: Job.objects.get(pk=moved.pk).state) == Job.State.CANCELLED


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_scrolls_sideways_on_a_small_screen(
    floor: Floor, moved: Job, signed_in: Page, live_server: LiveServer, scheme: str
) -> None:
    page = signed_in
    queued = apart(lambda: scenes.submit(floor.birch, (L4, "2.0"), name="W" * 120))
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 320, "height": 640})
    for path in ("/", "/jobs", f"/jobs/{moved.public_id}", f"/jobs/{queued.public_id}", "/market/gemm"):
        page.goto(live_server.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") == 320, path


def test_a_page_without_scripts_is_whole(moved: Job, signed_in: Page, live_server: LiveServer) -> None:
    page = signed_in
    page.route("**/*.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.goto(f"{live_server.url}/jobs/{moved.public_id}")
    expect(page.get_by_role("heading", name="Launch table")).to_be_visible()
    expect(page.locator(".timeline .bar")).to_have_count(2)


def test_a_lost_server_is_said_out_loud(moved: Job, page: Page, live_server: LiveServer) -> None:
    page.goto(f"{live_server.url}/login/")
    page.get_by_label("User name").fill("ben")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{live_server.url}/jobs")
    page.route("**/jobs", lambda route: route.abort())
    expect(page.get_by_text("The connection is lost.")).to_be_visible(timeout=15_000)
    page.unroute("**/jobs")
    expect(page.get_by_text("The connection is lost.")).to_be_hidden(timeout=15_000)
