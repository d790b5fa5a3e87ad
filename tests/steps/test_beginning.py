"""A conversation whose beginning was written for an earlier request is sent as one that is new."""

from typing import Any

import msgspec
import pytest
from app.chat.known_conversation import KnownConversation
from app.chat.messages import (
    CacheMark,
    ChatRequest,
    Media,
    Message,
    Part,
    PromptPolicy,
    Reasoning,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from app.errors import ParleyError
from app.profiles import Profile, find_profile
from app.steps import beginning
from app.steps.beginning import divide
from app.steps.pipeline import prepare_request
from app.upstream.api import Api, ApiName, find_api
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each_case import each_case
from tests.effort import examples
from tests.steps.word_counter import Words

CHAT = find_api("chat_completions")
PROFILES = [
    Profile(**fields)
    for fields in (
        {},
        {"alternate": True, "system": "merged", "replay_reasoning": "none"},
        {"alternate": True, "assistant_after_tool": True, "system": "none", "continuation": "partial"},
        {"assistant_after_tool": True, "system": "leading", "continuation": "refuse"},
        {"system": "then_user", "continuation": "continue_final_message", "assistant_last": False},
        {"thought_only_turns": False, "replay_turns": "tool_turns", "replay_blank_reasoning": "all"},
        {"replay_reasoning": "think_tags", "call_ids": "alphanumeric9", "names": "all", "tool_names": True},
        {"cache_control": True, "text_parts": True, "empty_content": "omit", "continuation": "send"},
        {"default_system": {"en": "Be brief.", "zh": "简短。"}, "replay_extra_content": False},
        {"native_tools": False},
        {"max_input_tokens": 30},
        {"response_formats": (), "tool_media": True},
        {"replay_details": True, "valid_arguments": False},
    )
]
POLICIES = [
    PromptPolicy(),
    PromptPolicy(name_media="with_tools", localized=True, folds_last=True),
    PromptPolicy(optional_marks=True),
]
PARAMS: list[dict[str, Any]] = [
    {},
    {"stop": ["x"], "temperature": 0},
    {"response_format": {"type": "json_object"}},
    {"use_raw_api": True},
    {"function_choice": "none"},
    {"max_input_tokens": 20},
    {"stop": [""] * 40},
]
IDS = st.sampled_from([None, "a", "b", "c", "a_1"])
TEXTS = st.sampled_from(["", " ", "yes", "何故", "go on"])
DETAILS = [
    {"type": "reasoning.encrypted", "data": "E", "format": "openai-responses-v1"},
    {"type": "reasoning.text", "text": "hm", "signature": "S", "format": "anthropic-claude-v1"},
    {"type": "provider.item", "item": {"executableCode": {"code": "1"}}, "format": "google-gemini-v1"},
]
EXTRAS = st.sampled_from(
    [
        {},
        {},
        {},
        {"reasoning_details": DETAILS},
        {"extra_content": {"google": {"thought_signature": "s"}}},
        {"developer": True},
    ]
)
MARKS = st.sampled_from([None, None, None, CacheMark({"type": "ephemeral"}, "p")])
TEXT = st.builds(Text, TEXTS, MARKS)
CALL = st.builds(ToolCall, st.sampled_from("fg"), st.sampled_from(["{}", "", "{"]), IDS, EXTRAS)
PARTS = {
    "system": st.lists(TEXT, max_size=2),
    "user": st.lists(st.one_of(TEXT, TEXT, TEXT, st.just(Media("image", ("https://x.test/i.png",)))), max_size=2),
    "assistant": st.lists(st.one_of(TEXT, CALL, st.builds(Reasoning, TEXTS)), max_size=3),
    "tool": st.builds(
        lambda content, name, id_: [ToolResult(tuple(content), name, id_)],
        st.lists(TEXT, max_size=1),
        st.sampled_from([None, "f", "g"]),
        IDS,
    ),
}


def _message(role: Role, parts: Any, turn: str | None, extra: Any) -> Message:
    return Message(role, tuple(parts), turn=turn if role == "assistant" else None, extra=extra)


ANY = st.sampled_from(["user", "assistant", "tool", "assistant", "tool", "user", "system"]).flatmap(
    lambda role: st.builds(_message, st.just(role), PARTS[role], st.sampled_from([None, None, "t"]), EXTRAS)
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """Return a round of an agent: what it thinks and says, its calls, and their results."""
    number = draw(st.integers(0, 5))
    calls = [ToolCall("f", "{}", f"call_{number}_{place}") for place in range(draw(st.integers(1, 2)))]
    thought = draw(st.sampled_from([(), (Reasoning("hm"),)]))
    said = draw(st.sampled_from([(), (Text("so"),)]))
    apart = draw(st.booleans())
    parts: list[Part] = [*thought, *said, *calls]
    turn = [Message("assistant", tuple(parts))]
    if apart:
        turn = [Message("assistant", (one,), turn="same") for one in parts]
    return [*turn, *[Message("tool", (ToolResult((Text("ok"),), None, call.id),)) for call in calls]]


SYSTEM, USER = Message("system", (Text("s"),)), Message("user", (Text("u"),))
CONVERSATIONS = st.builds(
    lambda first, parts: [*first, *(message for part in parts for message in part)],
    st.one_of(st.lists(ANY, min_size=1, max_size=2), st.just([SYSTEM, USER]), st.just([SYSTEM, USER]), st.just([USER])),
    st.lists(
        st.one_of(rounds(), rounds(), rounds(), st.sampled_from([[SYSTEM], [USER]]), st.lists(ANY, max_size=2)),
        max_size=8,
    ),
)


def divided(request: ChatRequest, profile: Profile, api: Api = CHAT) -> ChatRequest:
    assert api.write_beginning is not None
    return divide(request, profile, Words(), api.write_beginning)


def send(request: ChatRequest, profile: Profile, api: Api = CHAT) -> Any:
    """Return the body and the warnings, or the error."""
    try:
        prepared, warnings = prepare_request(divided(request, profile, api), profile, Words(), {})
        body, more = api.build(prepared, "m", profile)
    except ParleyError as error:
        return error.to_dict("r"), str(error)
    return msgspec.json.encode(body), [*warnings, *more]


def _with_paths(messages: list[Message]) -> list[Message]:
    return [replace(message, path=f"messages[{number}]") for number, message in enumerate(messages)]


API_PROFILES: list[tuple[ApiName, Profile]] = [
    *(("chat_completions", profile) for profile in PROFILES),
    ("responses", find_profile("openai", "responses")),
    ("responses", find_profile("deepseek", "responses")),
    ("messages", find_profile("anthropic", "messages")),
    ("messages", find_profile("deepseek", "messages")),
    ("gemini", find_profile("gemini", "gemini")),
    ("gemini", find_profile("vertex", "gemini").model_copy(update={"tool_media": True, "missing_signature": None})),
    ("responses", Profile(replay_reasoning="item_text", tool_media=True)),
    ("messages", Profile(unsigned_thinking="send", system="anywhere", cache_control=True)),
]


@pytest.mark.parametrize("number", range(len(API_PROFILES)))
@given(
    messages=CONVERSATIONS,
    cuts=st.lists(st.integers(1, 30), max_size=4),
    other=st.tuples(st.integers(0, 30), ANY),
    policy=st.sampled_from(POLICIES),
    params=st.lists(st.sampled_from(PARAMS), min_size=1, max_size=6),
    tools=st.booleans(),
)
@examples(60)
def test_a_divided_conversation_is_sent_like_the_whole(
    number: int,
    messages: list[Message],
    cuts: list[int],
    other: tuple[int, Message],
    policy: PromptPolicy,
    params: list[dict[str, Any]],
    tools: bool,
) -> None:
    (name, profile), known = API_PROFILES[number], KnownConversation()
    api = find_api(name)
    offered = (Tool("f", {"name": "f"}), Tool("g", {"name": "g"})) if tools else ()
    messages = _with_paths(messages)
    changed = [*messages]
    changed[other[0] % len(messages)] = replace(other[1], path="changed")
    conversations = [messages[:cut] for cut in sorted(cuts)] + [messages, changed]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beginning, "MIN_MESSAGES", 2)
        patch.setattr(beginning, "CHANGED_MESSAGES", 1)
        for place, conversation in enumerate(conversations):
            request = ChatRequest("m", tuple(conversation), offered, params[place % len(params)], policy=policy)
            assert send(replace(request, known=known), profile, api) == send(request, profile, api)


def _make_session(count: int) -> tuple[Message, ...]:
    messages = [Message("system", (Text("s"),)), Message("user", (Text("u"),))]
    for number in range(count):
        call = ToolCall("f", "{}", f"c{number}")
        messages.append(Message("assistant", (Reasoning("hm"), Text("so"), call)))
        messages.append(Message("tool", (ToolResult((Text("ok"),), None, call.id),)))
    return tuple(_with_paths(messages))


def _replace_message(session: tuple[Message, ...], number: int, message: Message) -> tuple[Message, ...]:
    return (*session[:number], replace(message, path=f"messages[{number}]"), *session[number + 1 :])


ODD = {"type": "provider.item", "item": {"type": "odd"}, "format": "openai-responses-v1"}
_IMAGE = Media("image", ("https://x.test/i.png",))
_UNANSWERED = Message("assistant", (ToolCall("f", "{}", "other"),))


@pytest.mark.parametrize("profile", [PROFILES[number] for number in range(9)])
def test_only_the_end_of_a_continued_session_is_prepared(profile: Profile) -> None:
    known = KnownConversation()
    for count in range(20, 30):
        rest = divided(ChatRequest("m", _make_session(count), known=known), profile)
        assert rest.before is not None
        assert len(rest.messages) <= 9
        assert rest.before.messages + rest.messages == _make_session(count)


@pytest.mark.parametrize(("name", "profile"), API_PROFILES[len(PROFILES) :])
def test_every_api_is_sent_the_end_after_what_was_written(name: ApiName, profile: Profile) -> None:
    known, api = KnownConversation(), find_api(name)
    for count in range(20, 30):
        request = ChatRequest("m", _make_session(count), (Tool("f", {"name": "f"}),), known=known)
        assert len(divided(request, profile, api).messages) <= 9
        assert send(request, profile, api) == send(replace(request, known=None), profile, api)


MARK = CacheMark({"type": "ephemeral"}, "p")


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        ("messages", 1, Message("user", (Text("u", MARK),))),
        ("messages", 3, Message("tool", (ToolResult((Text("ok", MARK),), None, "c0"),))),
        ("messages", 2, Message("assistant", (ToolCall("f", "no JSON", "c0"),))),
        ("responses", 2, Message("assistant", (ToolCall("f", "{}", "c0"), Reasoning("late")))),
        ("responses", 2, Message("assistant", (ToolCall("f", "{}", "c0"),), extra={"reasoning_details": [ODD]})),
    ],
)
def test_a_server_is_sent_the_whole_where_what_follows_could_change_the_beginning(
    name: ApiName, place: int, message: Message
) -> None:
    [profile] = [profile for api, profile in API_PROFILES[-2:] if api == name]
    session = (*_make_session(30)[:4], *_make_session(4)[2:]) if place == 2 else _make_session(30)
    request = ChatRequest("m", _replace_message(session, place, message), known=KnownConversation())
    api = find_api(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beginning, "MIN_MESSAGES", 2)
        patch.setattr(beginning, "CHANGED_MESSAGES", len(session) - 4)
        assert divided(request, profile, api) is request
    assert send(request, profile, api) == send(replace(request, known=None), profile, api)


