"""What a reply must obey, whether it does, and how the model is asked again."""

from typing import Any

from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import ChatRequest, Message, Text, Tool
from app.steps.json_schema import Stop
from app.steps.output_check import ANY_JSON, OutputCheck
from app.steps.output_demands import CallDemand, JsonDemand, find_demand

from tests.each_case import each_case

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CALL = CallDemand("f", SCHEMA)
JSON = JsonDemand(SCHEMA, "the schema of response_format")
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def request(*functions: str, **params: Any) -> ChatRequest:
    tools = tuple(Tool(name, {"name": name, "parameters": SCHEMA}) for name in functions)
    return ChatRequest("m", (Message("user", (Text("x"),)),), tools=tools, params=params)


@each_case(
    ("given", "demanded"),
    [
        (request(), None),
        (request("f", "g"), None),
        (request("f", "g", function_choice="auto"), None),
        (request("f", "g", function_choice="none"), None),
        (request("f", "g", function_choice="g"), "g"),
        (request("f", "g", tool_choice={"type": "function", "function": {"name": "f"}}), "f"),
        (request("f", "g", tool_choice="required"), None),
        (request("f", tool_choice="required"), "f"),
        (request("f", function_choice="unknown"), None),
        (request("f", function_choice="f", response_format=FORMAT), "f"),
        (request("f", response_format=FORMAT), "the schema of generate_cfg.response_format"),
        (request(response_format={"type": "json_object"}), "generate_cfg.response_format"),
    ],
)
def test_what_a_request_demands(given: ChatRequest, demanded: str | None) -> None:
    demand = find_demand(given)
    found = demand.name if isinstance(demand, CallDemand) else None if demand is None else demand.words
    assert found == demanded


def test_a_function_without_parameters_takes_an_object() -> None:
    tools = (Tool("f", {"name": "f"}),)
    given = ChatRequest("m", (Message("user", (Text("x"),)),), tools=tools, params={"function_choice": "f"})
    demand = find_demand(given)
    assert isinstance(demand, CallDemand)
    assert demand.check([ToolCallDelta(0, "", "c", "f")], 1000, Stop()).outcome == "valid"


def calls(*arguments: str, name: str = "f") -> list[Event]:
    """One call, in these pieces."""
    return [ToolCallDelta(0, piece, "" if at else "c", "" if at else name) for at, piece in enumerate(arguments)]


@each_case(
    ("events", "outcome"),
    [
        (calls('{"a"', ": 1}"), "valid"),
        ([TextDelta("I call."), *calls('{"a": 1}')], "valid"),
        (calls('{"a": 1,}'), "mended"),
        (calls('{"a": "x"}'), "invalid"),
        (calls(""), "invalid"),
        (calls('{"a": 1}', name="g"), "invalid"),
        ([TextDelta('{"a": 1}')], "invalid"),
        ([], "invalid"),
    ],
)
def test_a_demanded_call_has_valid_arguments(events: list[Event], outcome: str) -> None:
    assert CALL.check(events, 1000, Stop()).outcome == outcome


def test_the_arguments_of_the_demanded_call_are_mended() -> None:
    other = ToolCallDelta(1, "{}", "d", "g")
    events = [ReasoningDelta("x"), *calls('{"a"', ": 1,}"), other]
    check = CALL.check(events, 1000, Stop())
    assert CALL.repair(events, check) == [ReasoningDelta("x"), ToolCallDelta(0, '{"a":1}', "c", "f"), other]


@each_case(
    ("demand", "event", "exempt"),
    [
        (CALL, TextDelta("no", refusal=True), True),
        (CALL, TextDelta("x"), False),
        (CALL, ToolCallDelta(0, "{}", "c", "g"), False),
        (JSON, TextDelta("no", refusal=True), True),
        (JSON, TextDelta("x"), False),
        (JSON, ToolCallDelta(0, "{}", "c", "g"), True),
    ],
)
def test_what_need_not_obey(demand: CallDemand | JsonDemand, event: Event, exempt: bool) -> None:
    assert demand.exempts(event) is exempt


@each_case(
    ("demand", "roles", "words"),
    [
        (JSON, ["user", "assistant", "user"], ("$: bad", '"properties"')),
        (JsonDemand(ANY_JSON, "response_format"), ["user", "assistant", "user"], ("$: bad", "is not JSON")),
        (CALL, ["user", "user"], ("$: bad", "{text}", "The function f must be called")),
    ],
)
def test_the_model_is_asked_again(demand: CallDemand | JsonDemand, roles: list[str], words: tuple[str, ...]) -> None:
    asked = demand.ask_again(request(), OutputCheck("invalid", "{text}", ("$: bad",)))
    assert [message.role for message in asked.messages] == roles
    last = asked.messages[-1].parts[0]
    assert isinstance(last, Text) and [word for word in words if word not in last.text] == []
