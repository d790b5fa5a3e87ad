from typing import Any

from app.formats.hosted_asks import find_kind, read_anthropic_tools, read_responses_tool, read_search_options

from tests.each_case import each_case


@each_case(
    ("tool", "kind"),
    [
        ({"type": "web_search_20250305"}, "web_search"),
        ({"type": "web_fetch_20991231"}, "web_fetch"),
        ({"type": "web_search_x", "input_schema": {}}, None),
        ({"type": "custom"}, None),
        ({"type": 5}, None),
        ("web_search_20250305", None),
    ],
)
def test_the_type_of_a_tool_says_what_it_asks_for(tool: Any, kind: str | None) -> None:
    assert find_kind(tool) == kind


def test_the_fields_of_a_tool_are_those_of_its_api() -> None:
    tool = {"type": "web_fetch_1", "name": "read", "max_uses": 2, "allowed_domains": ["a"], "max_content_tokens": 9}
    found = read_anthropic_tools([("tools[1]", tool), ("tools[2]", {"name": "own"})], [])
    (ask,) = found.asks
    assert (ask.kind, ask.name, ask.path, ask.required) == ("web_fetch", "read", "tools[1]", True)
    assert (ask.max_uses, ask.allowed_domains, ask.max_content_tokens) == (2, ("a",), 9)
    twice = read_anthropic_tools([("a", {"type": "web_search_1"}), ("b", {"type": "web_search_2"})], [])
    assert [one.path for one in twice.violations] == ["b.name"] and twice.kinds == ("web_search",)


def test_a_search_of_responses_opens_pages_of_the_same_domains() -> None:
    tool = {"type": "web_search", "filters": {"blocked_domains": ["b"]}, "search_context_size": "high"}
    (search, opening), violations = read_responses_tool(tool, "tools[0]")
    assert (search.max_results, search.blocked_domains, opening.name) == (10, ("b",), "open_page")
    assert opening.blocked_domains == ("b",) and not violations
    both = {"filters": {"allowed_domains": ["a"], "blocked_domains": ["b"]}}
    assert [one.path for one in read_responses_tool(both, "t")[1]] == ["t.filters.blocked_domains"]


@each_case(
    ("options", "most", "location"),
    [
        ({}, 6, None),
        ({"search_context_size": "low"}, 3, None),
        ({"search_context_size": 4}, 6, None),
        ("x", 6, None),
        ({"user_location": {"type": "approximate", "approximate": {"city": "Rome"}}}, 6, {"city": "Rome"}),
    ],
)
def test_options_of_chat_say_how_much_and_where(options: Any, most: int, location: Any) -> None:
    (ask,) = read_search_options(options, "web_search_options").asks
    assert (ask.max_results, ask.location) == (most, location)