_LATE = Message("tool", (ToolResult((Text("late"),), None, "c0"),))


@pytest.mark.parametrize(("name", "profile"), API_PROFILES)
@pytest.mark.parametrize(
    ("place", "message", "end", "is_divided"),
    [
        (2, _UNANSWERED, USER, True),
        (3, Message("user", (Text(" "),)), USER, True),
        (3, Message("tool", (ToolResult((Text("ok"),), None, "z"),)), USER, True),
        (3, USER, _LATE, False),
        (3, USER, Message("tool", (ToolResult((Text("late"),), "f"),)), False),
    ],
)
def test_what_was_repaired_at_the_beginning_is_sent_as_in_the_whole(
    name: ApiName, profile: Profile, place: int, message: Message, end: Message, is_divided: bool
) -> None:
    api, known = find_api(name), KnownConversation()
    for count in (20, 24, 28):
        session = (*_replace_message(_make_session(count), place, message), end)
        request = ChatRequest("m", session, (Tool("f", {"name": "f"}),), known=known)
        assert send(request, profile, api) == send(replace(request, known=None), profile, api)
        if profile in (Profile(), API_PROFILES[-1][1], API_PROFILES[-2][1]):
            assert (divided(request, profile, api) is not request) is is_divided


def test_marks_of_the_system_are_removed_from_each_request_anew() -> None:
    api, profile, known = find_api("messages"), API_PROFILES[-1][1], KnownConversation()
    system = Message("system", (Text("a", MARK), Text("b", MARK)))
    for marks in (4, 1, 4):
        end = Message("user", tuple(Text(str(number), MARK) for number in range(marks)))
        session = (*_replace_message(_make_session(30), 0, system), end)
        request = ChatRequest("m", session, known=known)
        assert divided(request, profile, api).before is not None
        assert send(request, profile, api) == send(replace(request, known=None), profile, api)


