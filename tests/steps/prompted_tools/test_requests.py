"""Histories in words, beyond what was recorded."""

from typing import Any

import pytest
from app.chat.events import Finish, TextDelta
from app.chat.messages import ChatRequest, Media, Message, Part, Reasoning, Text, Tool, ToolCall, ToolResult
from app.chat.stage import Pipe
from app.errors import InvalidInput
from app.formats.qwen import QWEN_AGENT
from app.profiles import Profile
from app.steps.pipeline import reply_stages
from app.steps.prompted_tools import add_tool_prompt, prompted_tool_stage
from app.steps.stop_words import StopWordStage
from msgspec.structs import replace

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts

NOUS = Profile(native_tools=False)
QWEN = Profile(native_tools=False, fncall_prompt_type="qwen")
F = Tool("f", {"name": "f"})
CODE = Tool("code_interpreter", {"name": "code_interpreter"})
ASKED = Message("user", (Text("q"),))
PICTURE = Media("image", ("https://example.com/cat.png",))


def messages_for(
    *messages: Message, profile: Profile = NOUS, tools: tuple[Tool, ...] = (F,), **params: Any
) -> list[Message]:
    request = ChatRequest("m", (ASKED, *messages), tools, params, policy=QWEN_AGENT)
    made, _ = add_tool_prompt(request, profile)
    assert request.tools == tools
    return list(made.messages)


def assistant(*parts: Part) -> Message:
    return Message("assistant", parts)


def result(*parts: Text | Media, name: str = "f") -> Message:
    return Message("tool", (ToolResult(parts, name),))


def call(arguments: str = "{}", name: str = "f") -> ToolCall:
    return ToolCall(name, arguments)


def text(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [('{"a":1}', '{"a": 1}'), ("{a: 1,}", '{"a": 1}'), ("", "{}"), ('{"a": "x"y"}', '"{\\"a\\": \\"x\\"y\\"}"')],
)
def test_arguments_of_the_history_are_values_or_a_string(arguments: str, want: str) -> None:
    converted = messages_for(assistant(call(arguments)), result(Text("r")))[2]
    assert text(converted) == f'<tool_call>\n{{"name": "f", "arguments": {want}}}\n</tool_call>'


def test_several_calls_of_one_message_stand_on_their_own_lines() -> None:
    converted = messages_for(assistant(Text("So: "), call(), call()), result(Text("1")), result(Text("2")))
    one = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert text(converted[2]) == f"So: {one}\n{one}"
    assert text(converted[3]) == "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"


def test_pictures_of_a_result_stay_where_they_stand() -> None:
    converted = messages_for(assistant(call()), result(Text("see "), PICTURE))[-1]
    assert converted.parts == (Text("<tool_response>\n"), Text("see "), PICTURE, Text("\n</tool_response>"))


def test_texts_of_one_message_are_joined_as_the_caller_joins_them() -> None:
    system = Message("system", (Text("a"), Text("b")))
    made, _ = add_tool_prompt(ChatRequest("m", (system, ASKED), (F,)), NOUS)
    assert text(made.messages[0]).startswith("a\nb\n\n# Tools\n")


def test_a_system_message_may_hold_a_picture() -> None:
    system = Message("system", (PICTURE,))
    made, _ = add_tool_prompt(ChatRequest("m", (system, ASKED), (F,)), NOUS)
    assert made.messages[0].parts[0] == PICTURE


def test_a_last_turn_of_the_assistant_goes_on_in_the_users() -> None:
    assert [text(message) for message in messages_for(assistant(Text("It is")))[1:]] == ["q\n\nIt is"]


@pytest.mark.parametrize("profile", [NOUS, QWEN])
def test_the_request_says_nothing_of_tools_any_more(profile: Profile) -> None:
    request = ChatRequest("m", (ASKED,), (F,), {"tool_choice": "auto", "parallel_tool_calls": True, "top_p": 1})
    made, warnings = add_tool_prompt(request, profile)
    assert made.tools == ()
    assert made.params.keys() - {"stop"} == {"top_p"}
    assert warnings == []


