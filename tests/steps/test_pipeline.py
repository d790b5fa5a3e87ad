"""The whole way of a reply, for any profile: any pieces, the same messages; what was sent is never taken back."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from app.chat.events import Event, Extra, Failed, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import (
    CacheMark,
    ChatRequest,
    Media,
    Message,
    PassedBody,
    Source,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from app.errors import InvalidInput
from app.profiles import Profile
from app.steps.passing import PassingStage
from app.steps.pipeline import (
    has_media,
    passed_reply_stages,
    passes_reply,
    passes_unread,
    prepare_request,
    repair_request,
    reply_stages,
    reply_traits,
)
from app.steps.tool_parsers import FAMILIES
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each_case import each_case
from tests.effort import examples
from tests.steps.sample_calls import WRITTEN
from tests.steps.stage_runner import STOP, Reply, run
from tests.steps.tool_parsers.sample_texts import CUTS, PIECES, TEXTS, TOOLS
from tests.steps.word_counter import Words

Json = dict[str, Any]

THINKING = ("leading", "forced_open", "auto_close", "interleaved", "off")
PROFILES = st.fixed_dictionaries(
    {
        "inline_think": st.sampled_from(THINKING),
        "think_tags": st.sampled_from([("<think>", "</think>"), ("<|START|>", "<|END|>"), ("<t>", "<t>")]),
        "think_interrupt": st.sampled_from([None, "<tool_call>", "[TOOL_CALLS]"]),
        "native_tools": st.booleans(),
        "fncall_prompt_type": st.sampled_from(["nous", "qwen"]),
        "special_code_mode": st.booleans(),
        "text_tools": st.sampled_from([None, *sorted(FAMILIES)]),
    }
).map(Profile.model_validate)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "function_choice": st.sampled_from(["auto", "none", "f"]),
        "parallel_function_calls": st.booleans(),
        "thought_in_content": st.booleans(),
        "use_raw_api": st.booleans(),
        "repair_arguments": st.booleans(),
    },
)
NATIVE: list[Event] = [
    ToolCallDelta(0, '{"a": ', "id-0", "f"),
    ToolCallDelta(0, "1}"),
    ToolCallDelta(1, "{'a': 1,", "id-1", "g"),
]
BESIDES: list[Event] = [
    ReasoningDelta("why"),
    ReasoningDelta("<think>"),
    TextDelta("no", refusal=True),
    Extra({"a": 1}),
]
ENDS: list[Event] = [STOP, Finish("length"), Finish("tool_calls"), Failed(Fault("timeout", "", True))]

WORDS = st.text("ab é<✿[北", min_size=1, max_size=8).filter(lambda text: text.strip() not in ("", "<"))
"""Not what could be the beginning of a closing tag that was cut off."""
STRIPPED = st.text(max_size=8).map(lambda text: text.strip("\r\n"))
"""Some families set values on lines of their own."""
VALUES = st.fixed_dictionaries({}, optional={"s": STRIPPED, "a": st.integers(-99, 99), "t": WORDS})
WHOLE = st.builds(lambda write, values: write(values), st.sampled_from(list(WRITTEN.values())), VALUES)
DAMAGED = st.builds(
    lambda text, start, size: text[:start] + text[start + size :], WHOLE, st.integers(0, 150), st.integers(0, 40)
)
TALK = TEXTS | st.lists(PIECES | WHOLE | DAMAGED | WORDS, max_size=6).map("".join)


@st.composite
def replies(draw: st.DrawFn) -> list[Event]:
    """Texts with tags, calls and thoughts, at times between what comes in fields of its own."""
    texts: list[Event] = [TextDelta(text) for text in draw(st.lists(TALK, min_size=1, max_size=3)) if text]
    besides = draw(st.lists(st.sampled_from(BESIDES), max_size=2))
    out = draw(st.permutations([*texts, *besides]))
    for event in NATIVE[: draw(st.sampled_from([0, 0, 0, 2, 3]))]:
        out.insert(draw(st.integers(len(out) // 2, len(out))), event)
    return sorted_calls(out)


def sorted_calls(events: Sequence[Event]) -> list[Event]:
    """The same, with the fragments of calls in their order."""
    calls = iter([event for event in NATIVE if any(event is one for one in events)])
    return [next(calls) if type(event) is ToolCallDelta else event for event in events]


@st.composite
def stop_words(draw: st.DrawFn, events: list[Event]) -> list[str]:
    """Some that come in the reply, and some that only begin there."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    places = draw(
        st.lists(st.tuples(st.integers(0, 200), st.integers(2, 12), st.sampled_from(["", "", "!"])), max_size=3)
    )
    return [text[at : at + size] + end for at, size, end in places if at < len(text)]


