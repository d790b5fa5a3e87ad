"""Fields for JSON: a mistake is marked at its place, and functions are edited as a list, with a form or as JSON."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.page_checks import OpenPage, check_accessible, expect, take_picture
from tests.browser.page_gateway import PageGateway


@pytest.fixture(scope="module")
def gateway() -> Iterator[PageGateway]:
    with PageGateway({"demo": True, "default_model": "demo", "cache": {"url": "memory:"}}) as running:
        yield running


MISTAKES = [
    # text, kind, what is marked, line, column
    ('[\n {"role": "bear" "content": 1}\n]', "object", '"content"', 2, 18),
    ("[1,]", "comma", ",", 1, 3),
    ('{"a": 1,\n}', "comma", ",", 1, 8),
    ("{a: 1}", "key", "a", 1, 2),
    ("{'a': 1}", "key", "'a'", 1, 2),
    ("[True]", "word", "True", 1, 2),
    ('{"a": NaN}', "word", "NaN", 1, 7),
    ('{"a" 1}', "colon", "1", 1, 6),
    ("[1 2]", "list", "2", 1, 4),
    ('["abc', "quote", '"abc', 1, 2),
    ('"ab\ncd"', "break", '"ab', 1, 1),
    ('"a\\x"', "escape", "\\x", 1, 3),
    ('"a\tb"', "escape", "\t", 1, 3),
    ("[01]", "number", "01", 1, 2),
    ("[1.]", "number", "1.", 1, 2),
    ("[1] []", "rest", "[]", 1, 5),
    ('{"a":\n', "end", "\n", 1, 6),
    ("[“a”]", "value", "“a”", 1, 2),
    ("[" * 600, "depth", "[", 1, 502),
]


def test_a_mistake_of_syntax_has_a_place_and_a_reason(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    found = page.evaluate(
        """async (texts) => {
          const { findSyntaxMistake, findLine } = await import("./playground/json_places.js");
          return texts.map((text) => {
            const { kind, start, end } = findSyntaxMistake(text);
            const { line, column } = findLine(text, start);
            return [text, kind, text.slice(start, end), line, column];
          });
        }""",
        [case[0] for case in MISTAKES],
    )
    assert [tuple(one) for one in found] == MISTAKES


def test_every_valid_text_has_no_mistake_and_each_of_its_cuts_has_one(
    gateway: PageGateway, open_page: OpenPage
) -> None:
    page = open_page(gateway.url)
    text = json.dumps([{"a": [1, -2.5e3, True, None, 'x"\\\u2028😀'], "": {}}, [], "end"], indent=1, ensure_ascii=False)
    found = page.evaluate(
        """async (text) => {
          const { findSyntaxMistake } = await import("./playground/json_places.js");
          const cuts = [...text].map((_, at) => findSyntaxMistake([...text].slice(0, at).join("")));
          return [findSyntaxMistake(text), cuts.every((one) => one && one.end >= one.start)];
        }""",
        text,
    )
    assert found == [None, True]


PATHS = [
    ("messages[1].role", '"role": "bear"'),
    ("messages[1].content[0].text", '"text": 5'),
    ("messages[1].content", '"content": ['),
    ("messages[1].name", "{"),  # a key that is missing
    ('messages[0].extra["a.b"]', '"a.b": 1'),
]


def test_a_path_of_an_error_is_found_in_the_text(gateway: PageGateway, open_page: OpenPage) -> None:
    messages: list[Any] = [
        {"role": "user", "extra": {"a.b": 1}},
        {"role": "bear", "content": [{"text": 5}]},
    ]
    page = open_page(gateway.url)
    for body in (messages, {"model": "m", "messages": messages}, {"model": "m", "input": messages}):
        found = page.evaluate(
            """async ([text, params]) => {
              const { markMessages } = await import("./playground/json_marks.js");
              const violations = params.map((param) => ({ param, message: "is wrong" }));
              return markMessages(text, violations).map(({ start, end }, at) => [params[at], text.slice(start, end)]);
            }""",
            [json.dumps(body), [path for path, _ in PATHS]],
        )
        assert [tuple(one) for one in found] == PATHS


def test_a_mistake_of_syntax_is_marked_in_the_editor(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, colour="dark", locale="zh-CN")
    page.get_by_role("button", name="编辑 JSON", exact=True).click()
    editor = page.locator(".editor textarea")
    lines = [f'  {{"role": "user", "content": "{number}"}},' for number in range(60)]
    editor.fill("\n".join(["[", *lines, '  {"role": "user" "content": "Hi"}', "]"]))
    page.get_by_role("button", name="保存", exact=True).click()
    expect(page.locator(".backdrop mark")).to_have_text('"content"')
    page.get_by_role("button", name="第 62 行，第 19 列：此处之前缺少逗号或 }").click()
    assert editor.evaluate("one => one.value.slice(one.selectionStart, one.selectionEnd)") == '"content"'
    assert editor.evaluate("one => one.scrollTop") > 200
    mark, field = page.locator(".backdrop mark").bounding_box(), editor.bounding_box()
    assert field["y"] < mark["y"] < field["y"] + field["height"]
    check_accessible(page)


def functions(page: Any) -> Any:
    return page.evaluate(
        """async () => {
          const { store } = await import("./playground/conversation.js");
          return JSON.parse(store.get().options.functions || "[]");
        }"""
    )


def test_a_function_is_added_with_the_form_and_called(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url, width=1440, height=900)
    options = page.locator("aside.options")
    options.get_by_role("button", name="Add a function").click()
    options.get_by_label("Name", exact=True).first.fill("get_tide")
    options.get_by_label("Description").first.fill("The tide of a harbour")
    options.get_by_role("button", name="Add a parameter").click()
    row = options.locator(".parameter").first
    row.get_by_label("Name").fill("harbour")
    row.get_by_label("Description").fill("The name of the harbour")
    row.get_by_label("Required").check()
    options.get_by_role("button", name="Add a parameter").click()
    second = options.locator(".parameter").nth(1)
    second.get_by_label("Name").fill("harbour")
    expect(second).to_contain_text("another parameter has this name")
    second.get_by_label("Name").fill("days")
    second.get_by_label("Type").select_option("integer")
    check_accessible(page)
    take_picture(page, "functions")
    assert functions(page) == [
        {
            "name": "get_tide",
            "description": "The tide of a harbour",
            "parameters": {
                "type": "object",
                "properties": {
                    "harbour": {"type": "string", "description": "The name of the harbour"},
                    "days": {"type": "integer"},
                },
                "required": ["harbour"],
            },
        }
    ]
    page.locator("#prompt").fill("How is the tide in Brest?")
    page.locator("#prompt").press("Enter")
    expect(page.locator(".part.call")).to_contain_text("get_tide")


def test_the_form_keeps_what_it_does_not_show(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    options = page.locator("aside.options")
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "strict": True,
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"unit": {"type": "string", "enum": ["C", "F"]}, "both": {"anyOf": [{}, {}]}},
                "required": ["unit"],
            },
        },
    }
    listed = {"name": "g", "parameters": [{"name": "x", "type": "string"}]}
    options.get_by_role("button", name="Functions as JSON").click()
    options.get_by_label("Functions", exact=True).fill(json.dumps([tool, listed]))
    options.get_by_role("button", name="Functions as JSON").click()
    expect(options.locator(".function > summary")).to_have_text(["f (unit, both)", "g ()"])
    options.locator(".function > summary").nth(0).click()
    options.get_by_label("Required").first.uncheck()
    options.get_by_label("Description").first.fill("New")
    changed = json.loads(json.dumps(tool))
    del changed["function"]["parameters"]["required"]
    changed["function"]["description"] = "New"
    assert functions(page) == [changed, listed]
    options.get_by_role("button", name="Remove the function").first.click()
    assert functions(page) == [listed]


def test_functions_that_are_no_json_are_marked_and_stay_json(gateway: PageGateway, open_page: OpenPage) -> None:
    page = open_page(gateway.url)
    options = page.locator("aside.options")
    options.get_by_role("button", name="Functions as JSON").click()
    options.get_by_label("Functions", exact=True).fill('[{"name": "f",}]')
    expect(options.locator(".marks")).to_contain_text("Line 1, column 14: a comma must not come last")
    expect(options.get_by_role("button", name="Functions as JSON")).to_be_disabled()
    check_accessible(page)
    page.locator("#prompt").fill("Hello")
    page.locator("#prompt").press("Enter")
    expect(page.locator(".problem")).to_contain_text("Functions: not valid JSON (Line 1, column 14")
