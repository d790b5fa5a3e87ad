"""A last message that the model goes on writing."""

import json
from pathlib import Path
from typing import Any

import pytest
from app.chat.messages import ChatRequest, Media, Message, Reasoning, Text
from app.errors import BadRequest
from app.formats.qwen import QWEN_AGENT
from app.profiles import KINDS, Profile
from app.steps.continuation import drop_last_thought, fold_continuation
from app.upstream.chat_completions import request as upstream_request

from tests.each_case import each_case
from tests.steps.conversations import conversation, texts

GOLDENS = Path(__file__).parents[1] / "goldens" / "qwen_agent"
ASKED = ({"role": "user", "content": "q"}, {"role": "assistant", "content": "It is"})
CALL = {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "function", "name": "f", "content": "r"}


def profile(continuation: str) -> Profile:
    return Profile.model_validate({"continuation": continuation})


def body(request: ChatRequest, row: Profile) -> dict[str, Any]:
    return upstream_request.build(fold_continuation(request, row)[0], "m", row)[0]


def golden(name: str) -> dict[str, Any]:
    return dict(json.loads((GOLDENS / f"{name}.json").read_text()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("03_continue_delta", "q\n\nIt is"), ("03_continue_assistant_reasoning", "what is 1+1?\n\nIt is")],
)
def test_what_qwen_agent_refuses_to_fold_is_folded(name: str, expected: str) -> None:
    """Its own fold, where a thought stands before the text, and in delta streams too."""
    request, _ = fold_continuation(conversation(*golden(name)["messages"]), profile("fold"))
    assert texts(request) == [("user", expected)]
    assert not request.continue_last


def test_a_thought_that_cannot_be_folded_is_named() -> None:
    _, warnings = fold_continuation(
        conversation(*golden("03_continue_assistant_reasoning")["messages"]), profile("fold")
    )
    assert warnings == ("messages[1]: its reasoning was not sent: this model cannot continue it",)


def test_sent_as_it_is_it_is_what_qwen_agent_sends_raw() -> None:
    case = golden("08_raw_starts_assistant_last")
    sent = case["upstream"][0]["request"]["body"]["messages"]
    assert body(conversation(*case["messages"]), profile("send"))["messages"] == sent


@pytest.mark.parametrize(
    ("continuation", "last", "fields"),
    [
        ("prefix", {"prefix": True}, {}),
        ("partial", {"partial": True}, {}),
        ("continue_final_message", {}, {"continue_final_message": True, "add_generation_prompt": False}),
        ("send", {}, {}),
    ],
)
def test_each_server_is_requested_to_continue_in_its_own_way(
    continuation: str, last: dict[str, Any], fields: dict[str, Any]
) -> None:
    sent = body(conversation(*ASKED), profile(continuation))
    assert sent["messages"] == [{"role": "user", "content": "q"}, {"role": "assistant", "content": "It is"} | last]
    assert {key: sent[key] for key in ("continue_final_message", "add_generation_prompt") if key in sent} == fields


@pytest.mark.parametrize(
    ("kind", "continuation"),
    [
        ("mistral", "prefix"),
        ("deepseek", "prefix"),
        ("moonshot", "partial"),
        ("dashscope", "partial"),
        ("vllm", "continue_final_message"),
        ("sglang", "continue_final_message"),
        ("llamacpp", "send"),
        ("openai", "fold"),
        ("openai_compatible", "fold"),
    ],
)
def test_every_known_server_has_its_way(kind: str, continuation: str) -> None:
    assert KINDS[kind].continuation == continuation


def test_a_model_that_cannot_refuses() -> None:
    with pytest.raises(BadRequest) as error:
        fold_continuation(conversation(*ASKED), profile("refuse"))
    assert (error.value.status, error.value.param) == (400, "messages[1]")


WAYS = ["fold", "prefix", "partial", "continue_final_message", "send", "refuse"]


