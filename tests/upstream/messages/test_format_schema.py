"""The schema of a reply as Anthropic takes it."""

from typing import Any

from app.chat.messages import ChatRequest, Message, Text
from app.profiles import find_profile
from app.upstream.messages.format_schema import write_format_schema
from app.upstream.messages.request import build

from tests.each_case import each_case
from tests.upstream.own_bodies import send

Json = dict[str, Any]
ANY: Json = {"type": "string"}
SCORE: Json = {"type": "integer", "minimum": 1, "maximum": 10, "description": "How good"}
SENT_SCORE: Json = {"type": "integer", "description": "How good (minimum: 1, maximum: 10)"}
SCHEMA: Json = {"type": "object", "properties": {"score": SCORE}, "required": ["score"]}
SENT: Json = {
    "type": "object",
    "properties": {"score": SENT_SCORE},
    "required": ["score"],
    "additionalProperties": False,
}


@each_case(
    ("given", "sent", "lost"),
    [
        (SCHEMA, SENT, {"minimum", "maximum"}),
        ({"type": "string", "maxLength": 5}, {"type": "string", "description": "(maxLength: 5)"}, {"maxLength"}),
        ({"type": "string", "format": "email"}, {"type": "string", "format": "email"}, set()),
        ({"type": "string", "format": "iri"}, {"type": "string", "description": "(format: iri)"}, {"format"}),
        ({"type": "array", "items": SCORE, "minItems": 1}, {"type": "array", "items": SENT_SCORE, "minItems": 1}, None),
        (
            {"type": "array", "items": ANY, "minItems": 2},
            {"type": "array", "items": ANY, "description": "(minItems: 2)"},
            {"minItems"},
        ),
        ({"oneOf": [ANY, SCORE]}, {"anyOf": [ANY, SENT_SCORE]}, None),
        (
            {"$defs": {"A": SCORE}, "properties": {"a": {"$ref": "#/$defs/A"}, "maximum": ANY}},
            {
                "$defs": {"A": SENT_SCORE},
                "properties": {"a": {"$ref": "#/$defs/A"}, "maximum": ANY},
                "additionalProperties": False,
            },
            None,
        ),
        (
            {"type": "object", "additionalProperties": ANY},
            {
                "type": "object",
                "additionalProperties": False,
                "description": "(additionalProperties: {'type': 'string'})",
            },
            {"additionalProperties"},
        ),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}, set()),
        ({"$schema": "x", "type": "string", "examples": ["a"]}, ANY, set()),
        ({"enum": [1, "maximum"], "const": 1}, {"enum": [1, "maximum"], "const": 1}, set()),
        (True, True, set()),
    ],
)
def test_a_schema_has_only_keywords_that_are_taken(given: Any, sent: Any, lost: Any) -> None:
    found: set[str] = set()
    assert write_format_schema(given, found) == sent
    assert lost is None or found == lost


def test_a_deep_schema_ends_the_writing() -> None:
    schema: Json = {"type": "integer", "maximum": 1}
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    assert write_format_schema(schema, set())["type"] == "array"


def test_the_schema_of_a_request_is_written_so_for_anthropic_alone() -> None:
    params = {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}}}
    request = ChatRequest("m", (Message("user", (Text("Hi"),)),), params=params)
    body, warnings = build(request, "m", find_profile("anthropic", "messages"))
    assert body["output_config"]["format"]["schema"] == SENT
    assert len(warnings) == 1 and warnings[0].startswith("maximum, minimum of ")
    body, warnings = build(request, "m", find_profile("anthropic_compatible", "messages"))
    assert (body["output_config"]["format"]["schema"], warnings) == (SCHEMA, [])


def test_the_schema_of_a_client_of_the_same_api_is_written_so_too() -> None:
    config = {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}
    body: Json = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    sent, warnings = send({**body, "output_config": config})
    assert sent["output_config"] == {**config, "format": {"type": "json_schema", "schema": SENT}} and warnings
    plain = {"format": {"type": "json_schema", "schema": SENT}}
    assert send({**body, "output_config": plain}) == ({**body, "model": "up", "output_config": plain}, [])
