"""Calls of a history whose reasoning a client dropped, and the reasoning that is put back."""

import hypothesis
from app.chat.known_conversation import KnownConversation
from app.chat.messages import ChatRequest, Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.profiles import KINDS
from app.steps.dropped_reasoning import (
    NOTHING_WANTED,
    KeptParts,
    Wanted,
    describe_context,
    find_dropped_reasoning,
    find_restored,
    find_wanted,
    make_key,
    restore_reasoning,
)
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each_case import each_case

REASONING, SIGNATURES = Wanted(reasoning=True, signatures=False), Wanted(reasoning=False, signatures=True)
KEY = make_key("call_a1b2", "f", "{}", "Weather?")
SIGNED = {"extra_content": {"google": {"thought_signature": "U0lH"}}}
KEPT = {KEY: KeptParts("Hm.", SIGNED["extra_content"], [{"type": "reasoning.encrypted", "data": "E"}])}
QUESTION = Message("user", (Text("Weather?"),), path="messages[0]")


def call(id_: str = "call_a1b2", arguments: str = "{}") -> ToolCall:
    return ToolCall("f", arguments, id_)


def turn(*parts: Part, path: str = "messages[1]") -> Message:
    return Message("assistant", parts, path=path)


def result(text: str, id_: str = "call_a1b2") -> Message:
    return Message("tool", (ToolResult((Text(text),), "f", id_),), path="messages[2]")


def test_a_turn_with_calls_and_no_reasoning_is_found_by_its_calls() -> None:
    messages = [QUESTION, turn(call()), result("Sunny"), turn(Text("Fine."), path="messages[3]")]
    [dropped] = find_dropped_reasoning(messages, REASONING)
    assert (dropped.first, dropped.path) == (1, "messages[1]")
    assert dropped.calls == {KEY: call()}
    assert (dropped.lacks_reasoning, dropped.lacks_signature) == (True, False)


@each_case(
    "messages",
    [
        [QUESTION],
        [QUESTION, turn(Text("Fine."))],
        [QUESTION, turn(Reasoning("Hm."), call()), result("Sunny")],
        [
            QUESTION,
            Message("assistant", (call(),), path="messages[1]", extra={"reasoning_details": [{"data": "x"}]}),
            result("Sunny"),
        ],
    ],
)
def test_without_calls_or_with_reasoning_nothing_was_dropped(messages: list[Message]) -> None:
    assert not find_dropped_reasoning(messages, REASONING)


@each_case(
    ("messages", "context"),
    [
        ([], ""),
        ([turn(Text("Hi"))], ""),
        ([QUESTION, turn(call())], "Weather?"),
        ([QUESTION, turn(call()), result("Sunny")], "Sunny"),
        ([Message("user", (Text("a"), Media("image", ("https://e.com/a.png",)), Text("b")))], "a\nb"),
        ([Message("user", ())], ""),
    ],
)
def test_the_context_is_the_text_that_a_reply_answers(messages: list[Message], context: str) -> None:
    assert describe_context(messages) == context


def test_clients_may_write_the_arguments_again() -> None:
    assert make_key("c9x", "f", '{"a": 1, "b": 2}', "") == make_key("c9x", "f", '{"b":2,"a":1}', "")
    assert make_key("c9x", "f", '{"a": 1}', "") != make_key("c9x", "f", '{"a": 2}', "")
    assert make_key("c9x", "f", " no JSON ", "") == make_key("c9x", "f", "no JSON", "")
    assert make_key("c9x", "f", "\ud800", "") != make_key("c9x", "f", "\ud801", "")


@each_case(("id_", "counts"), [("call_0", True), ("functions.f:1", True), ("call", True), ("call_a1b2", False)])
def test_the_context_counts_for_an_id_that_comes_again(id_: str, counts: bool) -> None:
    assert (make_key(id_, "f", "{}", "one") != make_key(id_, "f", "{}", "two")) is counts


def test_reasoning_that_is_found_is_put_back_with_a_warning() -> None:
    messages = (QUESTION, turn(call()), result("Sunny"))
    request = ChatRequest("m", messages)
    dropped = find_dropped_reasoning(messages, REASONING)
    restored, warnings = restore_reasoning(
        request, dropped, {KEY: KeptParts("Hm.", SIGNED["extra_content"])}, REASONING
    )
    assert restored.messages[1].parts == (Reasoning("Hm."), call())
    assert restored.messages[::2] == messages[::2]
    assert warnings == ["messages[1]: the reasoning before this tool call was missing and was restored"]
    assert restore_reasoning(request, dropped, {"other": KeptParts("Hm.")}, REASONING) == (request, [])


