"""The layout of each view, from a phone to a 4K screen: nothing touches, nothing is cut off."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, check_layout, expect, take_layout
from tests.browser.page_gateway import PageGateway, delta, end, stream

VIEWS = ("chat", "convert", "status", "spending", "connect")
SIZES = [(390, 844), (1440, 900), (3840, 2160)]


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    models = {"qwen3": stream(delta(reasoning_content="Hm."), delta(content="Hello."), end("stop"))}
    settings = {"demo": True, "default_model": "qwen3", "cache": {"url": "memory:"}}
    with PageGateway(settings | {"limits": {"requests_per_minute": 1000}}, models) as running:
        yield running


def show(page: Any, view: str, language: str) -> None:
    page.evaluate("view => { location.hash = view; }", view)
    page.locator(f"main.{view}").wait_for()
    if view == "status":
        expect(page.locator("section.table tbody tr").first).to_be_visible()
    if view == "spending":
        expect(page.locator("section.table tbody tr").first).to_be_visible()
    if view == "convert":
        expect(page.locator("pre[role=region]")).to_be_visible()


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(("language", "colour"), [("en-GB", "light"), ("zh-CN", "dark")])
def test_nothing_touches_and_nothing_is_cut_off(
    gateway: PageGateway, open_page: OpenPage, width: int, height: int, language: str, colour: str
) -> None:
    page = open_page(gateway.url, width=width, height=height, locale=language, colour=colour)
    heading = page.locator(".first-run h2")
    expect(heading).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0
    check_layout(page, "the first screen")
    take_layout(page, f"first-{width}-{language[:2]}")
    page.locator("#prompt").fill("Hello")
    page.locator("#prompt").press("Enter")
    expect(page.locator(".message.assistant").last).to_contain_text("Hello.")
    expect(page.locator(".live")).to_have_count(0)
    for view in VIEWS:
        show(page, view, language)
        check_layout(page, view)
        check_accessible(page)
        take_layout(page, f"{view}-{width}-{language[:2]}")


def test_a_4k_screen_is_used(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, width=3840, height=2160)
    assert page.locator("main").bounding_box()["width"] > 2000
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") > 20


def test_a_table_is_a_list_on_a_phone(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, "#status", width=390, height=844)
    region = page.get_by_role("region", name="Model servers")
    expect(region).to_contain_text("local")
    assert region.evaluate("one => one.scrollWidth <= one.clientWidth")
    cell = region.locator("tbody td").first
    assert cell.evaluate("one => getComputedStyle(one, '::before').content") == '"Upstream"'
