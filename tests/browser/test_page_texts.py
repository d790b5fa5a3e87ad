"""Texts of models that a page could fail at. It shows them, the next message can be sent, a reload keeps all of it."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect
from tests.browser.page_gateway import PageGateway, delta, end, stream
from tests.scripted_server import Reply

NOT_FORMULAS = {
    "a name with dollars": "Name it report_$USER_$DATE.txt",
    "an open subscript": "$a_$",
    "two superscripts": "$x^^2$",
    "underscores": "Costs: $foo__init__$",
    "a double subscript": "$x_{a__b}$",
    "parentheses": "Paths \\(C:__x\\)",
    "an unknown command": "$\\notacommand{x}$ and $\\frac{1}$ and $}{$",
    "prices": "It costs $5 and then $10, or US$3 and A$4.",
    "shell": "Use $HOME/bin, $(date) and ${USER}_$$.",
}
LONG = {
    "open parentheses": "$\\left($" * 3_000,
    "deep quotes": ">" * 20_000,
    "deep lists": "- " * 20_000 + "a",
    "emphasis": "*a **b" * 30_000,
    "tildes": "~~a ~b" * 10_000,
    "formulas": "$x$" * 20_000,
    "formulas in lines": "$x$\n\n" * 20_000,
    "one formula": "$" + "x+\\frac{a}{b}" * 20_000 + "$",
    "nested formula": "$" + "\\sqrt{" * 2_000 + "}" * 2_000 + "$",
    "nested brackets": "[" * 20_000 + "](x)" * 5_000,
    "markdown": "The *quick* brown fox.\n\n" * 200_000,
    "one line": "lorem ipsum dolor " * 250_000,
    "code": "```js\n" + "let a = 1;\n" * 100_000 + "```",
    "open code": "```\n" + "`` ` ``\n" * 50_000,
    "table": "|a|b|\n|-|-|\n" + "|*c*|$d$|\n" * 5_000,
    "a picture": "![p](data:image/png;base64," + base64.b64encode(bytes(200_000)).decode() + ")",
}
TEXTS = NOT_FORMULAS | LONG
SLOWEST_TURN_MS = 8_000
"""Far above what a busy machine adds, and far below what a text takes that is parsed again with each piece."""
WATCH_TURNS = """() => {
  let last = performance.now();
  window.slowestTurn = 0;
  setInterval(() => {
    window.slowestTurn = Math.max(window.slowestTurn, performance.now() - last);
    last = performance.now();
  }, 20);
}"""

COUNT_KEPT = """async (messages) => {
  const get = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const database = await get(indexedDB.open("parley"));
  const conversations = database.transaction("conversations").objectStore("conversations");
  const kept = await get(conversations.get(sessionStorage.getItem("parley-tab")));
  database.close();
  return kept?.messages.length === messages;
}"""


def write_in_pieces(text: str, field: str = "content") -> Reply:
    """A stream of this text in a hundred pieces, and at most 9,000 characters each."""
    size = max(1, min(9_000, len(text) // 100))
    return stream(*(delta(**{field: text[at : at + size]}) for at in range(0, len(text), size)), end("stop"))


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    models = {name.replace(" ", "-"): write_in_pieces(text) for name, text in TEXTS.items()}
    models["thinker"] = write_in_pieces("Think of report_$USER_$DATE.txt", "reasoning_content")
    models["wide"] = write_in_pieces("$$" + "a+" * 300 + "b$$\n\n" + "> " * 15 + "deep\n\n| " + "wide cell | " * 60)
    with PageGateway({"cache": {"url": "null:"}}, models) as running:
        yield running


def send(page: Any, model: str, text: str = "hi") -> None:
    page.get_by_label("Model", exact=True).select_option(model)
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def reload(page: Any, messages: int) -> None:
    """Load the page again once it has kept this many messages, and wait until it shows them."""
    page.wait_for_function(COUNT_KEPT, arg=messages)
    page.reload()
    expect(page.locator(".message")).to_have_count(messages)


def shown_text(page: Any) -> str:
    return str(page.locator(".message.assistant").last.evaluate("(one) => one.textContent"))


@pytest.mark.parametrize("name", TEXTS)
def test_the_page_lives_after_this_text(gateway: PageGateway, open_page: OpenPage, name: str) -> None:
    page = open_page(gateway.url)
    page.evaluate(WATCH_TURNS)
    send(page, name.replace(" ", "-"))
    expect(page.locator(".live")).to_have_count(0)
    expect(page.locator(".message")).to_have_count(2)
    assert page.evaluate("window.slowestTurn") < SLOWEST_TURN_MS
    if name in NOT_FORMULAS:
        assert TEXTS[name] in shown_text(page)
    send(page, "prices", "and again")
    expect(page.locator(".message")).to_have_count(4)
    expect(page.locator(".live")).to_have_count(0)
    reload(page, 4)
    assert "It costs $5" in shown_text(page)


@pytest.mark.parametrize("name", ["a name with dollars", "an open subscript"])
def test_a_text_that_is_no_formula_is_shown_in_reasoning_too(
    gateway: PageGateway, open_page: OpenPage, name: str
) -> None:
    page = open_page(gateway.url)
    send(page, "thinker")
    expect(page.locator(".live")).to_have_count(0)
    assert "report_$USER_$DATE.txt" in shown_text(page)


@pytest.mark.parametrize("width", [390, 1280])
def test_wide_formulas_and_deep_quotes_scroll_inside_their_message(
    gateway: PageGateway, open_page: OpenPage, width: int
) -> None:
    page = open_page(gateway.url)
    send(page, "wide")
    expect(page.locator(".live")).to_have_count(0)
    page.set_viewport_size({"width": width, "height": 860})
    reload(page, 2)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    check_accessible(page)


@pytest.mark.parametrize(
    "message",
    [
        "null",
        '{"role": "assistant", "content": [{"thinking": {"a": 1}}]}',
        '{"role": "assistant", "tool_calls": 5}',
        '{"role": "assistant", "content": [{"type": "tool_use", "name": {"x": 1}, "input": 3}]}',
        '{"role": {"a": 1}, "content": 5}',
    ],
)
def test_a_message_of_any_shape_is_shown_and_can_be_removed(
    gateway: PageGateway, open_page: OpenPage, message: str
) -> None:
    page = open_page(gateway.url)
    page.get_by_role("button", name="Edit as JSON").click()
    page.get_by_label("Messages in the format of").fill(f"[{message}]")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Save with the mistakes").click()
    expect(page.locator(".message")).to_have_count(1)
    reload(page, 1)
    page.locator(".message").hover()
    page.get_by_role("button", name="Remove message 1").click(force=True)
    expect(page.locator(".message")).to_have_count(0)
