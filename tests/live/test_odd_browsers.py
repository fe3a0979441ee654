"""Browsers as people have them: another zone, a wrong clock, no scripts, no mouse."""

import re

from playwright.sync_api import Browser, expect

from tests.live.stage import Stage
from tests.live.watching import visit

WRONG_CLOCK = """
const Right = Date;
const off = 3 * 3600 * 1000;
window.Date = class extends Right {
  constructor(...parts) { parts.length ? super(...parts) : super(Right.now() + off); }
  static now() { return Right.now() + off; }
};
"""


def test_times_are_the_servers_in_the_readers_zone_whatever_the_browsers_clock_says(
    stage: Stage, browser: Browser
) -> None:
    with visit(stage, browser, timezone_id="Asia/Kolkata") as visitor:
        visitor.context.add_init_script(WRONG_CLOCK)
        visitor.sign_in("ben")
        page = visitor.open("/market/gemm/nvidia-a10")
        freshness = page.locator("[data-freshness]").first
        expect(freshness).to_contain_text("Live")
        expect(page.locator("main time").first).to_contain_text("+05:30")
        ages = re.findall(r"(\d+(?:\.\d+)?) (s|min|h)\b", freshness.inner_text())
        assert ages, freshness.inner_text()
        assert all(unit == "s" and float(number) < 10 for number, unit in ages)
        assert visitor.complaints == []


def test_without_scripts_every_page_is_whole(stage: Stage, browser: Browser) -> None:
    with visit(stage, browser, "ben", java_script_enabled=False) as visitor:
        page = visitor.open("/market/gemm")
        expect(page.locator('[data-price="nvidia-a10"]').first).to_contain_text("/h")
        page = visitor.open("/market/gemm/nvidia-a10")
        page.get_by_text("Show as table").click()
        expect(page.get_by_role("table").first).to_be_visible()
        page = visitor.open("/jobs")
        page.get_by_role("link", name="text-classifier").first.click()
        expect(page.locator(".timeline .bar").first).to_be_visible()
        page = visitor.open("/jobs/new")
        expect(page.get_by_role("button", name="Submit job")).to_be_visible()
