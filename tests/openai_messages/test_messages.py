"""One message of a history as servers of different profiles take it."""

from typing import Any

import pytest
from app.chat.messages import CacheMark, Message, Text, ToolCall, ToolResult
from app.openai_messages.messages import write_openai_messages
from app.profiles import KINDS, Profile

from tests.each_case import each_case
from tests.upstream.sample_histories import Json, answers, calls, refused, returns, sent, thinks, user

Q = user("q")
R = "reasoning_content"
TURN = [thinks("r"), answers("t"), calls("f", id="a"), returns("f", id="a")]
DETAILS = [{"type": "reasoning.encrypted", "data": "x"}]


def first_answer(*messages: Json, **profile: Any) -> Json:
    """The first message after the question, without its calls."""
    return {key: value for key, value in sent(Q, *messages, **profile)[1].items() if key not in ("role", "tool_calls")}


@pytest.mark.parametrize(
    ("profile", "calling", "plain"),
    [
        ({}, {R: "r", "content": "t"}, {R: "r", "content": "t"}),
        ({"replay_reasoning": "reasoning"}, {"reasoning": "r", "content": "t"}, {"reasoning": "r", "content": "t"}),
        ({"replay_reasoning": "none"}, {"content": "t"}, {"content": "t"}),
        ({"replay_turns": "tool_turns"}, {R: "r", "content": "t"}, {"content": "t"}),
        (
            {"replay_reasoning": "think_tags"},
            {"content": "<think>\nr\n</think>\n\nt"},
            {"content": "<think>\nr\n</think>\n\nt"},
        ),
        (
            {"replay_reasoning": "think_tags", "think_tags": ("[T]", "[/T]"), "replay_turns": "tool_turns"},
            {"content": "[T]\nr\n[/T]\n\nt"},
            {"content": "t"},
        ),
    ],
)
def test_old_thoughts_go_back_as_the_profile_says(profile: Json, calling: Json, plain: Json) -> None:
    assert first_answer(*TURN, **profile) == calling
    assert first_answer(*TURN[:2], **profile) == plain


@pytest.mark.parametrize(
    ("profile", "messages", "want"),
    [
        ({"replay_blank_reasoning": True}, TURN[2:], {R: "", "content": None}),
        ({"replay_blank_reasoning": True, "blank_reasoning": " "}, TURN[2:], {R: " ", "content": None}),
        ({"replay_blank_reasoning": True, "blank_reasoning": " "}, TURN, {R: "r", "content": "t"}),
        ({"replay_blank_reasoning": True}, [answers("t")], {"content": "t"}),
        ({"replay_blank_reasoning": "all"}, [answers("t")], {R: "", "content": "t"}),
        ({"replay_blank_reasoning": "all", "blank_reasoning": " "}, TURN[2:], {R: " ", "content": None}),
        ({"replay_blank_reasoning": "all", "replay_reasoning": "none"}, [answers("t")], {"content": "t"}),
        ({"replay_blank_reasoning": True, "replay_reasoning": "none"}, TURN[2:], {"content": None}),
        ({}, TURN[2:], {"content": None}),
        ({}, [thinks("r")], {R: "r", "content": ""}),
    ],
)
def test_a_thought_that_is_missing_is_blank_only_where_a_turn_needs_one(
    profile: Json, messages: list[Json], want: Json
) -> None:
    assert first_answer(*messages, **profile) == want


def test_deepseek_gets_a_thought_with_every_turn_and_kimi_with_those_that_call() -> None:
    history = [Q, *TURN, user("so?"), answers("yes"), user("why?"), *TURN[2:]]
    for kind, plain in (("deepseek", " "), ("moonshot", None)):
        turns = [one for one in sent(*history, **KINDS[kind].model_dump()) if one["role"] == "assistant"]
        assert [turn.get(R) for turn in turns] == ["r", plain, " "]


def test_thoughts_in_tags_stand_before_a_list_of_parts() -> None:
    image = {"image": "data:image/png;base64,AA=="}
    got = first_answer(thinks("r"), answers([{"text": "t"}, image]), replay_reasoning="think_tags")
    assert [part.get("text", "image") for part in got["content"]] == ["<think>\nr\n</think>\n\n", "t", "image"]


@pytest.mark.parametrize(
    ("replay", "want"), [(True, {"content": "t", "reasoning_details": DETAILS}), (False, {"content": "t"})]
)
def test_sealed_reasoning_goes_back_even_where_no_thought_can_be_read(replay: bool, want: Json) -> None:
    assert first_answer(answers("t", extra={"reasoning_details": DETAILS}), replay_details=replay) == want


def test_sealed_reasoning_is_joined_once_for_a_turn() -> None:
    steps = [thinks("r", extra={"reasoning_details": DETAILS}), answers("t", extra={"reasoning_details": DETAILS})]
    assert first_answer(*steps, replay_details=True)["reasoning_details"] == DETAILS + DETAILS


