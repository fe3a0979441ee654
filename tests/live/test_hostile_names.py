"""Names of jobs that are meant to break pages are text on every page, and nothing else."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from laissez.sdk.client import Client
from tests.live import bidders
from tests.live.stage import Stage
from tests.live.watching import visit

NAMES = (
    "<script>document.documentElement.dataset.owned = 1</script>",
    '"><img src=x onerror="document.documentElement.dataset.owned = 2">',
    "</textarea></title><svg onload=document.documentElement.dataset.owned=3>",
    "{{ 7 * 7 }}{% debug %}${7*7}",
    "<b>bold</b><a href='javascript:alert(1)'>x</a>",
    "\N{RIGHT-TO-LEFT OVERRIDE}desrever \N{LEFT-TO-RIGHT ISOLATE}",
    "\N{COLLISION SYMBOL}\N{ZERO WIDTH JOINER}" * 20,
    "a\N{COMBINING ACUTE ACCENT}\N{COMBINING GRAVE ACCENT}" * 20,
    "W" * 120,
    "' OR 1=1; --",
    "%s %(name)s %n \\u0000",
)
ADMIN = ("workers/job", "markets/bid", "workers/lease", "laissez/event", "markets/notice", "markets/award")


@pytest.fixture(scope="module")
def client(stage: Stage) -> Iterator[Client]:
    """The guest's way in."""
    with stage.client() as client:
        yield client


@pytest.fixture(scope="module")
def jobs(client: Client) -> Iterator[dict[str, str]]:
    """A waiting job under each name that is accepted, by its id."""
    made = {}
    with bidders.held(client, at="1.8"):
        for number, name in enumerate(NAMES):
            made[bidders.submit(client, (bidders.A10, f"0.7{number:02d}"), name=name)] = name
        yield made
        for job in made:
            bidders.cancel(client, job)


def test_they_are_shown_as_text_and_run_nothing(stage: Stage, browser: Browser, jobs: dict[str, str]) -> None:
    with visit(stage, browser, "guest") as guest, visit(stage, browser, "operator") as operator:
        opened: list[str] = []
        for visitor in (guest, operator):
            visitor.page.set_viewport_size({"width": 320, "height": 800})
            visitor.page.on("dialog", lambda dialog: opened.append(dialog.message))
        for path in ("/jobs", "/market/gemm", "/market/gemm/nvidia-a10", "/jobs/new"):
            guest.open(path)
            guest.page.wait_for_load_state("networkidle")
            assert guest.width() == 320, path
        for job, name in jobs.items():
            for part in ("", "/bids"):
                page = guest.open(f"/jobs/{job}{part}")
                assert name in page.locator("main").inner_text() or name in page.locator("main").text_content()
                assert guest.width() == 320, (part, name)
            page = guest.open(f"/jobs/new?from={job}")
            assert page.locator("[name=name]").input_value() == name
        for path in ADMIN:
            operator.open(f"/admin/{path}/")
            assert operator.page.locator("#changelist, #changelist-form").count() > 0
        for visitor in (guest, operator):
            assert visitor.page.evaluate("document.documentElement.dataset.owned") is None
            assert visitor.complaints == []
        assert opened == []
