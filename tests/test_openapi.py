"""The OpenAPI document: as it is committed, as it is served, and true."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.routing import Route

from tests.in_process_gateway import ModelServer, Running

COMMITTED = Path(__file__).parent.parent / "openapi/openapi.json"
MESSAGES = [{"role": "user", "content": [{"text": "x"}, {"image": "https://example.com/a.png", "audio": None}]}]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running(server=ModelServer()) as running:
        yield running


@pytest.fixture(scope="module")
def document(gateway: Running) -> Any:
    return gateway.get("/openapi.json").json


def check(document: Any, name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def found(value: Any, key: str) -> Iterator[Any]:
    """Everything that stands under the key, at any depth."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if name == key:
            yield item
        if isinstance(item, dict | list):
            yield from found(item, key)


def test_the_committed_document_is_what_the_application_says_of_itself(document: Any) -> None:
    assert json.loads(COMMITTED.read_text()) == document, "openapi/openapi.json is stale: run make openapi"


def test_everything_that_is_served_is_described(gateway: Running, document: Any) -> None:
    served = {
        route.path_format for route in gateway.app.routes if isinstance(route, Route) and route.include_in_schema
    } | {
        "/v1/chat",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/chat/{response_id}",
        "/v1/chat/{response_id}/events",
        "/v1/messages",
        "/v1/messages/count_tokens",
    }
    assert set(document["paths"]) == served


def test_every_reference_leads_somewhere(document: Any) -> None:
    for reference in found(document, "$ref"):
        node = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_every_schema_is_a_schema(document: Any) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_example_is_valid_and_works(gateway: Running, document: Any) -> None:
    bodies = [
        operation["requestBody"]
        for path in document["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    ]
    examples = list(found(bodies, "example"))
    assert examples
    for example in examples:
        check(document, "ChatRequest", example)
        assert gateway.post("/v1/chat", example).status == 200


@pytest.mark.parametrize("fields", [{}, {"functions": [{"name": "f"}]}, {"generate_cfg": {"temperature": 0}}])
def test_what_is_served_is_valid(gateway: Running, document: Any, fields: dict[str, Any]) -> None:
    request = {"model": "m", "messages": MESSAGES, "stream": False, **fields}
    check(document, "ChatRequest", request)
    answer = gateway.post("/v1/chat", request)
    assert answer.status == 200, answer.body
    check(document, "ChatReply", answer.json)


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": []},
        {"messages": [3]},
        {"messages": [{"role": "user", "content": 3}]},
        {"messages": MESSAGES, "unknown": 1},
        {"messages": MESSAGES, "generate_cfg": {"temperature": -1}},
        {"messages": MESSAGES, "stream": "yes"},
    ],
)
def test_what_the_document_forbids_is_refused_as_it_says(gateway: Running, document: Any, request_: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(document, "ChatRequest", request_)
    answer = gateway.post("/v1/chat", request_)
    assert answer.status == 422
    check(document, "Error", answer.json)
