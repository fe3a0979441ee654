"""The browser fixture that page tests use."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Page


def test_a_browser_opens_a_page(page: Page, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<title>Laissez</title><h1>Prices</h1>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        assert page.title() == "Laissez"
        assert page.get_by_role("heading", name="Prices").is_visible()
        server.shutdown()
