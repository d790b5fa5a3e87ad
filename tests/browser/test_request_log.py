"""The page of logged requests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.page_checks import OpenPage, check_accessible, check_layout, expect, take_layout
from tests.browser.page_gateway import PageGateway, delta, end, stream
from tests.scripted_server import Reply

ADMIN, HOSTILE = "key-of-the-administrator", "<img src=x onerror=window.hacked=1> ![x](http://evil.test/x.png)"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageGateway]:
    hello = stream(delta(content=HOSTILE), end("stop", prompt_tokens=10, completion_tokens=2))
    models = {
        "qwen3": hello,
        "gem": hello,
        "broken": Reply(status=500, chunks=(b'{"error": {"message": "out of order"}}',)),
    }
    folder = tmp_path_factory.mktemp("log")
    log = {"keep": "all", "url": f"sqlite:///{folder}/requests.db"}
    with PageGateway(
        {"server": {"admin_key": ADMIN}, "request_log": log, "cache": {"url": "null:"}}, models
    ) as running:
        ask(running, "qwen3")
        ask(running, "broken")
        yield running


def ask(gateway: PageGateway, model: str) -> None:
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
    system = {"role": "system", "content": "Be short."}
    body = {"model": model, "stream": True, "tools": [tool]}
    body["messages"] = [system, {"role": "user", "content": f"Mail alice@example.com {HOSTILE}"}]
    httpx.post(f"{gateway.url}/v1/chat/completions", json=body, trust_env=False)


def open_log(gateway: PageGateway, open_page: OpenPage, **more: Any) -> Any:
    page = open_page(gateway.url, "#requests", **more)
    page.locator("header button.key").click()
    page.locator("#api-key").fill(ADMIN)
    page.locator("#api-key").press("Enter")
    expect(page.locator("section.table tbody tr").first).to_be_visible()
    return page


def open_newest(page: Any, model: str) -> None:
    page.locator("section.table tbody tr").filter(has_text=model).first.locator("button.name").click()
    expect(page.get_by_role("heading", name=f"A request for {model}")).to_be_focused()


def test_the_list_is_filtered(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_log(gateway, open_page)
    rows = page.locator("section.table tbody tr")
    expect(rows.filter(has_text="broken").first).to_contain_text("server_error")
    page.get_by_label("Outcome").select_option("completed")
    expect(rows.filter(has_text="broken")).to_have_count(0)
    expect(rows.filter(has_text="qwen3").first).to_contain_text("10 + 2")
    page.get_by_label("Outcome").select_option("failed")
    expect(rows.filter(has_text="qwen3")).to_have_count(0)
    page.get_by_label("Model", exact=True).fill("no-such-model")
    expect(page.get_by_text("No requests are logged.")).to_be_visible()
    check_accessible(page)


def test_a_request_is_shown_as_messages_compared_and_in_its_bodies(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_log(gateway, open_page)
    open_newest(page, "qwen3")
    expect(page.get_by_role("tabpanel")).to_contain_text("completions")
    page.get_by_role("tab", name="Messages").click()
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.get_by_role("article").last).to_contain_text("Mail [EMAIL] <img")
    check_accessible(page)
    page.get_by_role("tab", name="Client and server").click()
    added = page.get_by_label("The model server got").locator("mark")
    expect(added.filter(has_text="include_usage")).to_have_count(1)
    expect(page.get_by_label("The model server got").locator("span", has_text="Be short.")).to_have_count(1)
    lines = page.locator("pre.lines").last.inner_text().split("\n")
    assert ' "model": "qwen3",' in [line[2:] for line in lines], lines
    check_accessible(page)
    page.get_by_role("tab", name="Bodies").click()
    expect(page.get_by_role("tabpanel").locator("details")).to_have_count(4)
    expect(page.get_by_role("tabpanel")).to_contain_text("The model server sent · local · HTTP 200")
    check_accessible(page)
    assert page.evaluate("window.hacked") is None
    page.get_by_role("button", name="Back to the list").click()
    expect(page.locator("button.name:focus")).to_have_count(1)


def test_a_request_is_opened_in_the_playground(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_log(gateway, open_page)
    open_newest(page, "qwen3")
    page.get_by_role("button", name="Open in the playground").click()
    expect(page.locator("main.chat article")).to_have_count(2)
    expect(page.locator("main.chat article").last).to_contain_text("Mail [EMAIL]")
    expect(page.locator("main.chat")).to_contain_text("look_up")


def test_a_request_of_gemini_is_shown_as_messages(gateway: PageGateway, open_page: OpenPage) -> None:
    contents = [{"role": "user", "parts": [{"text": "What is 6 x 7?"}]}]
    body = {"contents": contents, "systemInstruction": {"parts": [{"text": "Be short."}]}}
    httpx.post(f"{gateway.url}/v1beta/models/gem:generateContent", json=body, trust_env=False)
    page = open_log(gateway, open_page)
    open_newest(page, "gem")
    page.get_by_role("tab", name="Messages").click()
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.get_by_role("article").last).to_contain_text("What is 6 x 7?")


def test_a_request_is_exported(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_log(gateway, open_page)
    open_newest(page, "broken")
    expect(page.get_by_role("tabpanel")).to_contain_text("HTTP 500")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Export", exact=True).click()
    path = Path(waiting.value.path())
    assert waiting.value.suggested_filename.startswith("parley-report-")
    assert json.loads(path.read_bytes())["exchanges"][0]["reply"]["status"] == 500
    with page.expect_download() as waiting:
        page.get_by_label("Form of the export").select_option("curl")
        page.get_by_role("button", name="Export", exact=True).click()
    assert Path(waiting.value.path()).read_text("utf-8").startswith("curl ")


def test_a_request_is_deleted_after_a_question(gateway: PageGateway, open_page: OpenPage) -> None:
    ask(gateway, "broken")
    page = open_log(gateway, open_page)
    rows = page.locator("section.table tbody tr").filter(has_text="broken")
    before = rows.count()
    open_newest(page, "broken")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete this request for good").click()
    expect(rows).to_have_count(before - 1)


def test_the_page_is_offered_to_those_who_may_read_the_log(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, "#requests")
    expect(page.get_by_role("alert")).to_contain_text("Enter an administrator's API key")
    with PageGateway({"demo": True, "cache": {"url": "null:"}}) as without:
        other = open_page(without.url)
        expect(other.get_by_role("link", name="Status")).to_be_visible()
        expect(other.get_by_role("link", name="Requests")).to_have_count(0)


def test_of_a_long_request_the_changed_lines_are_compared(gateway: PageGateway, open_page: OpenPage) -> None:
    messages = [{"role": "user", "content": f"{number} {'word ' * 60}"} for number in range(1500)]
    body = {"model": "qwen3", "stream": True, "messages": messages}
    httpx.post(f"{gateway.url}/v1/chat/completions", json=body, trust_env=False)
    page = open_log(gateway, open_page)
    open_newest(page, "qwen3")
    page.get_by_role("tab", name="Client and server").click()
    side = page.locator("pre.lines").last
    expect(side).to_contain_text("lines are left out")
    expect(side.locator("mark").filter(has_text="include_usage")).to_have_count(1)
    assert side.locator("span").count() < 200
    check_layout(page, "a long request")
    check_accessible(page)
    page.get_by_role("tab", name="Bodies").click()
    expect(page.get_by_text("Only the first 200,000 characters are shown.")).to_have_count(2)


def test_a_request_is_read_and_left_with_the_keyboard(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_log(gateway, open_page)

    def press_tab_to(locator: Any, key: str = "Tab") -> None:
        for _ in range(60):
            if locator.evaluate("(one) => one === document.activeElement"):
                return
            page.keyboard.press(key)
        raise AssertionError(f"the keyboard does not reach {locator}")

    page.keyboard.press("Escape")
    press_tab_to(page.get_by_label("Outcome"))
    press_tab_to(page.get_by_label("Model", exact=True))
    page.keyboard.type("broken")
    row = page.locator("section.table tbody button.name").first
    expect(page.locator("section.table tbody tr").filter(has_text="qwen3")).to_have_count(0)
    press_tab_to(row)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="A request for broken")).to_be_focused()
    press_tab_to(page.get_by_role("tab", name="Figures"))
    for name in ("Messages", "Client and server", "Bodies"):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name=name)).to_be_focused()
    press_tab_to(page.locator("pre").first)
    press_tab_to(page.get_by_role("button", name="Back to the list"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("button.name:focus")).to_have_count(1)


@pytest.mark.parametrize(("width", "height"), [(360, 740), (1280, 860)])
@pytest.mark.parametrize("language", ["en-GB", "zh-CN"])
@pytest.mark.parametrize("colour", ["light", "dark"])
def test_the_page_fits_the_screen_in_both_languages_and_themes(
    gateway: PageGateway, open_page: OpenPage, width: int, height: int, language: str, colour: str
) -> None:
    page = open_log(gateway, open_page, width=width, height=height, locale=language, colour=colour)
    name = f"requests-{width}-{language[:2]}-{colour}"
    check_layout(page, "the list")
    check_accessible(page)
    take_layout(page, name)
    page.locator("section.table tbody button.name").last.click()
    for number in range(4):
        page.get_by_role("tab").nth(number).click()
        check_layout(page, f"tab {number}")
        check_accessible(page)
        take_layout(page, f"{name}-{number}")
    page.locator(".buttons button").last.click()  # asks whether to delete
    check_layout(page, "the question")
    check_accessible(page)