def request(params: Json) -> ChatRequest:
    return ChatRequest("m", (), TOOLS, params)


def cut(events: list[Event], cuts: list[int] | None) -> list[Event]:
    """The texts in pieces: at the places that are named, or letter by letter."""
    out: list[Event] = []
    for event in events:
        if not isinstance(event, TextDelta) or event.refusal:
            out.append(event)
            continue
        size = len(event.text)
        edges = list(range(size + 1)) if cuts is None else sorted({0, size, *(at for at in cuts if at < size)})
        out += [TextDelta(event.text[start:end]) for start, end in zip(edges, edges[1:], strict=False)]
    return out


def run_stages(events: list[Event], end: Event, profile: Profile, params: Json, *, together: bool = False) -> Reply:
    """`Reply` itself sees to it that no message grows or ends twice, and that deltas add up."""
    reply = Reply(reply_stages(request(params), profile, "chat-1"))
    for batch in [[*events, end]] if together else [[event] for event in (*events, end)]:
        reply.feed(batch)
    return reply


def outcome(reply: Reply) -> tuple[list[Json], str | None]:
    return reply.messages(), reply.reason


@examples(25)
@given(replies(), st.sampled_from(ENDS), PROFILES, PARAMS, CUTS, st.data())
def test_any_cut_of_a_reply_gives_the_same_messages(
    events: list[Event], end: Event, profile: Profile, params: Json, cuts: list[int], data: st.DataObject
) -> None:
    params = {**params, "stop": data.draw(stop_words(events))}
    whole = outcome(run_stages(events, end, profile, params, together=True))
    assert outcome(run_stages(events, end, profile, params)) == whole
    assert outcome(run_stages(cut(events, cuts), end, profile, params)) == whole
    assert outcome(run_stages(cut(events, None), end, profile, params)) == whole
    assert outcome(run_stages(cut(events, None), end, profile, params, together=True)) == whole


def expected(family: str, thought: str | None, pieces: list[str | Json]) -> list[tuple[str, object]]:
    wanted: list[tuple[str, object]] = [] if thought is None else [("R", thought)]
    for piece in pieces:
        if isinstance(piece, dict):
            wanted.append(("F", piece))
        elif wanted and wanted[-1][0] == "C":
            wanted[-1] = ("C", f"{wanted[-1][1]}{piece}")
        elif family != "qwen" or not any(kind == "F" for kind, _ in wanted):  # its commands have no end of their own
            wanted.append(("C", piece))
    return [(kind, value.strip() if isinstance(value, str) else value) for kind, value in wanted]


def short(reply: Reply) -> list[tuple[str, object]]:
    return [(one[0], json.loads(one[2]) if one[0] == "F" else one[1].strip()) for one in reply.short()]


@pytest.mark.parametrize("family", WRITTEN)
@examples(20)
@given(thought=st.none() | WORDS, pieces=st.lists(WORDS | VALUES, min_size=1, max_size=5), cuts=CUTS)
def test_reasoning_text_and_calls_are_what_the_model_wrote(
    family: str, thought: str | None, pieces: list[str | Json], cuts: list[int]
) -> None:
    prompted = {"native_tools": False, "fncall_prompt_type": family}
    profile = Profile.model_validate(prompted if family in ("nous", "qwen") else {"text_tools": family})
    text = "" if thought is None else f"<think>{thought}</think>"
    text += "".join(piece if isinstance(piece, str) else WRITTEN[family](piece) for piece in pieces)
    reply = run_stages(cut([TextDelta(text)], cuts), STOP, profile, {"parallel_function_calls": True})
    want = expected(family, thought, pieces)
    assert short(reply) == want
    assert reply.reason == ("tool_calls" if any(kind == "F" for kind, _ in want) else "stop")
    assert reply.warnings == []


