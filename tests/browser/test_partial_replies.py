"""A reply that did not finish stays in the conversation, on the page and in what the model gets next."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, expect
from tests.browser.page_gateway import PageGateway, delta, end, stream

BEGUN = "Once upon a time"
FORMATS = ("qwen", "openai", "responses", "anthropic", "gemini", "autogen", "agentscope", "agentscope2")


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    models = {
        "stuck": stream(delta(reasoning_content="I think."), delta(content=BEGUN), asyncio.Event()),
        "quick": stream(delta(content="The end."), end("stop")),
        "broken": stream(delta(content=BEGUN)),
    }
    with PageGateway({"cache": {"url": "null:"}}, models) as running:
        yield running


def ask(page: Any, model: str, text: str) -> None:
    page.get_by_label("Model", exact=True).select_option(model)
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def last_request(gateway: PageGateway) -> str:
    return json.dumps(json.loads(gateway.server.requests[-1].body)["messages"])


def open_begun(gateway: PageGateway, open_page: OpenPage, format_: str = "qwen") -> Any:
    """The page while a reply is written, of which the text so far is shown."""
    page = open_page(gateway.url)
    page.get_by_label("Format", exact=True).select_option(format_)
    ask(page, "stuck", "Tell me a story")
    expect(page.locator(".live .part.content")).to_contain_text(BEGUN)
    return page


@pytest.mark.parametrize("format_", FORMATS)
def test_a_reply_that_was_stopped_goes_to_the_model_with_the_next_message(
    gateway: PageGateway, open_page: OpenPage, format_: str
) -> None:
    page = open_begun(gateway, open_page, format_)
    page.keyboard.press("Escape")
    expect(page.locator(".live")).to_have_count(0)
    ask(page, "quick", "Go on")
    expect(page.locator(".messages")).to_contain_text("The end.")
    expect(page.locator(".messages")).to_contain_text(BEGUN)
    assert BEGUN in last_request(gateway)
    page.reload()
    expect(page.locator(".messages")).to_contain_text(BEGUN)


def test_a_reply_whose_connection_was_cut_goes_to_the_model_with_the_next_message(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_begun(gateway, open_page)
    page.get_by_role("button", name="Cut the connection").click()
    ask(page, "quick", "Go on")
    expect(page.locator(".messages")).to_contain_text("The end.")
    expect(page.locator(".messages")).to_contain_text(BEGUN)
    assert BEGUN in last_request(gateway)


def test_a_reply_that_cannot_be_kept_stays_on_the_page_and_nothing_is_sent(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_begun(gateway, open_page, "openai")
    page.route("**/v1/convert", lambda route: route.fulfill(status=503, json={"error": {"message": "no room"}}))
    page.keyboard.press("Escape")
    expect(page.locator(".problem")).to_contain_text("no room")
    expect(page.locator(".live")).to_contain_text(BEGUN)
    sent = len(gateway.server.requests)
    ask(page, "quick", "Go on")
    expect(page.locator("#prompt")).to_have_value("Go on")
    expect(page.locator(".live")).to_contain_text(BEGUN)
    assert len(gateway.server.requests) == sent


def test_a_stop_that_does_not_reach_the_gateway_is_a_problem(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_begun(gateway, open_page)
    page.route("**/v1/chat/*", lambda route: route.fulfill(status=502, json={"error": {"message": "proxy is down"}}))
    page.keyboard.press("Escape")
    expect(page.locator(".problem")).to_contain_text("proxy is down")


def test_a_reply_that_ends_after_the_format_was_changed_is_of_the_new_format(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_begun(gateway, open_page)
    page.get_by_label("Format", exact=True).select_option("anthropic")
    expect(page.get_by_label("Format", exact=True)).to_have_value("anthropic")
    page.keyboard.press("Escape")
    ask(page, "quick", "Go on")
    expect(page.locator(".messages")).to_contain_text("The end.")
    assert BEGUN in last_request(gateway)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_reply_in_progress_is_read_on_after_a_reload(gateway: PageGateway, open_page: OpenPage, format_: str) -> None:
    page = open_begun(gateway, open_page, format_)
    page.reload()
    expect(page.locator(".live .part.content")).to_contain_text(BEGUN)
    page.keyboard.press("Escape")
    ask(page, "quick", "Go on")
    expect(page.locator(".messages")).to_contain_text("The end.")
    assert BEGUN in last_request(gateway)


def test_what_came_of_a_reply_that_failed_is_there_after_a_reload(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    ask(page, "broken", "Tell me a story")
    expect(page.locator(".live .problem")).to_be_visible()
    page.reload()
    expect(page.locator(".live .part.content")).to_contain_text(BEGUN)
    ask(page, "quick", "Go on")
    expect(page.locator(".messages")).to_contain_text("The end.")
    assert BEGUN in last_request(gateway)


@pytest.mark.parametrize("status", [401, 429, 503])
def test_a_resume_that_is_refused_can_be_tried_again(gateway: PageGateway, open_page: OpenPage, status: int) -> None:
    page = open_begun(gateway, open_page)
    refusal = {"error": {"message": "not now", "code": "overloaded"}}
    page.route("**/v1/chat/*/events*", lambda route: route.fulfill(status=status, json=refusal))
    page.get_by_role("button", name="Cut the connection").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".problem").filter(has_text="not now")).to_be_visible()
    expect(page.locator(".live .part.content")).to_contain_text(BEGUN)
    page.unroute("**/v1/chat/*/events*")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Cut the connection")).to_be_visible()


def test_a_tab_that_was_made_of_another_one_has_a_conversation_of_its_own(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    ask(page, "quick", "First question")
    expect(page.locator(".messages")).to_contain_text("The end.")
    with page.context.expect_page() as opened:
        page.evaluate("window.open(location.href)")
    copy = opened.value
    expect(copy.locator(".messages")).to_contain_text("First question")
    ask(copy, "quick", "Second question")
    expect(copy.locator(".message.assistant")).to_have_count(2)
    page.reload()
    expect(page.locator(".messages")).to_contain_text("First question")
    expect(page.locator(".messages")).not_to_contain_text("Second question")
    copy.reload()
    expect(copy.locator(".messages")).to_contain_text("Second question")
    copy.close()