def test_a_signature_that_is_found_is_put_back_on_its_call_alone() -> None:
    other = call("call_c3d4", '{"a": 1}')
    messages = (QUESTION, turn(Text("I look."), call(), other), result("Sunny"), result("Rain", "call_c3d4"))
    request = ChatRequest("m", messages)
    [dropped] = find_dropped_reasoning(messages, SIGNATURES)
    assert (dropped.lacks_reasoning, dropped.lacks_signature) == (False, True)
    restored, warnings = restore_reasoning(
        request, [dropped], {KEY: KeptParts("Hm.", SIGNED["extra_content"])}, SIGNATURES
    )
    assert restored.messages[1].parts == (Text("I look."), ToolCall("f", "{}", "call_a1b2", SIGNED), other)
    assert restored.messages[2:] == messages[2:]
    assert warnings == ["messages[1]: the signature of this tool call was missing and was restored"]


def test_a_turn_of_which_one_call_has_a_signature_lacks_none() -> None:
    signed = ToolCall("f", "{}", "call_a1b2", SIGNED)
    messages = [QUESTION, turn(signed, call("call_c3d4")), result("Sunny"), result("Rain", "call_c3d4")]
    assert not find_dropped_reasoning(messages, SIGNATURES)
    assert not find_dropped_reasoning(messages, NOTHING_WANTED)


def test_equal_calls_of_two_turns_get_each_their_own_signature() -> None:
    messages = (QUESTION, turn(call("f:0")), result("Sunny", "f:0"), turn(call("f:0")), result("Rain", "f:0"))
    first, second = (make_key("f:0", "f", "{}", context) for context in ("Weather?", "Sunny"))
    dropped = find_dropped_reasoning(messages, SIGNATURES)
    found = {first: KeptParts(extra_content={"s": 1}), second: KeptParts(extra_content={"s": 2})}
    restored = restore_reasoning(ChatRequest("m", messages), dropped, found, SIGNATURES)[0].messages
    signatures = [part.extra for one in restored for part in one.parts if isinstance(part, ToolCall)]
    assert signatures == [{"extra_content": {"s": 1}}, {"extra_content": {"s": 2}}]


TURNS: list[list[Message]] = [
    [QUESTION],
    [turn(Text("Fine."))],
    [turn(Reasoning("Hm."), call()), result("Sunny")],
    [turn(Reasoning("Hm.")), turn(Text("I look.")), turn(call()), result("Sunny")],
    [turn(call()), turn(call("call_c3d4")), result("Sunny"), result("Rain", "call_c3d4")],
    [turn(ToolCall("f", "{}", "call_a1b2", SIGNED)), result("Sunny")],
]


@hypothesis.given(
    st.lists(st.lists(st.sampled_from(TURNS), min_size=1, max_size=6), min_size=2, max_size=6), st.booleans()
)
def test_what_is_known_of_the_beginning_changes_nothing(requests: list[list[list[Message]]], grows: bool) -> None:
    known, turns = KnownConversation(), list[list[Message]]()
    for more in requests:
        turns = [*turns, *more] if grows else more
        given = [message for one in turns for message in one]
        messages = tuple(replace(message, path=f"messages[{number}]") for number, message in enumerate(given))
        plain = ChatRequest("m", messages)
        remembering = replace(plain, known=known)
        for wanted in (Wanted(reasoning=True, signatures=True, details=True), SIGNATURES):
            whole = find_dropped_reasoning(messages, wanted)
            assert find_dropped_reasoning(messages, wanted, known) == whole
            start = len(find_restored(remembering, wanted).messages)
            needed = {key: KEPT[key] for turn in whole for key in turn.calls if key in KEPT and turn.first >= start}
            restored, warnings = restore_reasoning(remembering, whole, needed, wanted)
            expected, expected_warnings = restore_reasoning(plain, whole, KEPT, wanted)
            assert (restored.messages, warnings) == (expected.messages, expected_warnings)


def test_what_a_server_wants_back_is_what_its_profile_sends_again() -> None:
    assert find_wanted([KINDS["deepseek"]]) == find_wanted([KINDS["moonshot"]]) == REASONING
    assert find_wanted([KINDS["gemini"]]) == SIGNATURES
    assert find_wanted([KINDS["vllm"], KINDS["openai_compatible"]]) == NOTHING_WANTED
    assert find_wanted([KINDS["gemini"], KINDS["deepseek"]]) == Wanted(reasoning=True, signatures=True)