_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
_FUNCTION = (Tool("f", {"name": "f"}),)


def source(api: str, *, has_client_tools: bool = False) -> Source:
    return Source(api, {}, (), (), (), {}, has_client_tools=has_client_tools)


@each_case(
    ("profile", "request_", "passes"),
    [
        ({}, {}, True),
        ({"native_tools": False}, {}, False),
        ({"text_tools": "hermes"}, {"tools": _FUNCTION}, False),
        ({"text_tools": "hermes"}, {}, True),
        ({"check_output": "enforce"}, {"params": {"response_format": _SCHEMA}}, False),
        ({"max_function_name": 16}, {"tools": (Tool("a.b", {"name": "a.b"}),)}, False),
        ({}, {"params": {"stop": ["X"]}, "source": source("responses")}, False),
        ({}, {"params": {"stop": ["X"]}, "source": source("messages")}, True),
        ({"client_tools": False}, {"source": source("responses", has_client_tools=True)}, False),
        ({"client_tools": False}, {"source": source("responses")}, True),
        ({}, {"source": source("responses", has_client_tools=True)}, True),
    ],
)
def test_the_servers_own_events_pass_if_no_stage_would_change_them(
    profile: dict[str, Any], request_: dict[str, Any], passes: bool
) -> None:
    asked = replace(ChatRequest("m", (Message("user", (Text("hi"),)),)), **request_)
    assert passes_reply(asked, Profile(**profile)) is passes


@each_case(
    ("profile", "urls", "passes"),
    [
        ({}, (), True),
        ({"max_input_tokens": 5}, (), False),
        ({"default_system": {"en": "Hi"}}, (), False),
        ({}, (("a", "file:///etc/passwd"),), False),
        ({}, (("a", "https://files.test/x"),), True),
    ],
)
def test_an_unread_body_passes_if_it_needs_no_step(profile: dict[str, Any], urls: Any, passes: bool) -> None:
    asked = ChatRequest("m", (), passed=PassedBody("messages", {}, urls=urls))
    assert passes_unread(asked, Profile(**profile)) is passes


WEATHER = Tool("get.weather", {"name": "get.weather"})
SCHEMA = {"type": "object"}


@each_case(
    ("profile", "params", "traits"),
    [
        ({}, {}, {}),
        ({}, {"use_raw_api": True}, {"raw": True}),
        ({}, {"logprobs": True}, {"logprobs": True}),
        ({"lacks": ["logprobs"]}, {"logprobs": True}, {}),
        ({}, {"repair_arguments": True}, {"repair": True}),
        ({}, {"stop": ["END"]}, {"stop": ("END",)}),
        ({"reports_length": False}, {"max_tokens": 5}, {"limit": 5}),
        ({}, {"tool_choice": "required"}, {"demanded": ""}),
        (
            {"check_output": "warn"},
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            {"output": SCHEMA},
        ),
        ({"text_tools": "hermes"}, {}, {"tools": [WEATHER.schema]}),
        ({"text_tools": "hermes"}, {"function_choice": "none"}, {"tools": []}),
    ],
)
def test_what_the_stages_of_a_reply_depend_on_is_a_trait(profile: Json, params: Json, traits: Json) -> None:
    request = ChatRequest("m", (Message("user", (Text("Hi"),)),), (WEATHER,), params)
    assert reply_traits(request, Profile.model_validate(profile)) == traits