def test_code_without_a_code_argument_is_an_ordinary_call() -> None:
    coder = Profile(native_tools=False, special_code_mode=True)
    converted = messages_for(assistant(call('{"x": 1}', CODE.name)), result(Text("r")), profile=coder, tools=(CODE,))
    assert "<code>" not in text(converted[2])


def test_a_code_block_needs_arguments_to_stand_in() -> None:
    request = ChatRequest("m", (ASKED,), (CODE,))
    stage = prompted_tool_stage(request, Profile(native_tools=False, special_code_mode=True), "chat-1")
    assert stage is not None
    reply = '<tool_call>{"name": "code_interpreter", "arguments": [1]}<code>x</code></tool_call>'
    assert run([stage], texts(reply)).short() == [("C", reply)]


def test_a_call_whose_code_block_is_cut_off_is_text() -> None:
    request = ChatRequest("m", (ASKED,), (CODE,))
    stage = prompted_tool_stage(request, Profile(native_tools=False, special_code_mode=True), "chat-1")
    assert stage is not None
    reply = '<tool_call>{"name": "code_interpreter", "arguments": {}}<code>x'
    found = run([stage], texts(reply))
    assert found.short() == [("C", reply)]
    assert found.warnings == ["a tool call that was cut off is returned as text"]


@pytest.mark.parametrize(
    ("choice", "word"),
    [("required", "must call the function f"), ({"type": "function", "function": {"name": "f"}}, "the function f")],
)
def test_a_call_can_be_demanded(choice: Any, word: str) -> None:
    assert word in text(messages_for(function_choice=choice)[0])
    assert text(messages_for(profile=QWEN, tool_choice=choice)[-1]).endswith("q\n\n✿FUNCTION✿: f")


def test_any_of_several_functions_can_be_demanded_only_with_nous() -> None:
    assert "at least one" in text(messages_for(tools=(F, CODE), function_choice="required")[0])
    request = ChatRequest("m", (ASKED,), (F, CODE), {"function_choice": "required"})
    assert "can force only a named one" in add_tool_prompt(request, QWEN)[1][0]


def test_one_call_at_a_time_cannot_be_had_with_nous() -> None:
    request = ChatRequest("m", (ASKED,), (F,), {"parallel_function_calls": False})
    assert "parallel_function_calls has no effect" in add_tool_prompt(request, NOUS)[1][0]
    assert add_tool_prompt(request, QWEN)[1] == []


@pytest.mark.parametrize("choice", ["g", {"type": "function", "function": {"name": "g"}}, {"function": 1}])
def test_a_function_that_is_none_cannot_be_chosen(choice: Any) -> None:
    with pytest.raises(InvalidInput, match="or one of the functions"):
        messages_for(function_choice=choice)


@pytest.mark.parametrize("choice", ["f", "required"])
def test_without_functions_none_can_be_chosen(choice: str) -> None:
    with pytest.raises(InvalidInput, match="needs functions to choose from"):
        messages_for(tools=(), function_choice=choice)


def test_without_functions_a_reply_is_only_text() -> None:
    assert prompted_tool_stage(ChatRequest("m", (ASKED,)), NOUS, "chat-1") is None
    assert prompted_tool_stage(ChatRequest("m", (ASKED,), (F,), {"function_choice": "none"}), NOUS, "chat-1") is None


def test_a_conversation_without_calls_stays_as_it_is() -> None:
    messages = (Message("user", (Text("again"),)),)
    assert messages_for(*messages, tools=()) == [ASKED, *messages]


def test_text_beside_a_call_is_sent() -> None:
    converted = messages_for(
        assistant(Reasoning("r"), Text("Wait."), call('{"a": 1}')), result(PICTURE), function_choice="none"
    )
    assert converted[1].parts == (Reasoning("r"), Text("Wait."))
    assert converted[2].parts[-1] == PICTURE
    assert 'The tool "f" was called with these arguments: \n{"a": 1}' in text(converted[2])