@pytest.mark.parametrize("profile", [PROFILES[number] for number in (9, 10)])
def test_a_conversation_at_which_a_step_looks_as_a_whole_is_not_divided(profile: Profile) -> None:
    request = ChatRequest("m", _make_session(30), known=KnownConversation())
    assert divided(request, profile) is request


def test_nothing_is_divided_where_nothing_is_remembered() -> None:
    request = ChatRequest("m", _make_session(30))
    assert divided(request, PROFILES[0]) is request


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (1, Message("user", (_IMAGE,))),
        (3, Message("tool", (ToolResult((_IMAGE,), None, "c0"),))),
        (1, Message("system", (Text("no user"),))),
        (61, Message("user", (_IMAGE,))),
    ],
)
def test_a_conversation_is_sent_whole_where_its_beginning_needs_more_than_its_messages(
    place: int, message: Message
) -> None:
    request = ChatRequest("m", _replace_message(_make_session(30), place, message), known=KnownConversation())
    assert divided(request, PROFILES[0]) is request


def test_a_beginning_that_is_warned_of_is_prepared_each_time() -> None:
    call = ToolCall("f", "{}", "c0", {"extra_content": {"google": 1}})
    session = _replace_message(_make_session(30), 2, Message("assistant", (call,)))
    request = ChatRequest("m", session, known=KnownConversation())
    assert divided(request, PROFILES[8]) is request
    assert divided(request, PROFILES[0]) is not request