@each_case("way", WAYS)
@each_case("wire", [(), ASKED[:1], (ASKED[0], CALL, RESULT), (*ASKED, ASKED[0])])
def test_a_conversation_that_ends_otherwise_is_left_alone(way: str, wire: tuple[dict[str, Any], ...]) -> None:
    request = conversation(*wire)
    assert fold_continuation(request, profile(way)) == (request, ())


@pytest.mark.parametrize("way", WAYS)
def test_a_call_is_not_continued(way: str) -> None:
    request = conversation(ASKED[0], CALL)
    assert fold_continuation(request, profile(way)) == (request, ())


def test_a_text_behind_a_result_is_not_folded_into_it() -> None:
    request = conversation(ASKED[0], CALL, RESULT, {"role": "assistant", "content": "It"})
    folded, warnings = fold_continuation(request, profile("fold"))
    assert folded == request
    assert warnings[0].startswith("messages[3] was sent unchanged")
    marked, _ = fold_continuation(request, profile("prefix"))
    assert marked.continue_last


@pytest.mark.parametrize("way", ["prefix", "continue_final_message"])
def test_a_thought_alone_is_not_continued(way: str) -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "r"}
    request, _ = fold_continuation(conversation(ASKED[0], thought), profile(way))
    assert not request.continue_last


def test_several_messages_of_the_assistant_become_one() -> None:
    thought = {"role": "assistant", "content": "", "reasoning_content": "r"}
    more = {"role": "assistant", "content": "four"}
    request, _ = fold_continuation(conversation(ASKED[0], thought, ASKED[1], more), profile("prefix"))
    assert request.messages[-1].parts == (Reasoning("r"), Text("It is\n\nfour"))


def test_a_text_is_folded_behind_the_users_image() -> None:
    image = Media("image", ("http://x/y.png",))
    messages = (Message("user", (Text("q"), image)), Message("assistant", (Text("It is"),)))
    folded, _ = fold_continuation(ChatRequest("m", messages, policy=QWEN_AGENT), profile("fold"))
    assert folded.messages == (Message("user", (Text("q"), image, Text("It is"))),)


def test_only_an_assistants_message_is_marked() -> None:
    """Reasoning that this server is not sent may have been all there was."""
    request = ChatRequest("m", (Message("user", (Text("q"),)),), continue_last=True)
    sent = upstream_request.build(request, "m", profile("prefix"))[0]
    assert sent["messages"] == [{"role": "user", "content": "q"}]


def test_a_message_that_follows_no_users_is_sent_as_it_is_with_a_warning() -> None:
    last = Message("assistant", (Text("It is"),), path="messages[0]")
    asked = ChatRequest("m", messages=(last,))
    folded, warnings = fold_continuation(asked, Profile(assistant_last=False))
    assert folded == asked
    assert len(warnings) == 1 and warnings[0].startswith("messages[0] was sent unchanged")


THOUGHT = {"role": "assistant", "content": "", "reasoning_content": "hm"}


@each_case(
    ("messages", "kept", "warned"),
    [
        ([ASKED[0], THOUGHT], 1, "messages[1] "),
        ([ASKED[0], CALL, RESULT, THOUGHT], 3, "messages[3] "),
        ([ASKED[0], {**THOUGHT, "content": " \n"}], 1, "messages[1] "),
        ([ASKED[0], {**THOUGHT, "content": "It"}], 2, ""),
        ([ASKED[0], THOUGHT, ASKED[1]], 3, ""),
        ([ASKED[0], {**CALL, "reasoning_content": "hm"}, RESULT], 3, ""),
        ([ASKED[0], THOUGHT, ASKED[0]], 3, ""),
        ([THOUGHT], 1, ""),
    ],
)
def test_a_last_turn_that_is_only_a_thought_is_not_continued(messages: list[Any], kept: int, warned: str) -> None:
    request = conversation(*messages)
    got, warnings = drop_last_thought(request)
    assert got.messages == request.messages[:kept]
    assert len(warnings) == bool(warned)
    assert all(text.startswith(f"{warned}was not sent") for text in warnings)