@each_case(
    ("profile", "params", "stages"),
    [
        ({"inline_think": "off"}, {}, []),
        ({}, {"repair_arguments": True}, ["ReasoningStage", "RepairStage"]),
        ({}, {"stop": ["END"]}, ["ReasoningStage", "StopWordStage"]),
        ({"reports_length": False}, {"max_tokens": 5}, ["ReplyLengthStage", "ReasoningStage"]),
        ({"native_tools": False}, {}, ["ReasoningStage", "NousStage"]),
        ({"max_function_name": 64}, {}, ["FunctionNameStage", "ReasoningStage"]),
    ],
)
def test_a_reply_has_the_stages_that_its_request_needs(profile: Json, params: Json, stages: list[str]) -> None:
    request = ChatRequest("m", (Message("user", (Text("Hi"),)),), (WEATHER,), params)
    made = reply_stages(request, Profile.model_validate(profile), "chat-1")
    assert [type(stage).__name__ for stage in made if type(stage).__name__ != "CallWatch"] == stages


def test_media_are_found_in_messages_and_in_results_of_tools() -> None:
    picture = Media("image", ("https://example.com/cat.png",))
    in_result = Message("tool", (ToolResult((Text("r"), picture), "f"),))
    assert has_media(ChatRequest("m", (Message("user", (Text("see"), picture)),)))
    assert has_media(ChatRequest("m", (in_result,)))
    assert not has_media(ChatRequest("m", (Message("user", (Text("see"),)),)))


def test_the_stages_of_a_reply_that_is_passed_run_in_one() -> None:
    request = ChatRequest("m", (Message("user", (Text("Hi"),)),))
    assert [type(stage) for stage in passed_reply_stages(request, Profile(), "chat-1")] == [PassingStage]


def test_a_request_with_too_many_stop_words_is_refused() -> None:
    with pytest.raises(InvalidInput):
        repair_request(ChatRequest("m", (), params={"stop": ["a", "b"]}), Profile(max_stop_words=1))


def test_calls_without_results_are_left_to_a_server_that_takes_everything() -> None:
    turn = Message("assistant", (ToolCall("f", "{}", "c1"),))
    request = ChatRequest("m", (turn,), source=Source("responses", {}, (), (), (), {}))
    assert repair_request(request, Profile(takes="all")) == (request, [])
    assert repair_request(request, Profile())[1]


def test_a_raw_request_that_is_too_long_is_truncated() -> None:
    turns = tuple(Message(role, (Text("word " * 50),)) for role in ("user", "assistant", "user"))
    request = ChatRequest("m", turns, params={"use_raw_api": True})
    prepared, _ = prepare_request(request, Profile(max_input_tokens=80), Words(), {})
    assert [message.role for message in prepared.messages] == ["user", "assistant", "user"]
    assert prepared.messages[0].parts == (Text("omit"),)


def test_marks_of_a_cache_are_not_sent_where_the_prompt_is_rewritten() -> None:
    marked = Message("user", (Text("Hi", mark=CacheMark({"type": "ephemeral"}, "messages[0].cache_control")),))
    request = ChatRequest("m", (marked,), (WEATHER,))
    _, warnings = prepare_request(request, Profile(cache_control=True, native_tools=False), Words(), {})
    assert any("the prompt is rewritten" in warning for warning in warnings)


@each_case(("question", "head"), [("How are you?", "# Tools"), ("今天天气怎么样?", "# 工具")])
def test_functions_are_explained_in_the_language_of_the_conversation(question: str, head: str) -> None:
    tool = Tool("f", {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}})
    request = ChatRequest("m", (Message("user", (Text(question),)),), (tool,))
    profile = Profile(native_tools=False, fncall_prompt_type="qwen")
    prepared, _ = prepare_request(request, profile, Words(), {})
    assert any(head in part.text for part in prepared.messages[0].parts if isinstance(part, Text))


@each_case("size", [1, 7, 1_000])
@each_case(("tools", "text_tools", "want"), [((), "auto", True), (TOOLS, "auto", True), ((), "none", False)])
def test_channels_of_reasoning_are_read_without_functions_too(
    tools: tuple[Tool, ...], text_tools: str, want: bool, size: int
) -> None:
    text = "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>"
    stages = reply_stages(
        replace(request({}), tools=tools), Profile.model_validate({"text_tools": text_tools}), "chat-1"
    )
    parts: list[list[Event]] = [[TextDelta(text[at : at + size])] for at in range(0, len(text), size)]
    reply = run(stages, parts)
    assert (reply.short() == [("R", "Need it."), ("C", "Done.")]) is want
