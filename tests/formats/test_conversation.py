"""The messages, functions and parameters of a body that is valid itself."""

import math
from typing import Any

import pytest
from app.chat.messages import CHAT_PATHS, Text
from app.errors import InvalidInput
from app.formats import FORMATS
from app.formats.body import ParsedRequest
from app.formats.chat_body import ChatRequestBody
from app.formats.conversation import find_list_violations, parse_conversation
from app.formats.request_limits import RequestLimits
from pydantic import ValidationError

from tests.each_case import each_case

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=3, max_content_items=20, max_functions=2, max_nesting=9)
OPENAI = FORMATS["openai"]
USER: Json = {"role": "user", "content": "Hi"}
FUNCTION: Json = {"name": "f"}
CALL: Json = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def parse(**fields: Any) -> ParsedRequest:
    body = ChatRequestBody.model_validate({"model": "m", "messages": [USER], **fields})
    return parse_conversation(body, OPENAI, OPENAI, CHAT_PATHS, LIMITS)


def refusals(**fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        parse(**fields)
    return [(one.path, one.message) for one in refused.value.violations]


def test_the_request_has_the_messages_functions_and_parameters() -> None:
    parsed = parse(functions=[FUNCTION], generate_cfg={"top_p": 0.5, "function_choice": "auto"}, stream=False)
    request = parsed.request
    assert (request.model, request.stream) == ("m", False)
    assert [message.parts for message in request.messages] == [(Text("Hi"),)]
    assert [tool.name for tool in request.tools] == ["f"]
    assert request.params == {"top_p": 0.5, "function_choice": "auto"}
    assert (parsed.settings.mode, parsed.warnings) == ("whole", ())


def test_tools_is_another_name_of_functions_and_a_body_has_one_of_them() -> None:
    tool = {"type": "function", "function": FUNCTION}
    assert [one.name for one in parse(tools=[tool]).request.tools] == ["f"]
    with pytest.raises(ValidationError, match="two names of the same list"):
        parse(functions=[FUNCTION], tools=[tool])


@each_case(("value", "seconds"), [(True, 0.0), (False, math.inf), (0, 0.0), (2.5, 2.5)])
def test_the_call_of_a_disconnected_client_goes_on_as_the_request_says(value: Any, seconds: float) -> None:
    assert parse(cancel_on_disconnect=value).settings.unread_seconds == seconds


def test_all_violations_are_reported_together() -> None:
    found = refusals(
        messages=[{"role": "user"}],
        functions=[{"name": ""}],
        generate_cfg={"extra_body": {"a": math.inf}},
    )
    assert [path for path, _ in found] == [
        "generate_cfg.extra_body.a",
        "messages[0].content",
        "functions[0].name",
    ]


@each_case(
    ("fields", "path"),
    [
        ({"messages": [USER] * 4}, "messages"),
        ({"functions": [{"name": f"f{at}"} for at in range(3)]}, "functions"),
    ],
)
def test_a_list_that_is_too_long_is_refused_before_it_is_read(fields: Json, path: str) -> None:
    assert [place for place, _ in refusals(**fields)] == [path]


def test_nesting_beyond_the_limit_is_refused() -> None:
    deep: Any = {}
    for _ in range(12):
        deep = {"a": deep}
    [(path, message)] = refusals(functions=[{"name": "f", "parameters": deep}])
    assert path.startswith("functions[0]")
    assert "nested" in message


def test_a_choice_that_allows_some_functions_leaves_the_others_out() -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "name": "g"}]}}
    parsed = parse(functions=[FUNCTION, {"name": "g"}], generate_cfg={"tool_choice": choice})
    assert [tool.name for tool in parsed.request.tools] == ["g"]
    assert parsed.request.params["tool_choice"] == "auto"
    [(path, message)] = refusals(functions=[FUNCTION], generate_cfg={"tool_choice": choice})
    assert path.startswith("generate_cfg.tool_choice")
    assert message == "names no function of this request: 'g'"


def test_a_call_without_a_result_is_no_violation() -> None:
    messages = [USER, {"role": "assistant", "tool_calls": [CALL]}, USER]
    bad: Json = {"generate_cfg": {"extra_body": {"a": math.inf}}}
    assert len(refusals(messages=messages, functions=[FUNCTION], **bad)) == 1


def test_a_misspelt_key_of_extra_body_gives_a_warning_unless_the_request_has_the_parameter() -> None:
    parsed = parse(generate_cfg={"extra_body": {"temprature": 1}})
    assert parsed.warnings == (
        "`generate_cfg.extra_body.temprature` was passed on as it is; did you mean `temperature`?",
    )
    assert parse(generate_cfg={"temperature": 1, "extra_body": {"temprature": 1}}).warnings == ()


def test_custom_tools_are_named_in_the_options() -> None:
    parsed = parse(tools=[{"type": "custom", "custom": {"name": "c"}}, {"type": "function", "function": FUNCTION}])
    assert parsed.options.custom_tools == ("c",)


def test_the_lists_of_an_invalid_body_are_checked_too() -> None:
    body = {"messages": [{"role": "user"}], "tools": [{"name": ""}], "functions": "odd"}
    assert [one.path for one in find_list_violations(body, OPENAI, LIMITS)] == ["messages[0].content", "tools[0].name"]
    assert find_list_violations({"messages": [USER] * 4}, OPENAI, LIMITS)[0].path == "messages"
    assert find_list_violations({"messages": [{"role": "user"}]}, None, LIMITS) == []
