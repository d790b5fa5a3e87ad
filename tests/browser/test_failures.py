"""Failures on the page: what happened and whose fault it was, in the language of the page."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect, take_picture
from tests.browser.page_gateway import PageGateway, delta
from tests.scripted_server import Reply


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    models = {
        "broken": Reply(chunks=[delta(content="All is well so far")], chunked=True, abrupt=True),
        "limited": Reply([b'{"error": {"message": "too many", "code": "rate_limit_exceeded"}}'], status=429),
    }
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it is bound and does not listen: connections are refused
        away = {"base_url": f"http://127.0.0.1:{closed.getsockname()[1]}/v1"}
        settings = {
            "demo": True,
            "default_model": "limited",
            "cache": {"url": "null:"},
            "upstreams": {"away": away},
            "models": {"away": {"upstreams": ["away"]}},
        }
        with PageGateway(settings, models) as running:
            yield running


FAILURES = [
    (
        "broken",
        "fault of the model server",
        "The model server ended the reply",
        "模型服务器的问题",
        "模型服务器在回复完成前中断",
    ),
    ("limited", "fault of the model server", "The rate limit of the model server", "模型服务器的问题", "速率限制"),
    ("away", "fault of the network", "The gateway cannot reach the model server", "网络的问题", "网关无法连接"),
    (
        "missing",
        "fault of the request",
        "The gateway has no model of this name.",
        "请求的问题",
        "网关没有这个名称的模型",
    ),
]


def send(page: Any, model: str) -> None:
    page.evaluate(
        """async (model) => {
          const { setMessages, setOptions, sendUser } = await import("./playground/conversation.js");
          setMessages([]);
          setOptions({ model });
          await sendUser("Hello", []);
        }""",
        model,
    )


@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
def test_a_failure_says_in_the_language_of_the_page_what_happened_and_whose_fault_it_is(
    gateway: PageGateway, open_page: OpenPage, language: str
) -> None:
    page = open_page(gateway.url, locale=language, width=1440, height=900)
    for model, place, title, chinese_place, chinese_title in FAILURES:
        send(page, model)
        problem = page.locator(".problem")
        expect(problem, model).to_contain_text(title if language == "en-GB" else chinese_title)
        expect(problem.locator(".place"), model).to_have_text(place if language == "en-GB" else chinese_place)
    check_accessible(page)
    page.get_by_role("link", name="Status" if language == "en-GB" else "状态").click()
    rows = page.locator("section.table").last.locator("tbody tr")
    for at, (model, place, title, chinese_place, chinese_title) in enumerate(reversed(FAILURES)):
        expect(rows.nth(at), model).to_contain_text(title if language == "en-GB" else chinese_title)
        expect(rows.nth(at).locator(".place"), model).to_have_text(place if language == "en-GB" else chinese_place)
    check_accessible(page)
    if language == "en-GB":
        take_picture(page, "status")


def test_the_model_that_the_configuration_names_is_chosen(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    expect(page.get_by_label("Model", exact=True)).to_have_value("limited")


def test_facts_of_a_failure_do_not_touch(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    send(page, "limited")
    page.get_by_role("link", name="Status").click()
    facts = page.get_by_role("region", name="Model servers").locator(".facts").filter(has_text="429")
    expect(facts).to_contain_text("HTTP 429")
    gaps = facts.locator("> *").evaluate_all(
        """all => all.map((one) => one.getBoundingClientRect()).slice(1).map((box, at) => {
          const before = all[at].getBoundingClientRect();
          return box.top >= before.bottom - 1 || box.left - before.right >= 4;
        })"""
    )
    assert gaps and all(gaps), gaps


def test_a_gateway_that_does_not_answer_is_named(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('Failed to fetch')); }")
    send(page, "limited")
    expect(page.locator(".problem")).to_contain_text("The gateway does not answer.")
    expect(page.locator(".problem .place")).to_have_text("fault of the network")


DRAINING = {"error": {"code": "draining", "message": "the gateway is shutting down"}}


@pytest.mark.parametrize("path", ["gateway.json", "strings/en.json", "views/app.js"])
def test_a_page_that_cannot_be_shown_says_why(gateway: PageGateway, contexts: Callable[[str], Any], path: str) -> None:
    page = contexts("en-GB").new_page()
    page.route(f"**/playground/{path}", lambda route: route.fulfill(status=503, json=DRAINING))
    page.goto(gateway.url)
    expect(page.get_by_role("alert")).to_contain_text("The page cannot be shown")
    page.close()


def test_a_language_whose_texts_do_not_come_leaves_the_page_as_it_is(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.route("**/strings/zh.json", lambda route: route.fulfill(status=503, json=DRAINING))
    page.get_by_label("Language").first.select_option("zh")
    expect(page.locator(".problem")).to_contain_text("The gateway is shutting down.")
    expect(page.get_by_role("link", name="Chat")).to_be_visible()
    page.unroute("**/strings/zh.json")
    page.reload()
    expect(page.get_by_role("link", name="Chat")).to_be_visible()


def test_a_conversation_that_the_browser_does_not_keep_is_said(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.evaluate("() => { indexedDB.open = () => { throw new DOMException('no room', 'QuotaExceededError'); }; }")
    send(page, "limited")
    expect(page.locator(".notices")).to_contain_text("This browser does not keep the conversation")
    expect(page.locator(".notices")).to_contain_text("no room")
    page.evaluate("() => { delete indexedDB.open; }")
    send(page, "limited")
    expect(page.locator(".notices")).to_have_count(0)
