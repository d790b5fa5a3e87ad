import json
from typing import Any

import pytest
from app.chat.hosted_tools import SearchEntry
from app.errors import InvalidInput
from app.formats.standalone_search import (
    PageCommand,
    describe_others,
    parse_search_body,
    write_marked,
    write_page,
)

from tests.each_case import each_case


def parse(**body: Any) -> Any:
    return parse_search_body(json.dumps({"id": "s", **body}).encode())


def test_commands_are_read_with_their_settings() -> None:
    queries = [{"q": "a", "domains": ["a.example"], "recency": 7}, {"q": "b"}, {}]
    settings = {"filters": {"blocked_domains": ["b.example"]}, "search_context_size": "low", "user_location": {"c": 1}}
    found = parse(commands={"search_query": queries, "response_length": "short"}, settings=settings, model="m")
    first, second, third = found.searches
    assert (first.query, first.ask.allowed_domains, first.ask.blocked_domains) == ("a", ("a.example",), ())
    assert (first.ask.recency, first.ask.max_results, first.ask.location) == (7, 3, {"c": 1})
    assert (second.ask.blocked_domains, second.ask.recency, third.query) == (("b.example",), None, "")
    assert (found.others, found.offline, found.model, found.session) == ((), False, "m", "s")


def test_pages_are_named_by_marks_or_urls() -> None:
    commands = {
        "open": [{"ref_id": "turn0search1"}],
        "find": [{"ref_id": "https://a.example/", "pattern": "x"}],
        "click": [{"ref_id": "turn0view0", "id": 3}],
        "weather": [{"location": "Rome"}],
        "time": [],
    }
    found = parse(commands=commands, settings={"external_web_access": False})
    assert found.pages == (PageCommand("turn0search1"), PageCommand("https://a.example/", "x"))
    assert [one.is_mark for one in found.pages] == [True, False]
    assert found.others == ("click", "weather") and found.offline


@each_case(
    ("body", "paths"),
    [
        ({"id": None}, ["id"]),
        ({"id": ""}, ["id"]),
        ({"model": 5, "max_output_tokens": 0}, ["model", "max_output_tokens"]),
        ({"commands": [], "settings": 1}, ["commands", "settings"]),
        ({"commands": {"search_query": {}}}, ["commands.search_query"]),
        ({"commands": {"open": [1]}}, ["commands.open"]),
        ({"commands": {"search_query": [{"q": "x"}] * 9}}, ["commands.search_query"]),
        ({"commands": {"search_query": [{"q": "x", "domains": "a"}]}}, ["commands.search_query[0].domains"]),
        (
            {"commands": {"open": [{}], "find": [{"ref_id": "x"}]}},
            ["commands.open[0].ref_id", "commands.find[0].pattern"],
        ),
        ({"settings": {"filters": {"allowed_domains": ["a:1"]}}}, ["settings.filters.allowed_domains[0]"]),
    ],
)
def test_a_mistake_is_told_at_its_field(body: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(**body)
    assert [one.path for one in raised.value.violations] == paths


def test_only_the_words_of_others_than_the_model_are_taken() -> None:
    items = [
        {"role": "user", "content": "https://a.example/"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "https://b.example/"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "c"}, {"type": "input_image"}]},
        {"type": "function_call_output", "output": "d"},
        5,
    ]
    texts = [message.parts[0].text for message in parse(input=items).messages]
    assert texts == ["https://a.example/", "c", "d"]
    assert len(parse(input="x").messages) == 1 and parse(input=3).messages == ()


def test_pages_have_the_marks_of_their_turn() -> None:
    text, marks = write_marked(
        [SearchEntry("https://a.example/", "A", "x"), SearchEntry("https://b.example/", "B")], 2, 3
    )
    assert text == "[turn2search3] A\nhttps://a.example/\nx\n\n[turn2search4] B\nhttps://b.example/"
    assert marks == {"turn2search3": "https://a.example/", "turn2search4": "https://b.example/"}


def test_found_words_are_shown_with_the_lines_around() -> None:
    page = "\n".join(f"line {number}" for number in range(1, 12))
    assert write_page("turn0view0", "u", page, None) == f"[turn0view0] u\n{page}"
    assert write_page("v", "u", page, "LINE 5") == "[v] u\nL3: line 3\nL4: line 4\nL5: line 5\nL6: line 6\nL7: line 7"
    assert write_page("v", "u", page, "line 1").startswith("[v] u\nL1: line 1\nL2: line 2\nL3: line 3\nL8: line 8")
    assert write_page("v", "u", page, "nothing") == "[v] u\nThe page does not have 'nothing'."


def test_commands_that_are_not_run_are_named() -> None:
    assert "'weather', 'sports'" in describe_others(["weather", "sports"])
