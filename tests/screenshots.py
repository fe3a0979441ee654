"""Pictures of every page: light and dark, 1280 and 320 pixels wide, just installed and with the demo running.

    python -m tests.screenshots [--into FOLDER] [--readme]

Each picture is named `<stack>-<page>-<scheme>-<width>.png`. With --readme the tops of the best pages are written to
`static/pictures` instead, where the README shows them.
"""

import argparse
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from laissez.sdk.client import Client
from laissez.stack.places import PROJECT
from tests.conftest import CHROMIUM_OPTIONS, chromium_path
from tests.live.stage import Stage, running, wait_for
from tests.live.watching import Visitor, visit

SCHEMES = ("light", "dark")
WIDTHS = (1280, 320)
STORY_SECONDS = 300.0
SETTLE_MS = 1500
"""For charts to be drawn and fonts to be there."""
PICTURES = PROJECT / "static" / "pictures"
README = ("type", "job", "new-job")
README_HEIGHT = 900


@dataclass(frozen=True, slots=True)
class Shot:
    """One page to look at: its name in files, its address, and who looks (None: nobody who is signed in)."""

    name: str
    path: str
    user: str | None = None


ANYONES = (Shot("landing", "/"), Shot("sign-in", "/login/"), Shot("sign-up", "/signup"), Shot("missing", "/nowhere"))


def main() -> None:
    """Start the stacks one after the other and take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--into", type=Path, default=PROJECT / ".local" / "screenshots")
    parser.add_argument("--readme", action="store_true", help="renew the pictures in static/pictures, no others")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_OPTIONS)
        if not options.readme:
            with running("up") as stage:
                take_all(stage, browser, "empty", empty_shots(stage), options.into)
        with running("demo", "--json", "--deadline", "600") as stage:
            if options.readme:
                renew_readme(stage, browser)
            else:
                take_all(stage, browser, "running", running_shots(stage), options.into)
        browser.close()


def empty_shots(stage: Stage) -> list[Shot]:
    """The product just after its installation: one member of one tenant, no cluster, no job."""
    password = secrets.token_urlsafe(12)
    stage.manage("create_tenant", "Cedar Weather", "--user", "cora", "--password", password)
    stage.told.append(f"password {password}\n")
    mine = [Shot("jobs", "/jobs", "cora"), Shot("new-job", "/jobs/new", "cora"), *settings_of("cora")]
    return [*ANYONES, Shot("market", "/market/"), *mine]


def running_shots(stage: Stage) -> list[Shot]:
    """The demo once its second job has migrated: everything has something to show."""
    with stage.client("Birch Language") as client:
        job = wait_for(lambda: moved(client), seconds=STORY_SECONDS, what="a completed move")
    place = f"/jobs/{job}"
    mine = [
        Shot("jobs", "/jobs", "ben"),
        Shot("new-job", f"/jobs/new?from={job}", "ben"),
        Shot("job", place, "ben"),
        Shot("bids", f"{place}/bids", "ben"),
        *settings_of("ben"),
    ]
    everybodys = [Shot("market", "/market/gemm", "ben"), Shot("type", "/market/gemm/nvidia-a10", "ben")]
    operators = [
        Shot("admin", "/admin/", "operator"),
        Shot("admin-types", "/admin/workers/acceleratortype/", "operator"),
        Shot("admin-prices", "/admin/workers/acceleratortype/1/prices/", "operator"),
    ]
    return [*everybodys, *mine, *ANYONES, *operators]


def settings_of(user: str) -> list[Shot]:
    """The pages of a member's settings."""
    return [Shot("tokens", "/settings/tokens", user), Shot("members", "/settings/members", user)]


def moved(client: Client) -> str | None:
    """A job of the tenant that has migrated, and trained on since."""
    for job in client.jobs():
        if any(move["state"] == "done" for move in job["migrations"]):
            return str(job["job"])
    return None


def take_all(stage: Stage, browser: Browser, prefix: str, shots: Sequence[Shot], into: Path) -> None:
    """Each page in every scheme and width."""
    for scheme in SCHEMES:
        for user in dict.fromkeys(shot.user for shot in shots):
            with visit(stage, browser, user, color_scheme=scheme, reduced_motion="reduce") as visitor:
                for shot in shots:
                    if shot.user == user:
                        take(visitor, shot, into, f"{prefix}-{shot.name}-{scheme}")


def take(visitor: Visitor, shot: Shot, into: Path, name: str) -> None:
    """One page in every width, whole."""
    for width in WIDTHS:
        visitor.page.set_viewport_size({"width": width, "height": 800})
        page = visitor.open(shot.path)
        page.wait_for_timeout(SETTLE_MS)
        page.screenshot(path=into / f"{name}-{width}.png", full_page=True)
    print(name, flush=True)


def renew_readme(stage: Stage, browser: Browser) -> None:
    """The top of the pages that the README shows, where it looks for them."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    shots = [shot for shot in running_shots(stage) if shot.name in README]
    for shot in shots:
        with visit(stage, browser, shot.user, color_scheme="light", reduced_motion="reduce") as visitor:
            visitor.page.set_viewport_size({"width": WIDTHS[0], "height": README_HEIGHT})
            visitor.open(shot.path).wait_for_timeout(SETTLE_MS)
            visitor.page.screenshot(path=PICTURES / f"{shot.name}.png")
            print(shot.name, flush=True)


if __name__ == "__main__":
    main()
