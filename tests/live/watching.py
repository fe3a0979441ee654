"""A visitor: a browser window of its own that remembers whatever its pages complained of."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.live.stage import Stage

SERIOUS = {"serious", "critical"}
LEFT_EARLY = "is closed before the connection is established"
"""Said of a page that is left while its socket opens; it has done nothing wrong."""
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


@dataclass
class Visitor:
    """Somebody at a browser. `complaints`: errors and warnings of the console, CSP violations, uncaught exceptions."""

    stage: Stage
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to an address of the product."""
        self.page.goto(self.stage.url + path)
        return self.page

    def sign_in(self, username: str) -> None:
        """With the demo's password."""
        self.open("/login/")
        self.page.get_by_label("User name").fill(username)
        self.page.get_by_label("Password").fill(self.stage.password)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()

    def another_tab(self) -> Page:
        """A second tab of the same person."""
        tab = self.context.new_page()
        self.listen(tab)
        return tab

    def listen(self, page: Page) -> None:
        """Remember what a tab complains of."""
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))

    def _hear(self, message: ConsoleMessage) -> None:
        # A page that is left while its socket opens has done nothing wrong, though the browser says so.
        if (
            message.type in ("error", "warning")
            and "is closed before the connection is established" not in message.text
        ):
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def refused(self, status: int, address: str) -> str:
        """The complaint of a browser about an answer with this status: some refusals are meant."""
        start = f"Failed to load resource: the server responded with a status of {status} "
        return next(said for said in self.complaints if said.startswith(start) and said.endswith(f"({address})"))

    def keep(self) -> None:
        """Mark the document, so that `is_kept` can tell that it was never loaded anew."""
        self.page.evaluate("document.documentElement.dataset.kept = 'yes'")

    def is_kept(self) -> bool:
        """Whether the page is still the one that `keep` marked."""
        return bool(self.page.evaluate("document.documentElement.dataset.kept === 'yes'"))

    def width(self) -> int:
        """How wide the document is, in CSS pixels."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))

    def findings(self) -> list[str]:
        """What axe-core finds serious or critical on the page."""
        found = Axe().run(self.page)
        return [_told(each) for each in found["violations"] if each["impact"] in SERIOUS]


def _told(finding: dict[str, Any]) -> str:
    places = "; ".join(str(node["target"][0]) for node in finding["nodes"][:4])
    return f"{finding['id']}: {finding['help']} at {places}"


@contextmanager
def visit(stage: Stage, browser: Browser, username: str | None = None, **options: Any) -> Iterator[Visitor]:
    """A visitor, signed in if a user name is given. `options` are those of a browser context."""
    with browser.new_context(**options) as context:
        context.add_init_script(REPORT_VIOLATIONS)
        visitor = Visitor(stage, context, context.new_page())
        visitor.listen(visitor.page)
        if username is not None:
            visitor.sign_in(username)
        yield visitor
