"""The first screen and the next step: a new reader clicks an example, and sees what to do next."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect
from tests.browser.page_gateway import PageGateway, stream

SIZES = [(1440, 900), (1280, 720), (390, 844)]


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    with PageGateway({"demo": True, "default_model": "demo", "cache": {"url": "memory:"}}) as running:
        yield running


def try_example(page: Any, name: str) -> None:
    page.get_by_role("button", name=name).click()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_next_step_after_a_call_is_in_view(
    gateway: PageGateway, open_page: OpenPage, width: int, height: int
) -> None:
    page = open_page(gateway.url, width=width, height=height)
    if width > 390:  # there the composer covers a part of the examples until the reader scrolls
        check_accessible(page)
    try_example(page, "Weather")
    send = page.get_by_role("button", name="Send the results")
    expect(send).to_be_in_viewport(ratio=1)
    box = send.bounding_box()
    at_its_centre = "([x, y]) => document.elementFromPoint(x, y).textContent"
    centre = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    assert page.evaluate(at_its_centre, centre) == "Send the results"
    check_accessible(page)
    page.locator(".answers textarea").fill('{"temperature": 21}')
    send.click()
    expect(page.locator(".message").last).to_contain_text("The function get_weather returned")


def test_a_message_can_be_written_instead_of_a_result(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    try_example(page, "Weather")
    page.get_by_role("button", name="Write a message instead").click()
    expect(page.locator("#prompt")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Thinking", "How many prime numbers"),
        ("An image", "1 attachment(s), known to me only by media type: image/png"),
        ("A PDF", "What does this document say?"),
    ],
)
def test_each_example_gets_a_reply(gateway: PageGateway, open_page: OpenPage, name: str, shown: str) -> None:
    page = open_page(gateway.url)
    try_example(page, name)
    expect(page.locator(".live")).to_have_count(0)
    expect(page.locator(".details")).to_contain_text("complete")
    expect(page.locator(".messages")).to_contain_text(shown)


def test_a_long_reply_can_be_cut_resumed_and_stopped(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    try_example(page, "A long reply")
    expect(page.locator(".live")).to_contain_text("This is sentence 1 of 300")
    page.get_by_role("button", name="Cut the connection").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".live")).to_contain_text("This is sentence 9 of 300")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".message.assistant").last).to_contain_text("This is sentence 9 of 300")
    expect(page.locator(".problem")).to_have_count(0)


def test_a_reply_that_was_stopped_before_its_first_token_is_no_error(open_page: OpenPage) -> None:
    with PageGateway({"cache": {"url": "null:"}}, {"silent": stream(asyncio.Event())}) as running:
        page = open_page(running.url)
        page.locator("#prompt").fill("hi")
        page.locator("#prompt").press("Enter")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".stopped")).to_contain_text("The reply was stopped.")
        expect(page.locator(".problem")).to_have_count(0)
        page.goto(f"{running.url}/#status")
        badge = page.locator(".badge").first
        expect(badge).to_contain_text("has not answered yet")
        assert "good" not in badge.get_attribute("class")


def test_the_model_can_be_chosen_once_the_gateway_has_listed_what_there_is(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    held: list[Any] = []
    page.route("**/v1/models", lambda route: held.append(route))
    page.reload()
    model = page.get_by_label("Model", exact=True)
    expect(model).to_be_disabled()
    assert model.evaluate("(one) => one.tagName") == "SELECT"
    while not held:
        page.wait_for_timeout(10)  # the request reaches `held` while Playwright runs
    held[0].continue_()
    model.select_option("Other…")
    expect(page.get_by_label("Name of the model")).to_be_visible()


def test_a_model_that_the_list_lacks_can_be_named(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.get_by_label("Model", exact=True).select_option("Other…")
    page.get_by_label("Name of the model").fill("else")
    page.locator("#prompt").fill("hi")
    page.locator("#prompt").press("Enter")
    expect(page.locator(".problem").first).to_contain_text("else")


def test_the_api_page_leads_back(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.get_by_role("link", name="API", exact=True).click()
    page.get_by_role("link", name="Back to Parley").click()
    page.wait_for_selector("main.view")
