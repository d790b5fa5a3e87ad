"""Rules that choose the model of a request."""

from collections.abc import Mapping
from typing import Any

import msgspec
from app.chat.messages import ChatRequest, Media, Message, PassedBody, Text, Tool, ToolResult
from app.routing.rules import (
    Check,
    Choice,
    Conditions,
    RequestFacts,
    RouteRules,
    Rule,
    TargetLimits,
    check_conditions,
    choose_fitting_model,
    choose_model,
)

from tests.each_case import each_case

IMAGE = Media("image", ("https://example.org/a.png",))
FILE = Media("file", ("https://example.org/a.pdf",))
HEADERS = {b"user-agent": b"claude-cli/2.1.332 (external, cli)", b"x-team": b"red"}


def facts(
    *parts: Any, tokens: int = 10, tools: tuple[Tool, ...] = (), passed: PassedBody | None = None, **params: Any
) -> RequestFacts:
    request = ChatRequest("auto", (Message("user", parts or (Text("hi"),)),), tools, params, passed=passed)
    return RequestFacts(request, "claude-haiku-4-5", HEADERS, "ann", "", "messages", lambda: tokens)


def holds(when: Conditions, given: RequestFacts) -> bool:
    return all(check.holds for check in check_conditions(when, given))


@each_case(
    "when, expected",
    [
        (Conditions(model=("claude-haiku-*",)), True),
        (Conditions(model=("x", "*-5")), True),
        (Conditions(model=("claude-opus-*",)), False),
        (Conditions(user_agent=("claude-cli/*",)), True),
        (Conditions(user_agent=("codex*",)), False),
        (Conditions(header={"x-team": ("r*",)}), True),
        (Conditions(header={"x-team": ("r*",), "x-other": ("*",)}), False),
        (Conditions(key=("ann",)), True),
        (Conditions(team=("red",)), False),
        (Conditions(format=("responses", "messages")), True),
        (Conditions(format=("responses",)), False),
        (Conditions(tokens_above=9), True),
        (Conditions(tokens_above=10), False),
        (Conditions(tokens_above=9, key=("bob",)), False),
        (Conditions(thinking=False), True),
        (Conditions(thinking=True), False),
        (Conditions(media=("image",)), False),
    ],
)
def test_all_conditions_must_hold_and_one_of_several_patterns(when: Conditions, expected: bool) -> None:
    assert holds(when, facts()) is expected


@each_case(
    "params, expected",
    [
        ({}, False),
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False, "reasoning_effort": "high"}, False),
        ({"thinking_budget": 1024}, True),
        ({"thinking_budget": 0}, False),
        ({"reasoning_effort": "low"}, True),
        ({"reasoning_effort": "none"}, False),
    ],
)
def test_thinking_is_what_the_request_switches_on(params: Mapping[str, Any], expected: bool) -> None:
    assert facts(**params).thinking is expected


@each_case(
    "parts, expected",
    [
        ((Text("a"), IMAGE), {"image"}),
        ((ToolResult((FILE,), "f", "c1"),), {"file"}),
        ((Text("a"),), set()),
    ],
)
def test_media_are_found_in_messages_and_results(parts: tuple[Any, ...], expected: set[str]) -> None:
    assert facts(*parts).media == expected


def test_tools_are_found_by_name_and_by_the_type_of_hosted_ones() -> None:
    rows = [{"type": "web_search_20250305"}, {"type": "function"}, {"type": "custom"}, {"name": "f"}, 3]
    raw = msgspec.Raw(msgspec.json.encode(rows))
    given = facts(tools=(Tool("web_lookup", {}),), passed=PassedBody("messages", {"tools": raw}))
    assert given.tools == ("web_lookup", "web_search_20250305")
    assert facts(passed=PassedBody("messages", {})).tools == ()
    assert holds(Conditions(tool=("web_s*",)), given) and not holds(Conditions(tool=("code*",)), given)


def test_the_name_in_the_list_of_claude_code_is_the_models() -> None:
    request = ChatRequest("auto", (Message("user", (Text("hi"),)),))
    assert RequestFacts(request, "claude-parley-auto", {}, "", "", "messages", int).model == "auto"


def test_tokens_are_counted_only_if_the_rest_holds() -> None:
    def count() -> int:
        raise AssertionError("counted")

    request = ChatRequest("auto", (Message("user", (Text("hi"),)),))
    given = RequestFacts(request, "auto", {}, "", "", "messages", count)
    assert not holds(Conditions(tokens_above=5, model=("other",)), given)


RULES = RouteRules(
    (Rule(Conditions(media=("image",)), "vl"), Rule(Conditions(thinking=True), "think")),
    "small",
    {
        "small": TargetLimits(frozenset(), 100),
        "vl": TargetLimits(frozenset(("image",)), 100),
        "think": TargetLimits(frozenset(), None),
    },
    3600.0,
)


@each_case(
    "given, first, fitting",
    [
        (facts(), Choice("small", "default"), Choice("small", "default")),
        (facts(IMAGE, enable_thinking=True), Choice("vl", "1"), Choice("vl", "1")),
        (facts(IMAGE, tokens=200, enable_thinking=True), Choice("vl", "1"), None),
        (facts(FILE, tokens=200, enable_thinking=True), Choice("think", "2"), Choice("think", "2")),
        (facts(tokens=100), Choice("small", "default"), Choice("small", "default")),
        (facts(tokens=101), Choice("small", "default"), None),
    ],
)
def test_the_first_rule_that_holds_decides(given: RequestFacts, first: Choice, fitting: Choice | None) -> None:
    assert (choose_model(RULES, given), choose_fitting_model(RULES, given)) == (first, fitting)


def test_a_check_has_what_the_request_has() -> None:
    checks = list(check_conditions(Conditions(tokens_above=5, header={"x-team": ("blue",)}), facts()))
    assert checks == [Check("header x-team", ("blue",), "red", False), Check("tokens_above", 5, 10, True)]
