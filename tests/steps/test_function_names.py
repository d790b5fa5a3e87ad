"""Names of functions that a server refuses: what is sent instead, and what the caller sees."""

import re
from typing import Any

from app.chat.events import Event, Finish, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Text, Tool, ToolCall, ToolResult
from app.profiles import Profile, find_profile
from app.steps.function_names import rename_functions
from app.steps.pipeline import prepare_request, reply_stages, reply_traits
from msgspec.structs import replace

from tests.each_case import each_case
from tests.steps.word_counter import Words

PROFILE = Profile(max_function_name=24)
DOTTED, LONG, PLAIN = "calendar.list", "mcp__calendar__list_events", "plain-name_1"
USER = Message("user", (Text("Hi"),))
NATIVE = "function_choice"


def offer(*names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name, {"name": name, "description": "d"}) for name in names)


def rename(name: str) -> str:
    """Return the name that is sent."""
    return rename_functions(ChatRequest("m", (USER,), offer(name)), PROFILE).tools[0].name


@each_case("name", [DOTTED, LONG, "größe", "a b", "x" * 25, "\ud83d", "a\0b", "a\0", ""])
def test_the_name_that_is_sent_is_one_that_the_server_takes(name: str) -> None:
    sent = rename(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,24}", sent) or name == ""
    assert rename(sent) == sent


def test_names_that_begin_alike_stay_different_and_say_what_the_function_does() -> None:
    assert rename("calendar.list").startswith("calendar_list_") and rename("calendar_list") == "calendar_list"
    assert len({rename(name) for name in ("calendar.list", "calendar:list", "calendar_list")}) == 3


def test_functions_their_calls_and_the_choice_of_one_are_renamed_alike() -> None:
    call = ToolCall(LONG, "{}", "c1", path="messages[1].tool_calls[0]")
    turn = Message("assistant", (Text("now"), call, ToolCall(PLAIN, "{}", "c2")))
    results = Message("tool", (ToolResult((Text("r"),), LONG, "c1"), ToolResult((Text("r"),), None, "c2")))
    request = ChatRequest("m", (USER, turn, results), offer(LONG, PLAIN), {"tool_choice": LONG})
    prepared, warnings = prepare_request(request, PROFILE, Words(), {})
    sent = rename(LONG)
    assert not warnings and [tool.name for tool in prepared.tools] == [sent, PLAIN]
    assert prepared.tools[0].schema == {"name": sent, "description": "d"} and prepared.params == {"tool_choice": sent}
    assert prepared.messages[1] == replace(turn, parts=(Text("now"), replace(call, name=sent), turn.parts[2]))
    assert [part.name for part in prepared.messages[2].parts if isinstance(part, ToolResult)] == [sent, None]
    assert prepared.messages[0] is request.messages[0]


def test_a_history_whose_functions_are_not_offered_any_more_is_renamed_too() -> None:
    turn = Message("assistant", (ToolCall(DOTTED, "{}", "c1"),))
    result = Message("tool", (ToolResult((), None, "c1"),))
    prepared = rename_functions(ChatRequest("m", (USER, turn, result)), PROFILE)
    assert [part.name for part in prepared.messages[1].parts if isinstance(part, ToolCall)] == [rename(DOTTED)]


@each_case(
    ("choice", "sent"),
    [
        ("required", "required"),
        (
            {"type": "function", "function": {"name": DOTTED}},
            {"type": "function", "function": {"name": rename(DOTTED)}},
        ),
        ({"function": {}}, {"function": {}}),
        (None, None),
    ],
)
def test_a_choice_keeps_its_form(choice: Any, sent: Any) -> None:
    request = ChatRequest("m", (USER,), offer(DOTTED), {NATIVE: choice})
    assert rename_functions(request, PROFILE).params == {NATIVE: sent}


@each_case(
    "profile",
    [
        Profile(),
        PROFILE.model_copy(update={"native_tools": False}),
        PROFILE.model_copy(update={"text_tools": "hermes"}),
    ],
)
def test_names_stay_where_the_server_takes_all_or_the_prompt_has_them(profile: Profile) -> None:
    request = ChatRequest("m", (USER,), offer(DOTTED))
    assert rename_functions(request, profile) is request and "names" not in reply_traits(request, profile)


def test_a_request_whose_names_are_taken_stays_the_same() -> None:
    request = ChatRequest("m", (USER,), offer(PLAIN))
    assert rename_functions(request, PROFILE) is request
    assert reply_traits(request, PROFILE) == {}


def test_a_call_in_the_reply_has_the_name_that_the_caller_knows() -> None:
    request = ChatRequest("m", (USER,), offer(DOTTED, PLAIN), {"tool_choice": DOTTED})
    events: list[Event] = [
        TextDelta("a"),
        ToolCallDelta(0, "{", "c1", rename(DOTTED)),
        ToolCallDelta(0, "}"),
        ToolCallDelta(1, "{}", "c2", PLAIN),
        ToolCallDelta(2, "{}", "c3", "unknown"),
        Finish("tool_calls"),
    ]
    for stage in reply_stages(request, PROFILE, "reply"):
        events = stage.feed(events)
    names = [event.name for event in events if isinstance(event, ToolCallDelta)]
    assert names == [DOTTED, "", PLAIN, "unknown"] and isinstance(events[-1], Finish) and not events[-1].warnings
    assert reply_traits(request, PROFILE)["names"] == {rename(DOTTED): DOTTED}


@each_case(
    ("kind", "api", "most"),
    [("openai", "chat_completions", 64), ("openai", "responses", 64), ("anthropic", "messages", 128)]
    + [
        ("vllm", "chat_completions", None),
        ("moonshot", "chat_completions", 64),
        ("mistral", "chat_completions", 64),
        ("gemini", "chat_completions", 64),
    ],
)
def test_servers_whose_limit_is_known_have_it(kind: str, api: str, most: int | None) -> None:
    assert find_profile(kind, api).max_function_name == most


@each_case(
    ("name", "sent"),
    [
        ("fs.read:all-1", "fs.read:all-1"),
        ("_a", "_a"),
        ("3d", "_3d_"),
        (".a", "_.a_"),
        ("a b", "a_b_"),
        ("a\0b", "a_b_"),
        ("a" * 30, "a" * 15 + "_"),
    ],
)
def test_names_may_have_dots_and_begin_with_a_letter_where_the_profile_says_so(name: str, sent: str) -> None:
    dotted = PROFILE.model_copy(update={"function_names": "dotted"})
    [tool] = rename_functions(ChatRequest("m", (USER,), offer(name)), dotted).tools
    assert tool.name.startswith(sent) and len(tool.name) <= 24
    assert (tool.name == name) == (sent == name)


@each_case(("name", "sent"), [("a_1", "a_1"), ("21st_magic", "f_21st_magic_"), ("_a", "f__a_"), ("A.b", "A_b_")])
def test_names_begin_with_a_letter_where_the_profile_says_so(name: str, sent: str) -> None:
    # MoonshotAI/kimi-cli#1773, MoonshotAI/kimi-cli#2531
    profile = find_profile("moonshot", "chat_completions")
    [tool] = rename_functions(ChatRequest("m", (USER,), offer(name)), profile).tools
    assert tool.name.startswith(sent) and (tool.name == name) == (sent == name)
