"""Turns in the order of strict templates."""

from collections import Counter
from itertools import pairwise

import pytest
from app.chat.messages import CacheMark, ChatRequest, Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.openai_messages.messages import write_openai_messages
from app.profiles import KINDS, Profile
from app.steps.alternate import alternate_roles
from hypothesis import given
from msgspec.structs import replace

from tests.effort import examples
from tests.steps.conversations import conversations, texts

STRICT = Profile(alternate=True, assistant_after_tool=True)
IMAGE = Media("image", ("http://x/y.png",))


def request(*messages: Message) -> ChatRequest:
    return ChatRequest("m", messages)


def user(*parts: Part, name: str | None = None) -> Message:
    return Message("user", parts, name)


def test_neighbours_of_one_role_are_one_message() -> None:
    given = request(user(Text("a")), user(Text("b")), Message("assistant", (Text("c"),)), user(Text("d")))
    assert texts(alternate_roles(given, STRICT)) == [("user", "a\n\nb"), ("assistant", "c"), ("user", "d")]


def test_parts_are_put_one_behind_the_other() -> None:
    merged = alternate_roles(request(user(Text("a"), IMAGE), user(Text("b"))), STRICT)
    assert merged.messages == (user(Text("a"), IMAGE, Text("b")),)


def test_nothing_is_lost_behind_a_cache_mark_and_an_empty_text() -> None:
    marked = Text("a", CacheMark({"type": "ephemeral"}, "messages[0].content[0].cache_control"))
    merged = alternate_roles(request(user(marked), user(Text(""), Text("b"), IMAGE)), STRICT)
    assert merged.messages == (user(marked, Text("b"), IMAGE),)


def test_texts_meet_until_another_part_or_a_mark_follows() -> None:
    marked = Text("d", CacheMark({"type": "ephemeral"}, "messages[3].content[0].cache_control"))
    given = [
        user(Text("a")),
        user(Text("b")),
        user(),
        user(Text("c"), IMAGE),
        user(IMAGE),
        user(Text("")),
        user(marked),
    ]
    merged = alternate_roles(request(*given, user(Text("e")), user(Text("f"))), STRICT)
    ends = Text("d", marked.mark), Text("\n\ne\n\nf")
    assert merged.messages == (user(Text("a\n\nb\n\nc"), IMAGE, IMAGE, *ends),)


@pytest.mark.parametrize(
    ("first", "second", "name"), [("bob", "bob", "bob"), ("bob", "eve", None), ("bob", None, None)]
)
def test_a_name_stays_where_both_have_it(first: str | None, second: str | None, name: str | None) -> None:
    merged = alternate_roles(request(user(Text("a"), name=first), user(Text("b"), name=second)), STRICT)
    assert merged.messages[0].name == name


def test_opaque_reasoning_of_both_is_kept() -> None:
    first = Message("assistant", (Text("a"),), extra={"reasoning_details": [1], "x": 1})
    second = Message("assistant", (Text("b"),), extra={"reasoning_details": [2]})
    merged = alternate_roles(request(user(Text("q")), first, second), STRICT)
    assert merged.messages[1].extra == {"reasoning_details": [1, 2], "x": 1}


def test_an_empty_assistant_message_is_left_out() -> None:
    given = request(user(Text("a")), Message("assistant", ()), user(Text("b")))
    assert texts(alternate_roles(given, STRICT)) == [("user", "a\n\nb")]


def test_results_stay_apart_and_a_user_behind_them_waits_for_the_assistant() -> None:
    calls = Message("assistant", (ToolCall("f", "{}", "1"), ToolCall("g", "{}", "2")))
    results = [Message("tool", (ToolResult((Text("r"),), name, id_),)) for name, id_ in (("f", "1"), ("g", "2"))]
    given = request(user(Text("a")), calls, *results, user(Text("b")))
    roles = [one.role for one in alternate_roles(given, STRICT).messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]


def test_a_user_message_before_a_tool_result_moves_after_it() -> None:
    call = Message("assistant", (ToolCall("f", "{}", "1"),))
    result = Message("tool", (ToolResult((Text("r"),), "f", "1"),))
    given = request(user(Text("a")), call, user(Text("b")), result, user(Text("c")))
    assert texts(alternate_roles(given, Profile(alternate=True)))[2:] == [("tool", "r"), ("user", "b\n\nc")]


def test_messages_of_two_replies_belong_to_neither() -> None:
    first, second = Message("assistant", (Text("a"),), turn="1"), Message("assistant", (Text("b"),), turn="2")
    assert alternate_roles(request(first, second), STRICT).messages[0].turn is None
    assert alternate_roles(request(first, first), STRICT).messages[0].turn == "1"


def test_the_bridge_alone_merges_nothing() -> None:
    given = request(user(Text("a")), user(Text("b")))
    assert alternate_roles(given, Profile(assistant_after_tool=True)) == given


def test_other_models_get_the_conversation_as_it_is() -> None:
    given = request(user(Text("a")), user(Text("b")), Message("assistant", ()))
    assert alternate_roles(given, Profile()) is given


def test_mistral_is_strict() -> None:
    assert KINDS["mistral"].alternate
    assert KINDS["mistral"].assistant_after_tool


@pytest.mark.parametrize("replay", ["reasoning_content", "none"])
@examples(20)
@given(given=conversations())
def test_any_conversation_is_sent_in_alternating_turns(replay: str, given: ChatRequest) -> None:
    """User and assistant alternate; only results follow results; none is followed by a user."""
    strict = STRICT.model_copy(update={"replay_reasoning": replay})
    messages, _ = write_openai_messages(alternate_roles(given, strict).messages, strict, "\n")
    roles = [one["role"] for one in messages if one["role"] != "system"]
    assert all(second == "tool" or first != second for first, second in pairwise(roles))
    assert ("tool", "user") not in set(pairwise(roles))


@examples(20)
@given(conversations())
def test_no_text_is_lost(given: ChatRequest) -> None:
    after = alternate_roles(given, STRICT)
    for kind in (ToolCall, ToolResult, Reasoning, Media):
        assert parts(after, kind) == parts(given, kind)
    assert words(given) <= words(after)


def words(given: ChatRequest) -> Counter[str]:
    return Counter(word for _, text in texts(given) for word in text.replace("|", " ").split())


def parts(given: ChatRequest, kind: type) -> list[Part]:
    """A thought without a word is nothing."""
    found = [part for one in given.messages for part in one.parts if isinstance(part, kind)]
    return [part for part in found if part != Reasoning("")]


def test_nothing_to_put_in_order_stays_nothing() -> None:
    assert alternate_roles(request(), STRICT).messages == ()


def test_a_text_of_the_model_between_a_call_and_its_result_is_sent_behind_the_result() -> None:
    calls = tuple(ToolCall("f", "{}", id_) for id_ in "ab")
    results = [Message("tool", (ToolResult((Text(id_),), "f", id_),)) for id_ in "ab"]
    given = request(user(Text("q")), Message("assistant", calls), results[0], Message("assistant", (Text("so"),)))
    given = replace(given, messages=(*given.messages, results[1], user(Text("go on"))))
    messages, _ = write_openai_messages(alternate_roles(given, STRICT).messages, STRICT, "\n")
    assert [one["role"] for one in messages] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert messages[-2]["content"] == "so"
