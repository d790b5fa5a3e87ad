"""The OpenAPI document: as it is committed, as it is served, and true."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from app.api.openapi.components import walk
from app.endpoints.kinds import PATHS
from app.formats import FORMATS
from starlette.routing import Route

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed

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
    check_schema(document, {"$ref": f"#/components/schemas/{name}"}, value)


def check_schema(document: Any, schema: Any, value: Any) -> None:
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(value)


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
    routes = (route for route in gateway.app.routes if isinstance(route, Route))
    served = {route.path_format for route in routes if route.include_in_schema}
    assert set(document["paths"]) == served


def test_every_reference_leads_somewhere(document: Any) -> None:
    for reference in found(document, "$ref"):
        node = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_every_schema_is_a_schema(document: Any) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def resolve(document: Any, schema: Any) -> Any:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def examples(document: Any, schema: Any) -> list[Any]:
    """The examples of a body, or of what one of its events holds."""
    found = resolve(document, schema)
    branches = [*found.get("anyOf", ()), *found.get("oneOf", ())]
    if data := found.get("properties", {}).get("data", {}).get("contentSchema"):
        branches.append(data)
    return [*found.get("examples", ()), *(one for branch in branches for one in examples(document, branch))]


def test_the_document_is_valid_openapi(document: Any) -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(document)


def test_only_components_have_titles_and_each_has_its_name(document: Any) -> None:
    """Generators name classes after titles, and leave out what has the title of another class."""
    schemas = document["components"]["schemas"]
    assert [name for name, schema in schemas.items() if schema["title"] != name] == []
    inner = [schema for top in schemas.values() for schema in list(walk(top))[1:]]
    inner += [
        schema for key in ("schema", "contentSchema") for top in found(document["paths"], key) for schema in walk(top)
    ]
    assert [schema for schema in inner if "title" in schema] == []


def test_no_field_of_a_body_has_a_default_that_a_generator_would_demand(document: Any) -> None:
    for name, top in document["components"]["schemas"].items():
        for schema in walk(top):
            fields = schema.get("properties", {})
            assert [field for field, value in fields.items() if "default" in value] == [], name
            assert set(schema.get("required", ())) <= set(fields), name


def test_a_choice_by_a_field_names_every_branch(document: Any) -> None:
    for name, top in document["components"]["schemas"].items():
        for schema in walk(top):
            if "oneOf" in schema:
                branches = {branch["$ref"] for branch in schema["oneOf"]}
                assert branches == set(schema["discriminator"]["mapping"].values()), name


def test_every_operation_is_described(document: Any) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"] and set(operation["tags"]) <= tags, where
        assert [status for status in operation["responses"] if status[0] == "4"], where
        for status, answer in operation["responses"].items():
            assert answer["description"] and ("content" in answer) == (status != "204"), f"{where} {status}"


def test_every_body_has_examples_and_they_are_valid(document: Any) -> None:
    contents = list(found(document["paths"], "content"))
    for schema in (media["schema"] for content in contents for media in content.values()):
        assert examples(document, schema), schema
    for name, schema in document["components"]["schemas"].items():
        for example in schema.get("examples", ()):
            check(document, name, example)


def test_every_example_of_a_request_works_and_its_reply_is_as_described(gateway: Running, document: Any) -> None:
    with Running({"demo": True, "state": {"url": "memory:"}}) as demo:
        conversation = demo.post("/v1/conversations", {}).json["id"]
        for method, path, operation in operations(document):
            # Those of keys need an administrator: tests/api/test_stored_keys.py. The demo model has no
            # other endpoints.
            is_passing = path in (*PATHS, "/v1/alpha/search") or path.endswith((":embedContent", ":batchEmbedContents"))
            if "requestBody" in operation and not path.startswith("/v1/keys") and not is_passing:
                for example in examples(document, operation["requestBody"]["content"]["application/json"]["schema"]):
                    url = path.replace("{conversation_id}", conversation).replace("{model}", "demo")
                    answer = demo.ask(method.upper(), url, [json.dumps(example).encode()])
                    assert answer.status == 200, (path, example, answer.body)
                    kind = answer.headers["content-type"].partition(";")[0]
                    described = operation["responses"]["200"]["content"][kind]
                    if kind == "application/json":
                        check_schema(document, described["schema"], answer.json)


WHOLE = {
    "qwen": "ChatReply",
    "openai": "ChatCompletion",
    "anthropic": "AnthropicReply",
    "responses": "ResponseObject",
    "autogen": "AutogenReply",
    "agentscope": "AgentScopeReply",
    "agentscope2": "AgentScope2Reply",
    "gemini": "GenerateContentReply",
}
FRAMES = {
    "qwen": "ChatFrame",
    "openai": "ChatCompletionFrame",
    "anthropic": "AnthropicEvent",
    "responses": "ResponseEvent",
    "autogen": "AutogenFrame",
    "agentscope": "AgentScopeFrame",
    "agentscope2": "AgentScope2Event",
    "gemini": "GeminiFrame",
}
ERRORS = {
    "qwen": "ErrorBody",
    "openai": "OpenAIErrorBody",
    "anthropic": "AnthropicErrorBody",
    "responses": "OpenAIErrorBody",
    "autogen": "AutogenErrorBody",
    "agentscope": "AgentScopeErrorBody",
    "agentscope2": "AgentScopeErrorBody",
    "gemini": "GeminiErrorBody",
}
CALLING = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "functions": [{"name": "f"}]}
CUT = b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'


@each_case("format_", FORMATS)
def test_replies_frames_and_errors_of_each_format_are_as_described(document: Any, format_: str) -> None:
    asked = {**CALLING, "reply_format": format_}
    with Running({"demo": True}) as demo:
        check(document, WHOLE[format_], demo.post("/v1/chat", {**asked, "stream": False}).json)
        for frame in frames(demo.post("/v1/chat", asked)):
            check(document, FRAMES[format_], frame)
        check(document, ERRORS[format_], demo.post("/v1/chat", {**asked, "model": "unknown"}).json)
    with Running(server=ModelServer(lambda _: streamed(CUT))) as broken:
        *_, failure = frames(broken.post("/v1/chat", {**asked, "model": "m"}))
        check(document, FRAMES[format_], failure)


def test_the_other_streams_of_the_format_qwen_and_autogen_are_as_described(document: Any) -> None:
    with Running({"demo": True}) as demo:
        for frame in frames(demo.post("/v1/chat", {**CALLING, "stream_mode": "snapshot"})):
            check(document, "ChatFrame", frame)
        model = {**CALLING, "reply_format": "autogen", "autogen_stream": "model"}
        for frame in frames(demo.post("/v1/chat", model)):
            check(document, "AutogenFrame", frame)
        check(document, "AutogenCreateResult", demo.post("/v1/chat", {**model, "stream": False}).json)


def frames(answer: Answer) -> list[Any]:
    """The data of every event but `[DONE]`."""
    lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_frame_of_another_kind_is_no_frame(document: Any) -> None:
    """The checks above can fail."""
    delta = {"type": "message.delta", "seq": 3, "index": 0, "delta": {"content": 7}}
    for name, frame in (("ChatFrame", delta), ("ChatFrame", {**delta, "type": "message"}), ("AnthropicEvent", delta)):
        with pytest.raises(jsonschema.ValidationError):
            check(document, name, frame)


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
    check(document, "ErrorBody", answer.json)
