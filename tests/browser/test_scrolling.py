"""The end of a conversation stays in view while it grows, unless the reader scrolls up."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, expect
from tests.browser.page_gateway import PageGateway, delta, end, stream

LINES = 3000
BELOW = "() => document.querySelector('.messages').getBoundingClientRect().bottom - innerHeight"
WAIT_SECONDS = 20


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    burst = [delta(content=f"Line {number}\n\n" * 20) for number in range(LINES // 20)]
    with PageGateway({"cache": {"url": "null:"}}, {"burst": stream(*burst, end("stop"))}) as running:
        yield running


def ask(page: Any, text: str) -> None:
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def wait_for_end(page: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while page.evaluate(BELOW) > 300:
        assert time.monotonic() < deadline, "the end is not in view"
        page.wait_for_timeout(50)


def test_a_burst_of_lines_is_followed_to_its_end(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    ask(page, "Write a lot")
    expect(page.locator(".rows")).to_contain_text("complete")
    wait_for_end(page)
    page.evaluate("() => scrollTo(0, 0)")
    page.wait_for_timeout(100)
    ask(page, "Once more")
    expect(page.locator(".message.user")).to_have_count(2)
    wait_for_end(page)
