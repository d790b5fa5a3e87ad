"""What the original sent and made of replies, case by case: equal where it is right, our own result where it is not."""

from collections.abc import Iterator
from typing import Any

import pytest
from app.chat.events import Event
from app.chat.stage import Stage
from app.errors import InvalidInput
from app.profiles import Profile
from app.steps.prompted_tools import add_tool_prompt, prompted_tool_stage, uses_prompted_tools
from app.steps.reasoning_parser import ReasoningStage
from app.upstream.chat_completions import request as upstream_request

from tests.each_case import each_case
from tests.steps.recorded_conversations import load, names, replies, request
from tests.steps.stage_runner import Reply, texts

Json = dict[str, Any]
CASES = names("02_consecutive_users_with_functions", "06_", "07_", "10_stream_empty_fn", "13_")
REFUSED = {"06_nous_choice_invalid", "07_fncall_prompt_type_bad"}
NOT_SENT_BY_THE_ORIGINAL = {"06_nofn_history_multimodal_result", "06_nous_choice_name", "06_nous_delta"}
OTHER_REQUESTS = {
    "06_nous_openai_tools_shape": "functions that are wrapped already are wrapped once",
    "06_nous_reasoning_between_steps": "every thought of a turn goes back, not only its first",
}
CALL = '<tool_call>\n{"name": "get_time", "arguments": {"tz": "CET"}}\n</tool_call>'
PARIS = '{"city": "Paris"}'
OTHER_REPLIES: dict[str, list[tuple[str, ...]]] = {
    # text behind </tool_call> is kept
    "06_nous_json5": [("F", "get_weather", PARIS), ("C", " trailing text")],
    # missing arguments are none
    "06_nous_missing_arguments": [("F", "get_weather", "{}")],
    # arguments are not encoded twice
    "06_nous_string_arguments": [("F", "get_weather", '{"city": "P"}')],
    # calls that the server read itself are honoured
    "06_nous_native_tools_dropped": [
        ("R", "I should call tools."),
        ("C", "Checking both."),
        ("F", "get_weather", PARIS),
        ("F", "get_time", '{"tz": "CET"}'),
    ],
    # thoughts in tags are reasoning
    "06_nous_think_tags": [("R", f"maybe {CALL} no"), ("C", "OK "), ("F", "get_weather", PARIS)],
    # a thought that never ends was none
    "06_nous_thought_in_content_never_closed": [("C", "OK "), ("F", "get_weather", PARIS)],
    # reasoning is not lost
    "07_qwen_reasoning": [("R", "Let me think."), ("C", "The answer.")],
}


def profile(golden: Json) -> Profile:
    return Profile(native_tools=False, special_code_mode=bool(golden["env"].get("SPECIAL_CODE_MODE")))


def sent(golden: Json) -> Json:
    made, _ = add_tool_prompt(request(golden), profile(golden))
    assert made.tools == ()
    return upstream_request.build(made, "mock-model", profile(golden))[0]


def stages(golden: Json) -> list[Stage]:
    asked, how = request(golden), profile(golden)
    found = prompted_tool_stage(asked, how, "chat-1")
    return [ReasoningStage(how.inline_think, how.think_tags), *([found] if found else [])]


def final(golden: Json) -> list[tuple[str, ...]]:
    """The original's final messages in brief."""
    found: list[tuple[str, ...]] = []
    for message in golden["final"] or ():
        if message.get("function_call"):
            found.append(("F", message["function_call"]["name"], message["function_call"]["arguments"]))
        elif message.get("reasoning_content"):
            found.append(("R", message["reasoning_content"]))
        else:
            found.append(("C", message["content"]))
    return found


def whole_text(events: list[Event]) -> str:
    return "".join(getattr(event, "text", "") for event in events)


@each_case("name", sorted(set(CASES) - REFUSED - NOT_SENT_BY_THE_ORIGINAL - OTHER_REQUESTS.keys()))
def test_a_request_is_worded_as_the_original_words_it(name: str) -> None:
    golden = load(name)
    body, want = sent(golden), golden["upstream"][0]["request"]["body"]
    assert body["messages"] == want["messages"]
    assert body.get("stop") == want.get("stop")
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


@each_case("name", sorted(set(CASES) - REFUSED - NOT_SENT_BY_THE_ORIGINAL))
def test_a_reply_is_read_as_the_original_reads_it_or_better(name: str) -> None:
    golden = load(name)
    reply = Reply(stages(golden))
    for event in replies(golden):
        reply.feed([event])
    want = OTHER_REPLIES.get(name, final(golden))
    assert reply.short() == want
    assert reply.reason == ("tool_calls" if any(one[0] == "F" for one in want) else "stop")
    assert reply.warnings == []


@pytest.mark.many_cases
@each_case("name", [name for name in CASES if name.startswith(("06_nous", "07_qwen", "13_"))])
@each_case("seed", range(6))
def test_no_cut_changes_a_reply(name: str, seed: int) -> None:
    golden = load(name)
    if not golden["upstream"]:
        return
    events = replies(golden)
    reply = Reply(stages(golden))
    for event in events:
        for part in _cut(event, seed):
            reply.feed(part)
    assert reply.short() == OTHER_REPLIES.get(name, final(golden))


def _cut(event: Event, seed: int) -> Iterator[list[Event]]:
    kind = type(event).__name__
    yield from texts(event.text, seed) if kind == "TextDelta" else [[event]]  # type: ignore[union-attr]


def test_wrapped_functions_are_wrapped_once() -> None:
    block = sent(load("06_nous_openai_tools_shape"))["messages"][0]["content"]
    assert '<tools>\n{"type": "function", "function": {"name": "get_weather", ' in block


def test_every_thought_of_a_turn_goes_back() -> None:
    golden = load("06_nous_reasoning_between_steps")
    want = golden["upstream"][0]["request"]["body"]["messages"]
    want[2] = {**want[2], "reasoning_content": "r1\nr2"}
    assert sent(golden)["messages"] == want


def test_a_result_of_several_items_is_sent_completely() -> None:
    golden = load("06_nofn_history_multimodal_result")
    assert sent(golden)["messages"][-1]["content"].endswith("The tool has returned the following result: \na\nb")


def test_a_named_function_is_demanded_in_the_prompt() -> None:
    golden = load("06_nous_choice_name")
    plain = sent({**golden, "extra_generate_cfg": None})["messages"][0]["content"]
    forced = sent(golden)["messages"][0]["content"]
    assert forced.startswith(plain)
    assert "must call the function get_time" in forced.removeprefix(plain)


@pytest.mark.parametrize("prompt", ["nous", "qwen"])
def test_an_unknown_function_cannot_be_chosen(prompt: str) -> None:
    asked = request(load("06_nous_choice_invalid"))
    with pytest.raises(InvalidInput, match="must be auto, none, required or one of the functions .*, not 'nope'"):
        add_tool_prompt(asked, Profile(native_tools=False, fncall_prompt_type=prompt))  # type: ignore[arg-type]


def test_a_server_with_tools_of_its_own_is_sent_them() -> None:
    golden = load("08_raw_text_toolcall")
    assert uses_prompted_tools(request(golden), Profile()) is None
    assert prompted_tool_stage(request(golden), Profile(), "chat-1") is None


def test_a_caller_may_ask_for_the_prompt() -> None:
    golden = load("06_nous_basic")
    golden["llm_cfg"]["generate_cfg"] |= {"use_raw_api": False, "fncall_prompt_type": "qwen"}
    assert uses_prompted_tools(request(golden), Profile()) == "qwen"
