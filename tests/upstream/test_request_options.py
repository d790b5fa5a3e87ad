"""What the writers of options share."""

from typing import Any

from app.chat.messages import ChatRequest, Message, Text, Tool
from app.profiles import Profile
from app.upstream.request_options import OptionsWriter, find_chosen_function

from tests.each_case import each_case


@each_case(
    ("choice", "function"),
    [
        ("auto", None),
        ("none", None),
        ("required", None),
        ("f", "f"),
        ({"type": "function", "function": {"name": "auto"}}, "auto"),
        ({"type": "function"}, ""),
    ],
)
def test_a_function_may_have_the_name_of_a_choice(choice: Any, function: str | None) -> None:
    assert find_chosen_function(choice) == function


def make_writer(*names: str, **params: Any) -> OptionsWriter:
    tools = tuple(Tool(name, {"name": name}) for name in names)
    request = ChatRequest("m", (Message("user", (Text("q"),)),), tools, params=params)
    return OptionsWriter(request, Profile(tool_choice_none=False), lambda tool: {"name": tool.name})


def test_functions_are_left_out_where_there_are_none_and_where_none_may_be_called() -> None:
    assert make_writer("f", tool_choice="auto")._read_choice() == ("tool_choice", "auto")
    assert make_writer("f", tool_choice="none")._read_choice() is None
    writer = make_writer(function_choice="required")
    assert writer._read_choice() is None
    [violation] = writer.violations
    assert violation.path == "generate_cfg.function_choice"


def test_a_function_that_is_not_offered_is_a_violation_that_names_the_others() -> None:
    writer = make_writer("g", "f")
    assert writer._is_offered("tool_choice", "f") and not writer._is_offered("tool_choice", "h")
    assert "one of the functions (f, g), not 'h'" in writer.violations[0].message
    assert writer._write_only("f") == [{"name": "f"}]


def test_fields_of_other_servers_are_not_sent() -> None:
    writer = make_writer(extra_body={"mirostat": 1, "store": False, "own": 1})
    writer._add_extra_body()
    assert writer.body == {"own": 1}
    [warning] = writer.warnings
    assert warning == "generate_cfg.extra_body.mirostat was not sent: this model's server has no such parameter"
