"""What a conversion loses is listed, each loss at its message."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect, take_picture
from tests.browser.page_gateway import PageGateway

PDF = {"type": "file", "file": {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
MESSAGES: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Read it."},
    {"role": "assistant", "content": "I do.", "reasoning_content": "Yes.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "It is long."},
    {"role": "user", "content": [{"type": "text", "text": "Sum it up."}, PDF]},
]
"""In AutoGen's format the third message becomes three, and a PDF is only a text."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    with PageGateway({"demo": True, "default_model": "demo", "cache": {"url": "memory:"}}) as running:
        yield running


def test_a_loss_is_shown_at_its_message_in_the_chat(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    page.get_by_label("Format").select_option("openai")
    page.get_by_role("button", name="Edit as JSON").click()
    page.locator(".editor textarea").fill(json.dumps(MESSAGES))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("article.message")).to_have_count(len(MESSAGES))
    page.get_by_label("Format").select_option("autogen")
    lossy = page.locator("article.message").filter(has=page.locator(".notices"))
    expect(lossy).to_have_count(1)
    expect(lossy).to_contain_text("messages[4].content[1].file: is written as the text")
    expect(lossy).to_contain_text("Sum it up.")
    assert page.locator("article.message").count() > len(MESSAGES)
    check_accessible(page)
    lossy.get_by_role("button", name="Remove").click()
    expect(page.locator(".notices")).to_have_count(0)


def test_a_loss_is_marked_at_its_place_in_the_conversion(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, "#convert", width=1440, height=900)
    page.get_by_role("combobox", name="To").select_option("autogen")
    editor = page.get_by_label("Messages", exact=True)
    editor.fill(json.dumps(MESSAGES, indent=2))
    mark = page.locator(".backdrop mark.lost")
    expect(mark).to_have_text('"file": {')
    place = page.locator("button.mark.lost")
    expect(place).to_contain_text("messages[4].content[1].file: is written as the text")
    place.click()
    selected = editor.evaluate("one => one.value.slice(0, one.selectionStart).split('\\n').length")
    assert json.dumps(MESSAGES, indent=2).split("\n")[selected - 1].strip() == '"file": {'
    check_accessible(page)
    take_picture(page, "convert")
    editor.fill(json.dumps(MESSAGES[:3], indent=2))
    expect(place).to_have_count(0)


def test_a_warning_of_a_reply_is_shown_at_its_message_in_each_format(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    outcome = page.evaluate(
        """async () => {
          const { splitByMessage } = await import("./playground/losses.js");
          const { byMessage, others } = splitByMessage([
            "messages[2].content[0]: is lost",
            "messages[2] has no name",
            "messages[11].extra[\\"a.b\\"]: was ignored",
            "`temprature` was passed on as it is",
          ]);
          return [[...byMessage].map(([index, rows]) => [index, rows.map((one) => one.message)]), others];
        }"""
    )
    assert outcome == [
        [[2, ["is lost", "has no name"]], [11, ["was ignored"]]],
        ["`temprature` was passed on as it is"],
    ]