@pytest.mark.parametrize(("rule", "want"), [("null", {"content": None}), ("empty", {"content": ""}), ("omit", {})])
def test_a_message_that_only_calls_has_the_content_that_the_server_wants(rule: str, want: Json) -> None:
    assert first_answer(calls("f"), returns("f"), empty_content=rule) == want


@pytest.mark.parametrize("content", ["", None, [], [{"text": ""}]])
def test_an_empty_message_of_a_user_keeps_its_content_and_one_of_an_assistant_is_left_out(content: Any) -> None:
    for text_parts in (False, True):
        assert first_answer(user(content), text_parts=text_parts) == {"content": ""}
        found = sent(Q, answers(content), user("so?"), text_parts=text_parts)
        assert [one["role"] for one in found] == ["user", "user"]


@pytest.mark.parametrize(
    ("names", "user_name", "assistant_name"), [("none", None, None), ("user", "b_b", None), ("all", "b_b", "bot")]
)
def test_names_are_sent_for_whom_the_profile_says(names: str, user_name: str, assistant_name: str) -> None:
    got = sent(user("q", name="b b"), answers("t", name="bot"), names=names)
    assert [message.get("name") for message in got] == [user_name, assistant_name]


def test_a_name_is_cut_to_what_servers_take() -> None:
    assert sent(user("q", name="é" + "n" * 99), names="user")[0]["name"] == "_" + "n" * 63


@pytest.mark.parametrize(("sending", "want"), [(True, "f"), (False, None)])
def test_a_result_is_named_only_where_the_server_wants_it(sending: bool, want: str | None) -> None:
    assert sent(Q, calls("f"), returns("f"), tool_names=sending)[2].get("name") == want


