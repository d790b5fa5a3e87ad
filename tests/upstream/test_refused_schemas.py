"""Bodies whose schemas are sent once more in another form, because the server has refused them."""

from functools import partial
from typing import Any

import msgspec
from app.chat.events import Fault
from app.upstream.api import find_api, repair_refused

from tests.each_case import each_case
from tests.linear_time import linear

Json = dict[str, Any]
APIS = ("chat_completions", "responses", "messages")
NO_ITEMS = "Invalid schema for function 'f': In context=('properties', 'a'), array schema missing items."
LOST = "Invalid schema for function 'f': In context=(), reference to component '#/components/x' which was not found."
GOOGLE = "Invalid JSON payload received. Unknown name \"{}\" at 'tools[0].function_declarations[0].parameters': ..."


def offer(api: str, schema: Any) -> Json:
    """Return a body with a function, and a format of the reply, that have this schema."""
    if api == "chat_completions":
        tools: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
        wants: Json = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    elif api == "responses":
        tools = [{"type": "function", "name": "f", "parameters": schema}]
        wants = {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}}
    else:
        tools = [{"name": "f", "input_schema": schema}]
        wants = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    return {"model": "m", "messages": [], "tools": [*tools, {}, "odd"], **wants}


def repair(body: Json, message: str, api: Any) -> Json | None:
    repaired = repair_refused(find_api(api), msgspec.json.encode(body), Fault("invalid_request", message, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)


def hold(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


@each_case(
    "message",
    [
        NO_ITEMS,
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[a].items: missing field.",
        "While executing If at line 12, column 13 in source:\n {%- if param_spec['items'] -%}\nError: Function is ...",
        "tool parameters array type must have items",
    ],
)
def test_each_array_has_items_where_a_server_demands_them(message: str) -> None:
    bare = {"type": "array", "description": "d"}
    tuple_ = {"type": "array", "prefixItems": [{}]}
    given = hold(a=bare, b={"anyOf": [{"type": ["array", "null"]}, tuple_]}, c={"type": "array", "items": bare})
    full = {**bare, "items": {}}
    sent = hold(
        a=full, b={"anyOf": [{"type": ["array", "null"], "items": {}}, tuple_]}, c={"type": "array", "items": full}
    )
    for api in APIS:
        assert repair(offer(api, given), message, api) == offer(api, sent)


@each_case(
    "message", [LOST, "reference to undefined schema at properties.a.anyOf.1", "can't resolve reference #/x from id #"]
)
def test_a_reference_that_leads_nowhere_is_left_out(message: str) -> None:
    known = {"$ref": "#/$defs/K"}
    given = {**hold(a={"$ref": "#/components/x", "description": "d"}, k=known), "$defs": {"K": {"type": "string"}}}
    sent = {**hold(a={"description": "d"}, k=known), "$defs": {"K": {"type": "string"}}}
    for api in APIS:
        assert repair(offer(api, given), message, api) == offer(api, sent)
        assert repair(offer(api, sent), message, api) is None


def test_a_reference_to_another_place_than_the_server_takes_is_resolved() -> None:
    # CommandCodeAI/command-code#594
    message = (
        "not a valid moonshot flavored json schema, details: <At path 'a.$ref': references must start with #/$defs/>"
    )
    known, text = {"$ref": "#/$defs/K"}, {"type": "string"}
    given = {**hold(a={"$ref": "#/properties/b", "description": "d"}, b=text, k=known), "$defs": {"K": text}}
    sent = {**hold(a={**text, "description": "d"}, b=text, k=known), "$defs": {"K": text}}
    endless, ended = hold(a={"$ref": "#"}), hold(a={})
    for api in APIS:
        assert repair(offer(api, given), message, api) == offer(api, sent)
        assert repair(offer(api, endless), message, api) == offer(api, ended)


@each_case(
    "message",
    [
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        "Invalid schema for function 'f': schema must not have 'oneOf'/'anyOf' at the top level.",
    ],
)
def test_alternatives_at_the_top_of_parameters_become_one_object(message: str) -> None:
    # makenotion/notion-mcp-server#341
    choice = {"type": "object", "anyOf": [hold(a={}), hold(b={})]}
    for api in APIS:
        sent, given = offer(api, hold(a={}, b={})), offer(api, choice)
        assert repair(given, message, api) == {**given, "tools": sent["tools"]}, "a reply's format stays as it is"
        assert repair(sent, message, api) is None
    assert repair({"model": "m", "messages": []}, message, "messages") is None


@each_case(
    ("given", "sent"),
    [
        (hold(a={"type": ["string", "null"]}), hold(a={"type": "string", "nullable": True})),
        (hold(a={"enum": ["x"]}), hold(a={"type": "string", "enum": ["x"]})),
        (hold(a={"type": "integer", "enum": [0, 1]}), hold(a={"type": "integer"})),
        (hold(a={"const": "x"}), hold(a={"type": "string", "enum": ["x"]})),
        (hold(a={"type": "array"}), hold(a={"type": "array", "items": {"type": "string"}})),
        ({**hold(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "number"}}}, hold(a={"type": "number"})),
        ({**hold(), "additionalProperties": False}, hold()),
    ],
)
def test_schemas_have_the_form_of_openapi_where_google_refuses_others(given: Json, sent: Json) -> None:
    for api in APIS:
        assert repair(offer(api, given), GOOGLE.format("x"), api) == offer(api, sent)
        assert repair(offer(api, sent), GOOGLE.format("x"), api) is None
    message = "functionDeclaration `parameters.a` schema didn't specify the schema type field."
    assert repair(offer("chat_completions", given), message, "chat_completions") == offer("chat_completions", sent)


@each_case(
    "message",
    [
        "Unsupported JSON schema fields: {'minItems'}",
        "schema keyword 'maximum' is not supported",
        "Failed to initialize samplers: failed to parse grammar",
    ],
)
def test_limits_of_values_become_words_where_a_server_refuses_them(message: str) -> None:
    listed = {"type": "array", "minItems": 2, "description": "d", "items": {"type": "integer", "maximum": 9}}
    words = {"type": "array", "description": "d (minItems: 2)"}
    given = hold(a=listed, format={"type": "string"})
    sent = hold(a={**words, "items": {"type": "integer", "description": "(maximum: 9)"}}, format={"type": "string"})
    for api in APIS:
        assert repair(offer(api, given), message, api) == offer(api, sent)
        assert repair(offer(api, sent), message, api) is None


@each_case(
    "message",
    [
        "Invalid schema for function 'f': In context=(), 'required' is required to be supplied and to be an array.",
        "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be supplied and false.",
    ],
)
def test_functions_are_not_strict_where_their_schemas_are_refused_for_that(message: str) -> None:
    schema = hold(a={})
    for api, name in (("responses", "parameters"), ("chat_completions", "parameters"), ("messages", "input_schema")):
        body = offer(api, schema)
        given, *others = body["tools"]
        relaxed: Json = {"name": "f", name: schema, "strict": False}
        if api == "chat_completions":
            relaxed = {"function": relaxed}
        sent = {**body, "tools": [{**given, **relaxed}, *others]}
        assert repair(body, message, api) == sent
        assert repair(sent, message, api) is None
    assert repair({"model": "m", "messages": []}, message, "responses") is None


def test_each_object_says_what_it_demands_where_a_server_wants_that() -> None:
    message = "Invalid schema for function 'f': null is not of type \"array\""
    inner, demanding = hold(b={}), {**hold(c={}), "required": ["c"]}
    sent = {**hold(a={**inner, "required": []}, d=demanding, required={"type": "string"}), "required": []}
    for api in APIS:
        assert repair(offer(api, hold(a=inner, d=demanding, required={"type": "string"})), message, api) == offer(
            api, sent
        )
        assert repair(offer(api, sent), message, api) is None


def test_another_refusal_changes_no_schema() -> None:
    body = offer("chat_completions", hold(a={"type": "array"}))
    for message in ("Invalid schema for function 'f': ...", "tools[0].function_declarations[0].name: invalid", "items"):
        assert repair(body, message, "chat_completions") is None
    assert repair({"model": "m", "messages": [], "tools": 5}, NO_ITEMS, "chat_completions") is None


def test_a_long_refusal_is_read_in_linear_time() -> None:
    body = offer("chat_completions", hold(a={"type": "string"}))

    def refuse(word: str, size: int) -> Json | None:
        return repair(body, word * size, "chat_completions")

    for word in (
        "function_declarations ",
        "array schema ",
        "unsupported json schema ",
        "schema field ",
        "generation_config.respons",
        "schema for function ",
        "null is not of type ",
        "required ",
    ):
        assert linear(partial(refuse, word), 500)
