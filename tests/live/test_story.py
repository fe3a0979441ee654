"""The paper's story as its tenants see it: nobody reloads a page, and both watch it happen."""

from playwright.sync_api import Browser, expect

from tests.live.stage import Stage, wait_for
from tests.live.watching import visit

STORY_MS = 240_000


def test_prices_and_the_timeline_move_while_the_demo_runs(stage: Stage, browser: Browser) -> None:
    with visit(stage, browser, "ben") as ben, visit(stage, browser, "anna") as anna:
        anna.open("/market/gemm")
        anna.keep()
        a10 = anna.page.locator('[data-price="nvidia-a10"]').first
        expect(a10).to_contain_text("$0.6060/h", timeout=STORY_MS)
        ben.open("/jobs")
        ben.page.get_by_role("link", name="text-classifier").first.click(timeout=STORY_MS)
        ben.keep()
        expect(ben.page.locator(".timeline .bar:not(.waiting)").first).to_be_visible(timeout=STORY_MS)
        expect(a10).not_to_contain_text("$0.6060/h", timeout=STORY_MS)
        expect(ben.page.locator(".timeline .arrow.done")).to_have_count(1, timeout=STORY_MS)
        expect(ben.page.locator("h1 .chip")).to_have_text("succeeded", timeout=STORY_MS)
        expect(a10).to_contain_text("$0.6060/h", timeout=STORY_MS)
        assert ben.is_kept()
        assert anna.is_kept()
        assert ben.complaints + anna.complaints == []
    wait_for(lambda: any("invariants" in line for line in stage.told), seconds=120, what="the outcome")