def test_text_alone_is_a_string_and_a_part_where_the_server_wants_parts() -> None:
    message = user([{"text": "a"}, {"text": "b"}])
    assert sent(message)[0]["content"] == "ab"
    assert sent(message, text_parts=True)[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    joined = sent(Q, answers("a", "1"), answers("b", "1"), text_parts=True)[1]["content"]
    assert joined == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_an_id_that_the_server_would_refuse_is_replaced_on_call_and_result_alike() -> None:
    long, longer = "a" * 40, "b" * 41
    got = sent(
        Q, calls("f", id=long), returns("f", id=long), calls("f", id=longer), returns("f", id=longer), max_call_id=40
    )
    first, second = got[1]["tool_calls"][0]["id"], got[3]["tool_calls"][0]["id"]
    assert first == long and second.startswith("call_") and len(second) < 40
    assert [got[2]["tool_call_id"], got[4]["tool_call_id"]] == [first, second]


@pytest.mark.parametrize("id", ["call_0123456789abcdef", "functions.f:0", "ID9", ""])
def test_ids_become_nine_letters_and_digits_on_call_and_result_alike(id: str) -> None:
    got = sent(Q, calls("f", id=id), returns("f", id=id), calls("f"), returns("f"), call_ids="alphanumeric9")
    first, second = (message["tool_calls"][0]["id"] for message in (got[1], got[3]))
    assert first.isalnum()
    assert len(first) == len(second) == 9
    assert first != second
    assert [got[2]["tool_call_id"], got[4]["tool_call_id"]] == [first, second]


def test_an_id_of_nine_letters_and_digits_is_kept() -> None:
    assert sent(Q, calls("f", id="aB3456789"), returns("f"), call_ids="alphanumeric9")[2]["tool_call_id"] == "aB3456789"


@pytest.mark.parametrize(
    ("arguments", "want", "as_it_is"),
    [
        ('{"a": 1}', '{"a": 1}', '{"a": 1}'),
        (' {"ü": 1} ', ' {"ü": 1} ', ' {"ü": 1} '),
        ("", "{}", "{}"),
        (" \n", "{}", "{}"),
        (" null", "{}", "{}"),
        ("[]", "{}", "{}"),
        ('""', "{}", "{}"),
        ('{"a": ', '{"_raw": "{\\"a\\": "}', '{"a": '),
        ("[1]", '{"_raw": "[1]"}', "[1]"),
        ("ü", '{"_raw": "ü"}', "ü"),
        ('{"a": NaN}', '{"_raw": "{\\"a\\": NaN}"}', '{"a": NaN}'),
        ("[" * 5000, '{"_raw": "' + "[" * 5000 + '"}', "[" * 5000),
    ],
    ids=[
        "object",
        "with blanks",
        "none",
        "blank",
        "null",
        "an empty list",
        "an empty text",
        "broken",
        "a list",
        "no json",
        "NaN",
        "deep",
    ],
)
def test_broken_arguments_are_wrapped_where_servers_refuse_them(arguments: str, want: str, as_it_is: str) -> None:
    for valid, expected in ((True, want), (False, as_it_is)):
        got = sent(Q, calls("f", arguments), returns("f"), valid_arguments=valid)
        assert got[1]["tool_calls"][0]["function"]["arguments"] == expected


def test_a_signature_goes_back_on_its_call_and_nothing_else_of_extra_does() -> None:
    content = {"google": {"thought_signature": "s"}}
    call = sent(Q, calls("f", extra={"extra_content": content, "is_error": False}, id="a"), returns("f"))[1][
        "tool_calls"
    ][0]
    assert call == {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": content,
    }


@each_case("kind", [kind for kind in KINDS if not kind.startswith("anthropic")])
def test_a_signature_is_sent_only_to_servers_that_may_know_it(kind: str) -> None:
    call = calls("f", extra={"extra_content": {"google": {}}}, id="a")
    sent_calls = sent(Q, call, returns("f"), **KINDS[kind].model_dump())[1]["tool_calls"]
    assert ("extra_content" in sent_calls[0]) == (kind in ("openai_compatible", "gemini", "vertex"))


def test_media_of_results_follow_the_last_result_in_one_message() -> None:
    def picture(number: int) -> Json:
        return {"image": f"data:,{number}"}

    steps = [calls("f", id="a"), calls("g", id="b")]
    results = [returns("f", [{"text": "x"}, picture(1), {"text": "y"}], "a"), returns("g", [picture(2)], "b")]
    got = sent(Q, *steps, *results)
    assert [message["role"] for message in got] == ["user", "assistant", "tool", "tool", "user"]
    assert got[2]["content"] == "x\n[image 1: see below]\ny"
    assert got[3]["content"] == "[image 2: see below]"
    assert [part.get("text") or part["image_url"]["url"] for part in got[4]["content"]] == [
        "[image 1]",
        "data:,1",
        "[image 2]",
        "data:,2",
    ]


def test_media_of_results_do_not_follow_them_directly_where_no_user_may() -> None:
    got = sent(Q, calls("f"), returns("f", [{"image": "data:,1"}]), assistant_after_tool=True)
    assert [message["role"] for message in got] == ["user", "assistant", "tool", "assistant", "user"]


def test_media_of_a_result_are_refused_with_their_place() -> None:
    result = returns("f", [{"text": "x"}, {"video": "data:,"}])
    assert refused(Q, calls("f"), result, media=("image",)) == [
        ("messages[2].content[1].video", "this model does not accept video input")
    ]


def test_a_signature_of_a_text_goes_back_with_it_where_the_server_knows_it() -> None:
    signed = answers("Hi", extra={"extra_content": {"google": {"thought_signature": "AbC="}}})
    assert sent(user("q"), signed, user("r"))[1] == {
        "role": "assistant",
        "content": "Hi",
        "extra_content": {"google": {"thought_signature": "AbC="}},
    }
    assert "extra_content" not in sent(user("q"), signed, user("r"), replay_extra_content=False)[1]


def test_an_empty_text_beside_a_mark_is_no_part() -> None:
    mark = CacheMark({"type": "ephemeral"}, "")
    result = ToolResult((Text(""), Text("a", mark)), "f", "c")
    messages = [Message("assistant", (ToolCall("f", "{}", "c"),)), Message("tool", (result,))]
    written, _ = write_openai_messages(messages, Profile(), "\n")
    assert written[1]["content"] == [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]


def signed(value: str, api: str = "google") -> Json:
    return {"extra_content": {api: {"thought_signature": value}}}


@each_case(
    ("extras", "sent"),
    [
        ([{}], ["skip"]),
        ([{}, {}], ["skip", None]),
        ([signed("own")], ["own"]),
        ([signed("own"), {}], ["own", None]),
        ([{}, signed("own")], ["skip", "own"]),
        ([signed("own", "vertex")], ["own"]),
        ([signed("")], ["skip"]),
        ([{"extra_content": {"google": None, "other": 1}}], ["skip"]),
    ],
)
def test_the_first_call_of_an_unsigned_turn_gets_the_signature_that_is_not_checked(
    extras: list[Json], sent: list[str | None]
) -> None:
    calls = tuple(ToolCall("f", "{}", f"c{place}", extra) for place, extra in enumerate(extras))
    results = tuple(ToolResult((Text("r"),), "f", call.id) for call in calls)
    history = [Message("user", (Text("q"),)), Message("assistant", calls), Message("tool", results)]
    profile = KINDS["gemini"].model_copy(update={"missing_signature": "skip"})
    written, violations = write_openai_messages(history, profile, "")
    assert not violations
    found = [_find_signature(call) for call in written[1]["tool_calls"]]
    assert found == sent
    for other in (Profile(), Profile(missing_signature="none"), KINDS["vllm"]):
        [_, turn, *_] = write_openai_messages(history, other, "")[0]
        want = [extra if other.replay_extra_content else {} for extra in extras]
        assert [{key: call[key] for key in call if key == "extra_content"} for call in turn["tool_calls"]] == want


def _find_signature(call: Json) -> str | None:
    content = call.get("extra_content") or {}
    apis = (api for api in content.values() if isinstance(api, dict))
    return next((api["thought_signature"] for api in apis), None)
