"""A headless Chromium, and pages that must load nothing from elsewhere, break no policy and log no error."""

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TIMEOUT_MS = 20_000
WATCH = """
window.policyViolations = [];
addEventListener("securitypolicyviolation", (event) =>
  window.policyViolations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Playwright runs an event loop in this thread, so it must end before other modules run theirs."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if CHROMIUM is None:
        reason = "chromium is not installed (apt-get install chromium)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    playwright.expect.set_options(timeout=TIMEOUT_MS)
    with playwright.sync_playwright() as engine:
        # As root, which CI containers often are, Chromium does not start with its sandbox.
        arguments = ["--disable-gpu", "--process-per-site", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        chromium = engine.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@dataclass
class Watched:
    """What the pages of one test did that no page may do."""

    faults: list[str] = field(default_factory=list)

    def watch(self, page: Any, origin: str) -> None:
        page.on("console", lambda message: self._check_console(message))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self._check_request(request.url, origin))

    def _check_console(self, message: Any) -> None:
        # The browser logs every response with an error status, also those that a test wants.
        if message.type in ("error", "warning") and "the server responded with a status" not in message.text:
            self.faults.append(f"console: {message.text}")

    def _check_request(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:", "blob:")):
            self.faults.append(f"request: {url}")


@pytest.fixture(scope="module")
def contexts(browser: Any) -> Callable[[str], Any]:
    """A browser's profile for each language. Pages of one profile share what they have loaded and compiled."""

    @functools.cache
    def open_context(locale: str) -> Any:
        context = browser.new_context(locale=locale, reduced_motion="reduce")
        context.set_default_timeout(TIMEOUT_MS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.add_init_script(WATCH)
        return context

    return open_context


@pytest.fixture
def open_page(contexts: Callable[[str], Any]) -> Iterator[Callable[..., Any]]:
    """Opens a page of a gateway: `open_page(url, "#status", width=390, locale="zh-CN", colour="dark")`."""
    watched, pages = Watched(), []

    def open_at(
        url: str, path: str = "", *, width: int = 1280, height: int = 860, locale: str = "en-GB", colour: str = "light"
    ) -> Any:
        context = contexts(locale)
        if not context.pages:
            context.new_page().goto(f"{url}/healthz")  # it stays, and with it the process of all pages
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=colour)
        watched.watch(page, url)
        page.goto(f"{url}/{path}")
        page.wait_for_selector("main.view")
        return page

    yield open_at
    for page in pages:
        watched.faults += [f"policy: {one}" for one in page.evaluate("window.policyViolations")]
        page.evaluate("localStorage.clear()")  # the next page starts without it
        page.close()
    assert watched.faults == []