def test_a_system_message_after_the_beginning_is_moved_by_preparing_the_whole() -> None:
    known = KnownConversation()
    divided(ChatRequest("m", _make_session(30), known=known), PROFILES[3])
    later = ChatRequest("m", _replace_message(_make_session(40), 63, SYSTEM), known=known)
    assert divided(later, PROFILES[3]) is later


def test_the_beginning_of_another_profile_is_not_used() -> None:
    known = KnownConversation()
    session = ChatRequest("m", _make_session(30), known=known)
    first, second = (divided(session, profile) for profile in (PROFILES[0], PROFILES[6]))
    assert first.before is not None
    assert second.before is not None
    assert first.before.written != second.before.written


def test_a_beginning_is_not_used_where_another_message_follows_it() -> None:
    known = KnownConversation()
    first = divided(ChatRequest("m", _make_session(30), known=known), PROFILES[1])
    assert first.before is not None
    place = len(first.before.messages)
    for message in (USER, Message("assistant", (Text(" "),))):
        changed = _replace_message(_make_session(30), place, message)[: place + 1]
        request = ChatRequest("m", (*changed, *_make_session(30)[:2]), known=known)
        assert send(request, PROFILES[1]) == send(replace(request, known=None), PROFILES[1])


def test_a_conversation_that_did_not_grow_has_the_same_beginning() -> None:
    known = KnownConversation()
    request = ChatRequest("m", _make_session(30), known=known)
    first, second = (divided(request, PROFILES[0]) for _ in range(2))
    assert first.before is not None
    assert first.before is second.before


def test_the_rest_is_sent_after_what_was_written_before() -> None:
    known = KnownConversation()
    for count in (20, 30):
        request = ChatRequest("m", _make_session(count), known=known)
        assert send(request, PROFILES[0]) == send(replace(request, known=None), PROFILES[0])


def _call(*ids: str) -> Message:
    return Message("assistant", tuple(ToolCall("f", "{}", id_) for id_ in ids))


def _result(id_: str) -> Message:
    return Message("tool", (ToolResult((Text("ok"),), None, id_),))


@each_case("number", range(len(API_PROFILES)))
@each_case(
    "messages",
    [
        [SYSTEM, USER, _call("a", "b"), Message("assistant", (Text(" "),)), _result("b"), _call("c"), _result("c")],
        [SYSTEM, USER, _call("a", "b"), Message("assistant", (Text("t"),)), _result("b"), _call("c"), _result("c")],
        [Message("system", ()), USER, _call("a"), _result("a"), _call("b"), _result("b"), SYSTEM],
        [Message("system", (Text(" "),)), USER, _call("a"), _result("a"), _call("b"), _result("b"), SYSTEM],
    ],
)
def test_texts_between_results_and_empty_system_messages_are_sent_like_in_the_whole(
    messages: list[Message], number: int
) -> None:
    (name, profile), known = API_PROFILES[number], KnownConversation()
    request = ChatRequest("m", tuple(_with_paths(messages)), policy=PromptPolicy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beginning, "MIN_MESSAGES", 2)
        patch.setattr(beginning, "CHANGED_MESSAGES", 1)
        for end in range(3, len(messages) + 1):
            part = replace(request, messages=request.messages[:end])
            assert send(replace(part, known=known), profile, find_api(name)) == send(part, profile, find_api(name))