@pytest.mark.parametrize(
    ("params", "message", "heading"),
    [
        ({}, Text("q"), "# Tools"),
        ({"lang": "zh"}, Text("q"), "# 工具"),
        ({"lang": "en"}, Text("天气"), "# Tools"),
        ({}, Text("天气"), "# 工具"),
        ({}, Media("image", ("https://example.com/猫.png",)), "# 工具"),
        ({}, Media("image", ("data:image/png;base64,猫",)), "# Tools"),
    ],
)
def test_the_language_is_the_callers(params: dict[str, Any], message: Text | Media, heading: str) -> None:
    request = ChatRequest("m", (Message("user", (message,)),), (F,), params)
    assert text(add_tool_prompt(request, QWEN)[0].messages[0]).startswith(heading)


def test_stop_words_are_added_to_the_callers() -> None:
    request = ChatRequest("m", (ASKED,), (F,), {"stop": "END"})
    assert add_tool_prompt(request, QWEN)[0].params["stop"] == ["END", "✿RESULT✿", "✿RETURN✿"]


def test_a_forced_call_follows_a_picture_on_its_own_line() -> None:
    converted = messages_for(assistant(PICTURE), profile=QWEN, function_choice="f")[-1]
    assert converted.parts[-1] == Text("\n✿FUNCTION✿: f")


def test_several_calls_of_one_message_follow_each_other() -> None:
    converted = messages_for(assistant(call(), call()), result(Text("1")), result(Text("2")), profile=QWEN)[-1]
    one = "✿FUNCTION✿: f\n✿ARGS✿: {}"
    assert text(converted) == f"q\n\n{one}\n{one}\n✿RESULT✿: 1\n✿RESULT✿: 2\n✿RETURN✿"


@each_case("seed", [None, *range(5)])
@each_case(
    ("reply", "want"),
    [
        ("✿FUNCTION✿: f\n✿ARGS✿: plain words\n", [("F", "f", "plain words")]),
        ("✿FUNCTION✿: f\n✿ARGS✿: ```py\nx", [("F", "f", "```py\nx")]),
        ("✿FUNCTION✿: f ✿RESULT✿ made up", [("F", "f", "{}")]),
        ("✿FUNCTION✿: nobody\nso", [("C", "✿FUNCTION✿: nobody\nso")]),
        ("✿ARGS✿: {}", [("C", "✿ARGS✿: {}")]),
        ("✿FUNCTION✿: f\n✿ARGS✿: {\"a\": 'x' y}\n✿RETURN✿", [("F", "f", '{"a": "x" y}')]),
        ('✿FUNCTION✿: f\n✿ARGS✿: {"a": x y', [("F", "f", '{"a": x y')]),
        ("Hi  there \n", [("C", "Hi  there \n")]),
    ],
)
def test_a_qwen_reply_is_read(reply: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    stage = prompted_tool_stage(ChatRequest("m", (ASKED,), (F,)), QWEN, "chat-1")
    assert stage is not None
    assert run([stage], texts(reply, seed)).short() == want


@pytest.mark.parametrize("tools", [(), (F,)])
def test_the_qwen_prompt_stops_at_its_commands_also_without_a_function(tools: tuple[Tool, ...]) -> None:
    choice = {"function_choice": "none"} if tools else {}
    request = ChatRequest("m", (ASKED,), tools, {"stop": "x", **choice})
    made, _ = add_tool_prompt(request, QWEN)
    assert made.params["stop"] == ["x", "✿RESULT✿", "✿RETURN✿"]
    assert add_tool_prompt(replace(request, params=choice), NOUS)[0].params == {}
    chain = reply_stages(request, QWEN, "chat-1")
    out = Pipe(chain).feed([TextDelta("a ✿RES"), TextDelta("ULT✿: b"), Finish("stop")])
    assert "".join(event.text for event in out if isinstance(event, TextDelta)) == "a "


def test_a_caller_who_looks_for_stop_words_itself_gets_the_text_behind_those_of_the_prompt_too() -> None:
    request = ChatRequest("m", (ASKED,), (), {"skip_stopword_postproc": True})
    assert add_tool_prompt(request, QWEN)[0].params["stop"] == ["✿RESULT✿", "✿RETURN✿"]
    assert not any(isinstance(stage, StopWordStage) for stage in reply_stages(request, QWEN, "chat-1"))
