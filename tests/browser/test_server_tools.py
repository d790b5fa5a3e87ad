"""Tools that the gateway runs: the page offers their servers, shows calls with their results, and asks for approval."""

from collections.abc import Iterator
from typing import Any

import pytest
from app.config.load import DEMO_TOOLS

from tests.browser.page_checks import OpenPage, check_accessible, expect
from tests.browser.page_gateway import PageGateway

FORMATS = ["qwen", "openai", "responses", "anthropic", "autogen", "agentscope", "agentscope2"]
QUESTION = "Use the calculator: 12 * (3+4)"
ANSWER = "returned: 12 * (3+4) = 84"
STOP_AT_THE_RESULT = """() => new MutationObserver((_, observer) => {
  if (!document.querySelector(".live .part.result")) return;
  observer.disconnect();
  document.querySelector("#prompt, main").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
}).observe(document.body, { subtree: true, childList: true })"""
"""Presses Escape as soon as a result is shown."""
LONG_QUESTION = QUESTION + "".join(f", then use the calculator: {number} + 1" for number in range(1, 6))
"""Six calls, one after the other: seconds are left for the key, also where the browser shows a part of them late."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    servers = {"example": DEMO_TOOLS["example"], "guarded": DEMO_TOOLS["example"] | {"approval": "always"}}
    settings = {"demo": True, "default_model": "demo", "cache": {"url": "memory:"}, "mcp_servers": servers}
    with PageGateway(settings) as running:
        yield running


def ask(page: Any, question: str) -> None:
    page.locator("#prompt").fill(question)
    page.keyboard.press("Enter")


def choose(page: Any, format_: str, server: str) -> None:
    page.get_by_label("Format").select_option(format_)
    page.get_by_label(server, exact=True).check()


def test_the_first_screen_offers_the_tools_of_the_example(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.get_by_role("button", name="A calculator that the gateway runs").click()
    expect(page.get_by_label("example", exact=True)).to_be_checked()
    expect(page.locator(".part.content").last).to_contain_text(ANSWER)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_result_of_the_gateway_is_shown_with_its_call_and_not_asked_for(
    gateway: PageGateway, open_page: OpenPage, format_: str
) -> None:
    page = open_page(gateway.url)
    choose(page, format_, "example")
    ask(page, QUESTION)
    expect(page.locator(".live")).to_have_count(0)
    expect(page.locator(".details")).to_contain_text("complete")
    expect(page.locator(".part.call h3")).to_have_text("Function call calculator of example")
    expect(page.locator(".part.result h3")).to_contain_text("calculator of example")
    expect(page.locator(".part.result .badge")).to_have_text("ok")
    expect(page.locator(".part.result")).to_contain_text("12 * (3+4) = 84")
    expect(page.locator(".part.content").last).to_contain_text(ANSWER)
    expect(page.locator("#prompt")).to_be_visible()
    check_accessible(page)
    ask(page, "Thank you")  # the reply is accepted as history
    expect(page.locator(".message.user")).to_have_count(2)
    expect(page.locator(".live")).to_have_count(0)
    expect(page.locator(".problem")).to_have_count(0)


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "anthropic"])
def test_a_call_runs_when_it_is_approved(gateway: PageGateway, open_page: OpenPage, format_: str) -> None:
    page = open_page(gateway.url)
    choose(page, format_, "guarded")
    ask(page, QUESTION)
    group = page.get_by_role("group", name="Shall the gateway run guarded-calculator?")
    expect(group).to_contain_text("12 * (3+4)")
    expect(page.locator(".part.result")).to_have_count(0)
    check_accessible(page)
    group.get_by_role("button", name="Approve").click()
    expect(page.locator(".part.result .badge")).to_have_text("ok")
    expect(page.locator(".part.content").last).to_contain_text(ANSWER)
    expect(page.locator("#prompt")).to_be_visible()


@pytest.mark.parametrize("format_", ["qwen", "openai"])
def test_a_call_that_is_refused_does_not_run(gateway: PageGateway, open_page: OpenPage, format_: str) -> None:
    page = open_page(gateway.url)
    choose(page, format_, "guarded")
    ask(page, QUESTION)
    page.get_by_role("button", name="Refuse").click()
    expect(page.locator(".part.result .badge")).to_have_text("error")
    expect(page.locator(".part.result")).to_contain_text("not approved")
    expect(page.locator("#prompt")).to_be_visible()


def test_a_result_is_shown_before_the_reply_ends_and_stays_when_it_is_stopped(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    choose(page, "qwen", "example")
    page.get_by_label("example", exact=True).check()
    page.evaluate(STOP_AT_THE_RESULT)
    ask(page, LONG_QUESTION)
    expect(page.locator(".details")).to_contain_text("stopped")
    expect(page.locator(".messages .part.result").first).to_contain_text("12 * (3+4) = 84")
    expect(page.locator(".answers")).to_have_count(0)


def test_the_status_lists_the_servers_with_their_state_and_tools(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    choose(page, "openai", "example")
    ask(page, QUESTION)
    expect(page.locator(".details")).to_contain_text("complete")
    page.get_by_role("link", name="Status").click()
    rows = page.get_by_role("region", name="Tools that the gateway runs").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="example")).to_contain_text("running")
    expect(rows.filter(has_text="example")).to_contain_text("calculator")
    check_accessible(page)
