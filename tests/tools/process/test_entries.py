import json
from typing import Any

from app.chat.hosted_tools import SearchEntry
from app.tools.process.entries import MAX_ENTRIES, read_entries

from tests.each_case import each_case
from tests.linear_time import linear

ONE = SearchEntry("https://a.example/1", "One", "First.")
TWO = SearchEntry("https://b.example/2", "Two", "Second.", "2026-11-01")
ROWS = [
    {"url": ONE.url, "title": "One", "content": "First."},
    {"link": TWO.url, "name": "Two", "snippet": "Second.", "date": "2026-11-01"},
]


def read(*texts: str, **result: Any) -> tuple[SearchEntry, ...]:
    return read_entries({"content": [{"type": "text", "text": text} for text in texts], **result})


@each_case(
    "value",
    [
        ROWS,
        {"results": ROWS},
        {"items": ROWS},
        {"organic": ROWS},
        {"data": ROWS},
        {"web": {"results": ROWS}},
        {"data": {"web": ROWS}},
        {"result": ROWS},
        [*ROWS, ROWS[0], "no page", {"title": "without a URL"}, {"url": "file:///etc/passwd"}],
    ],
)
def test_pages_are_read_from_objects_under_the_usual_names(value: Any) -> None:
    assert read(json.dumps(value)) == (ONE, TWO)
    assert read("words", structuredContent=value if isinstance(value, dict) else {"results": value}) == (ONE, TWO)


def test_each_text_may_be_one_page() -> None:
    assert read(*map(json.dumps, ROWS)) == (ONE, TWO)


def test_links_to_resources_are_pages() -> None:
    link = {"type": "resource_link", "uri": ONE.url, "title": "One", "description": "First."}
    other = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    assert read_entries({"content": [other, link]}) == (ONE,)


@each_case(
    "text",
    [
        "Title: One\nURL: https://a.example/1\nText: First.\n\nTitle: Two\nURL: https://b.example/2\nText: Second."
        "\nPublished Date: 2026-11-01",
        "Found 2 pages\n1. Title: One\n   URL: https://a.example/1\n   Description: First.\n"
        "2. **Title:** Two\n   Link: https://b.example/2\n   Date: 2026-11-01\n   Summary: Second.",
    ],
)
def test_sections_with_a_title_and_a_url_are_pages(text: str) -> None:
    assert read(text) == (ONE, TWO)


def test_the_words_of_a_section_may_have_several_lines() -> None:
    assert read("Title: One\nURL: https://a.example/1\nText: a\nb\nSnippet: c")[0].text == "a\nb\nc"


def test_markdown_links_and_bare_urls_are_pages_and_the_first_has_the_words() -> None:
    text = "See [One](https://a.example/1), [W](https://w.example/A_(b)) and https://b.example/2."
    assert read(text) == (
        SearchEntry(ONE.url, "One", text),
        SearchEntry("https://w.example/A_(b)", "W"),
        SearchEntry(TWO.url, TWO.url),
    )


@each_case("text", ["", "no page", "{", '{"a": 1}', "[1, 2]", "Title: One\nno address", "{" * 2000])
def test_a_text_without_a_url_has_no_pages(text: str) -> None:
    assert read(text) == ()


def test_odd_results_have_no_pages_and_many_are_cut() -> None:
    assert read_entries({"content": None, "structuredContent": 3}) == ()
    assert read_entries({"content": [1, {"type": "text", "text": 5}]}) == ()
    long = {"url": "https://a.example/" + "x" * 3000, "title": "x"}
    assert read(json.dumps([long])) == ()
    assert len(read(json.dumps([{"url": f"https://a.example/{n}"} for n in range(300)]))) == MAX_ENTRIES
    assert read(json.dumps([{"url": ONE.url, "title": " One\n", "content": ["First", "."]}]))[0].text == "First\n."


@each_case("piece", ["[", "[a](", "[a](https://a", "https://", "Title: a\n", "Title: ", "{", "[1,"])
def test_the_work_grows_with_the_length(piece: str) -> None:
    assert linear(lambda count: read(piece * count), 2000)
