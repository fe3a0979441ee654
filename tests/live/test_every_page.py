"""Every page in a real browser: accessible, within a small screen, light and dark, without a complaint."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.live.stage import Stage
from tests.live.watching import Visitor, visit

OPEN_TO_ALL = ("/", "/login/", "/signup", "/market/gemm", "/market/gemm/nvidia-a10")
MEMBERS = ("/jobs", "/jobs/new", "/settings/tokens", "/settings/members", "/market/gemm", "/market/gemm/nvidia-l4")
OF_A_JOB = ("", "/bids")
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module", params=SCHEMES)
def stranger(stage: Stage, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """Somebody who is not signed in, once with a light screen and once with a dark one."""
    with visit(stage, browser, color_scheme=request.param) as visitor:
        yield visitor


@pytest.fixture(scope="module", params=SCHEMES)
def member(stage: Stage, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """Ben, whose job has moved."""
    with visit(stage, browser, "ben", color_scheme=request.param) as visitor:
        yield visitor


@pytest.fixture(scope="module")
def job(stage: Stage) -> str:
    """The address of ben's job."""
    with stage.client("Birch Language") as client:
        return f"/jobs/{next(iter(client.jobs()))['job']}"


def look(visitor: Visitor, path: str) -> list[str]:
    """Everything that is wrong with a page, in words."""
    faults = []
    for width in (1280, 320):
        visitor.page.set_viewport_size({"width": width, "height": 800})
        visitor.open(path)
        visitor.page.wait_for_load_state("networkidle")
        if visitor.width() > width:
            faults.append(f"{path} is {visitor.width()} px wide on a screen of {width}")
        faults += [f"{path} at {width}: {found}" for found in visitor.findings()]
    faults += [f"{path}: {said}" for said in visitor.complaints]
    visitor.complaints.clear()
    return faults


def test_the_pages_that_are_open_to_all(stranger: Visitor) -> None:
    assert [fault for path in OPEN_TO_ALL for fault in look(stranger, path)] == []


def test_a_members_pages(member: Visitor, job: str) -> None:
    assert [fault for path in (*MEMBERS, *(job + part for part in OF_A_JOB)) for fault in look(member, path)] == []
