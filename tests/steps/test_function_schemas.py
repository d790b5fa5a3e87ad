"""Parameters of functions that a server refuses."""

from typing import Any

from app.chat.messages import ChatRequest, Message, Text, Tool
from app.profiles import Profile, find_profile
from app.steps.function_schemas import merge_function_alternatives, type_function_parameters
from app.steps.pipeline import prepare_request

from tests.each_case import each_case
from tests.steps.word_counter import Words

STRICT = Profile(parameter_alternatives=False)
UNION: dict[str, Any] = {"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}
PLAIN = Tool("g", {"name": "g", "parameters": {"type": "object", "properties": {"a": {"anyOf": [{}]}}}})
USER = Message("user", (Text("Hi"),))


def ask(*tools: Tool) -> ChatRequest:
    return ChatRequest("m", (USER,), tools)


def test_a_function_with_alternatives_is_offered_with_the_properties_of_all() -> None:
    tool = Tool("f", {"name": "f", "description": "d", "parameters": UNION})
    prepared, warnings = prepare_request(ask(tool, PLAIN), STRICT, Words(), {})
    merged = {"type": "object", "properties": {"a": {}, "b": {}}}
    assert prepared.tools[0] == Tool("f", {"name": "f", "description": "d", "parameters": merged})
    assert prepared.tools[1] is PLAIN
    assert [warning.endswith(": f") for warning in warnings] == [True]


@each_case("profile", [Profile(), Profile(parameter_alternatives=False, native_tools=False)])
def test_a_server_that_takes_them_and_a_prompt_get_them_as_they_are(profile: Profile) -> None:
    request = ask(Tool("f", {"name": "f", "parameters": UNION}))
    assert merge_function_alternatives(request, profile) == (request, [])


def test_a_request_without_alternatives_stays_the_same() -> None:
    request = ask(PLAIN, Tool("h", {"name": "h"}))
    assert merge_function_alternatives(request, STRICT)[0] is request


@each_case(
    ("kind", "api", "takes"),
    [("openai", "responses", False), ("openai", "chat_completions", False), ("anthropic", "messages", False)]
    + [("anthropic_compatible", "messages", True), ("vllm", "chat_completions", True)],
)
def test_servers_that_refuse_them_are_known(kind: str, api: str, takes: bool) -> None:
    assert find_profile(kind, api).parameter_alternatives is takes


TYPED = Profile(typed_parameters=True)
ANY: list[dict[str, Any]] = [{"type": name} for name in ("string", "number", "boolean", "object", "array", "null")]
SCHEMAS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "string"}, {"type": "string"}),
    ({"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}),
    ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"const": 1}, {"type": "integer", "const": 1}),
    ({"enum": ["a", 1]}, {"enum": ["a", 1], "anyOf": ANY}),
    ({"description": "any"}, {"description": "any", "anyOf": ANY}),
    ({"items": {"enum": [True]}}, {"type": "array", "items": {"type": "boolean", "enum": [True]}}),
    (
        {"type": "string", "anyOf": [{"enum": ["a"]}, {"type": "null"}]},
        {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
    ),
    ({"type": ["string", "array"], "anyOf": [{"type": "string"}, {}]}, {"anyOf": [{"type": "string"}, {"anyOf": ANY}]}),
    (
        {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]},
        {"properties": {"a": {"type": "string"}}, "oneOf": [{"type": "object", "required": ["a"]}]},
    ),
    ({"type": "object", "additionalProperties": {}}, {"type": "object", "additionalProperties": {"anyOf": ANY}}),
    ({"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
]


@each_case(("given", "want"), SCHEMAS)
def test_each_schema_has_a_type_and_alternatives_have_it_themselves(given: Any, want: Any) -> None:
    tool = Tool("f", {"name": "f", "parameters": {"properties": {"x": given}}})
    [typed] = type_function_parameters(ask(tool), TYPED).tools
    parameters = typed.schema["parameters"]
    assert parameters["properties"]["x"] == want
    assert typed is tool or parameters["type"] == "object"
    assert type_function_parameters(ask(tool), Profile()).tools[0] is tool


def test_kimi_gets_types_and_no_alternatives_at_the_top() -> None:
    tool = Tool("f", {"name": "f", "parameters": {"type": "object", "anyOf": [{"properties": {"a": {}}}]}})
    prepared, _ = prepare_request(ask(tool), find_profile("moonshot", "chat_completions"), Words(), {})
    assert prepared.tools[0].schema["parameters"] == {"type": "object", "properties": {"a": {"anyOf": ANY}}}


def test_parameters_that_are_no_object_are_left_out_with_a_warning() -> None:
    request = ask(Tool("f", {"name": "f", "parameters": {"type": "string"}}), PLAIN)
    _, warnings = prepare_request(request, Profile(), Words(), {})
    assert warnings == ["parameters that are no object were not sent, because arguments always are one: f"]
