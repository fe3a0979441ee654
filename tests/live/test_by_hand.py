"""What people do, through pages alone: submit, be outbid, change bids, finish; two tabs; double clicks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from laissez.sdk.client import Client
from tests.live import bidders
from tests.live.stage import Stage, wait_for
from tests.live.watching import Visitor, visit

PROGRAM = """
import json
from laissez.sdk import checkpoint, progress, resume

step = json.loads((saved / "step.json").read_text()) if (saved := resume()) else 0
while step < 300:
    step += 1
    progress(step / 300, step=step, loss=1 / step)
    checkpoint(lambda folder: (folder / "step.json").write_text(str(step)), due=step % 60 == 0)
"""
FOCUSED = "document.activeElement?.id ?? ''"
MOST_TABS = 80


@pytest.fixture(scope="module")
def rival(stage: Stage) -> Iterator[Client]:
    """Another tenant, once the story is over and the A10 is free."""
    wait_for(lambda: any("invariants" in line for line in stage.told), seconds=300, what="the end of the story")
    with stage.client("Aspen Vision") as client:
        yield client


@pytest.fixture
def guest(stage: Stage, browser: Browser, rival: Client) -> Iterator[Visitor]:
    """Somebody with a job to run."""
    with visit(stage, browser, "guest") as visitor:
        yield visitor
        assert visitor.complaints == []


def tab_to(page: Page, target: str) -> None:
    """Reach an element with the tabulator alone."""
    for _ in range(MOST_TABS):
        if page.evaluate(FOCUSED) == target:
            return
        page.keyboard.press("Tab")
    pytest.fail(f"{target} is not reached with {MOST_TABS} tabs; the focus is on {page.evaluate(FOCUSED)!r}")


def type_into(page: Page, target: str, text: str) -> None:
    """Replace what a field holds."""
    tab_to(page, target)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def press(page: Page, target: str) -> None:
    """Reach a button and press it."""
    tab_to(page, target)
    page.keyboard.press("Enter")


def test_a_job_is_submitted_outbid_edited_and_finished_through_pages_with_the_keyboard_alone(
    guest: Visitor, rival: Client, tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    page = guest.open("/jobs/new?cluster=gemm&type=nvidia-a10")
    type_into(page, "f-name", "by-hand")
    tab_to(page, "f-upload")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files(program)
    expect(page.locator("#f-artifact")).to_contain_text("train.py")
    type_into(page, "f-command", "python train.py")
    type_into(page, "f-rows-0-max_price_per_hour", "0.65")
    type_into(page, "f-rows-0-expected_hours", "0.3")
    press(page, "submit")
    expect(page.locator("h1")).to_contain_text("by-hand")
    expect(page.locator("#job-state")).to_contain_text("nvidia-a10", timeout=30_000)
    expect(page.locator("h1 .chip")).to_have_text("running", timeout=30_000)
    guest.keep()

    over = bidders.submit(rival, (bidders.A10, "0.90"), name="rival")
    try:
        expect(page.locator("#job-state")).to_contain_text("outbid", timeout=30_000)
        assert guest.is_kept()
        page.locator("#job-acts").get_by_role("link", name="Change bids").press("Enter")
        type_into(page, "rows-0-max_price_per_hour", "1.20")
        press(page, "save")
        expect(page.locator("#job-state")).to_contain_text("own bid $1.2000/h", timeout=30_000)
        expect(page.locator("#job-state .notice")).to_have_count(0, timeout=30_000)
        expect(page.locator("h1 .chip")).to_have_text("succeeded", timeout=240_000)
    finally:
        bidders.cancel(rival, over)
    expect(page.locator("#job-state")).to_contain_text("Cost so far")
    assert re.search(r"\$0\.\d{4}", page.locator("#job-state").inner_text())


def test_a_double_click_submits_one_job(guest: Visitor, stage: Stage) -> None:
    page = guest.open("/jobs/new?cluster=gemm&type=nvidia-l4")
    page.locator("#f-name").fill("clicked-twice")
    page.locator("#f-command").fill("python -c 'import time; time.sleep(900)'")
    page.locator("#f-rows-0-max_price_per_hour").fill("0.5")
    page.locator("#submit").dblclick()
    expect(page.locator("h1")).to_contain_text("clicked-twice")
    with stage.client() as client:
        made = [job["job"] for job in client.jobs() if job["name"] == "clicked-twice"]
        for job in made:
            bidders.cancel(client, job)
    assert len(made) == 1


def test_a_rejected_form_keeps_what_was_typed_and_says_what_is_wrong_where_it_is(guest: Visitor) -> None:
    page = guest.open("/jobs/new?cluster=gemm&type=nvidia-l4")
    page.locator("#f-name").fill("<b>kept</b>")
    page.locator("#f-rows-0-max_price_per_hour").fill("0.1x")
    page.keyboard.press("Tab")
    expect(page.locator("#e-rows-0-max_price_per_hour")).not_to_be_empty()
    page.locator("#submit").click()
    expect(page.locator("#faults")).to_be_visible()
    guest.complaints.remove(guest.refused(400, page.url))
    expect(page.locator("#f-name")).to_have_value("<b>kept</b>")
    expect(page.locator("#f-rows-0-max_price_per_hour")).to_have_value("0.1x")


def test_two_tabs_that_change_one_launch_table_are_shown_both_versions(guest: Visitor, stage: Stage) -> None:
    with stage.client() as client:
        job = bidders.submit(client, (bidders.A10, "0.61"), name="two-tabs")
        try:
            first = guest.open(f"/jobs/{job}/bids")
            second = guest.another_tab()
            second.goto(first.url)
            first.locator("#rows-0-max_price_per_hour").fill("0.62")
            first.locator("#save").click()
            expect(first.locator("h1")).to_contain_text("two-tabs")
            second.locator("#rows-0-max_price_per_hour").fill("0.64")
            second.locator("#save").click()
            expect(second.locator("h1")).to_have_text("The launch table was changed meanwhile")
            expect(second.get_by_role("region", name="Yours, not saved")).to_contain_text("0.64")
            expect(second.get_by_role("region", name="Present")).to_contain_text("$0.6200/h")
            assert client.job(job)["rows"][0]["max_price_per_hour"] == "0.620000"
            guest.complaints.remove(guest.refused(409, second.url))
            second.locator("#take-mine").click()
            expect(second.locator("h1")).to_contain_text("two-tabs")
            assert client.job(job)["rows"][0]["max_price_per_hour"] == "0.640000"
        finally:
            bidders.cancel(client, job)


def test_a_token_made_on_its_page_lets_the_command_line_in(guest: Visitor, stage: Stage, tmp_path: Path) -> None:
    page = guest.open("/settings/tokens")
    page.get_by_label("Name").first.fill("from the page")
    page.get_by_role("button", name="Make the token").dblclick()
    line = page.get_by_text(re.compile(r"laissez login --url"))
    expect(line).to_be_visible()
    found = re.search(r"lz_live_\w+", page.locator("main").inner_text())
    assert found is not None
    assert stage.laissez(tmp_path, "login", "--url", stage.url, "--token", found.group())
    assert "nvidia-a10" in stage.laissez(tmp_path, "market", "show", "gemm")
    page.reload()
    assert found.group() not in page.content()
    expect(page.get_by_role("row").filter(has_text="from the page")).to_have_count(1)
