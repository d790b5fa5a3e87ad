"""Fields that a server does not know, whatever they are: it names them in its refusal, and is asked without them."""

import json
from typing import Any

import httpx
import msgspec
from app.chat.events import Fault
from app.upstream.api import ApiName, find_api, repair_refused
from app.upstream.unknown_fields import find_unknown_fields

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running
from tests.linear_time import linear

Json = dict[str, Any]
PLAIN: Json = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}


def repair(body: Json, message: str, api: ApiName = "chat_completions") -> Json | None:
    repaired = repair_refused(find_api(api), msgspec.json.encode(body), Fault("invalid_request", message, False, 400))
    return None if repaired is None else msgspec.json.decode(repaired.data)


@each_case(
    "message",
    [
        "whim: Extra inputs are not permitted",
        "body.whim: Extra inputs are not permitted",
        "[{'type': 'extra_forbidden', 'loc': ('body', 'whim'), 'msg': 'Extra inputs are not permitted', 'input': 1}]",
        '{"detail":[{"type":"extra_forbidden","loc":["body","whim"],"msg":"Extra inputs are not permitted"}]}',
        "Unrecognized request argument supplied: whim",
        "Unrecognized request arguments supplied: whim, fancy",
        "Unknown parameter: 'whim'.",
        "Unsupported parameter: whim",
        'Invalid JSON payload received. Unknown name "whim": Cannot find field.',
        "Failed to deserialize the JSON body: unknown field `whim`, expected one of `model`, `messages`",
        'json: unknown field "whim"',
        "Additional properties are not allowed ('whim' was unexpected)",
        "property 'whim' is unsupported",
        "The parameter 'whim' is not supported by this model",
        "Argument not supported: whim",
        "Argument not supported on this model: whim",
        "Model grok does not support parameter whim.",
        "Validation: Unsupported parameter(s): `whim`, `fancy`",
        "Unsupported parameter(s): fancy, whim",
    ],
)
def test_a_field_of_any_name_is_left_out(message: str) -> None:
    assert repair({**PLAIN, "whim": {"a": 1}}, message) == PLAIN
    assert repair(PLAIN, message) is None


def test_a_search_that_may_not_read_live_pages_is_never_sent_as_one_that_may() -> None:
    """NOirBRight/CodexHub#517: xAI does not know the field, which Codex sends with each request."""
    message = "Argument not supported: external_web_access"
    body: Json = {"model": "m", "input": "Hi", "tools": [{"type": "web_search", "external_web_access": True}]}
    assert repair(body, message, "responses") == {**body, "tools": [{"type": "web_search"}]}
    body["tools"][0]["external_web_access"] = False
    assert repair(body, message, "responses") is None


@each_case(
    "message",
    [
        "messages.0.content.0.whim: Extra inputs are not permitted",
        "messages.0.content.0.text.whim: Extra inputs are not permitted",
        "'messages.0' : property 'messages.0.whim' is unsupported",
        "Unknown parameter: 'input[0].content[0].whim'.",
        """{"type":"extra_forbidden","loc":["body","messages",0,"user","content",0,"whim"],"msg":"Extra inputs"}""",
        "Additional properties are not allowed ('whim' was unexpected) - 'messages.0.content.0'",
    ],
)
def test_every_entry_loses_a_field_that_the_server_names_in_one(message: str) -> None:
    part = {"type": "text", "text": "Hi"}
    user: Json = {"role": "user", "content": [part]}
    arguments = {"whim": "the client's own"}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    function = {"name": "f", "parameters": {"type": "object", "properties": {"whim": {"type": "string"}}}}
    tools = [{"type": "function", "function": function}]
    turn: Json = {"role": "assistant", "content": None, "tool_calls": [call]}
    left = {"model": "m", "messages": [user, turn, user], "tools": tools}
    given = {
        **left,
        "messages": [{"role": "user", "content": [{**part, "whim": 1}]}, {**turn, "whim": {}}, {**user, "whim": None}],
    }
    assert repair(given, message) == left
    assert repair(left, message) is None


@each_case(
    ("spelled", "given", "left"),
    [
        ("someWhim", {"some_whim": 1}, {}),
        ("someWhim", {"some": {"whim": 1, "other": 2}}, {"some": {"other": 2}}),
        ("someWhim", {"some": {"whim": 1}}, {}),
        ("maxTokens", {"max_tokens": 5}, None),
        ("metadataWhim", {"metadata": {"whim": 1}}, None),
    ],
)
def test_a_field_may_have_another_spelling_or_be_in_an_object(spelled: str, given: Json, left: Json | None) -> None:
    sent = repair({**PLAIN, **given}, f"Model grok does not support parameter {spelled}.")
    assert sent == (None if left is None else PLAIN | left)


def test_what_is_asked_for_is_left_out_where_it_is_null() -> None:
    # nomtek/mistralai_client_dart#44
    extra = (
        '{{"type":"extra_forbidden","loc":["body","messages",0,"user","{}"],"msg":"Extra inputs are not permitted"}}'
    )
    message = f"[{extra.format('name')},{extra.format('tool_calls')}]"
    tools = [{"type": "function", "function": {"name": "f"}}]
    user = {"role": "user", "content": "Hi"}
    left = {"model": "m", "messages": [user], "tools": tools}
    assert repair({**left, "messages": [{**user, "name": None, "tool_calls": None}]}, message) == left
    assert repair({**left, "messages": [{**user, "name": "n", "tool_calls": None}]}, message) is None


@each_case(
    ("api", "body", "field", "message"),
    [
        # anthropics/claude-code#21612, router-for-me/CLIProxyAPI#512
        ("messages", {"context_management": {"edits": []}}, "", "context_management: Extra inputs are not permitted"),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]}]},
            "cache_control",
            "messages.0.content.0.text.cache_control: Extra inputs are not permitted",
        ),
        # CherryHQ/cherry-studio#20284, immersive-translate/immersive-translate#3016, ServiceStack/llms#17
        ("responses", {"reasoning": {"effort": "low", "summary": "auto"}}, "summary", "json: unknown field summary"),
        (
            "chat_completions",
            {"thinking": {"type": "disabled"}},
            "",
            "Unrecognized request argument supplied: thinking",
        ),
        ("chat_completions", {"chat_template_kwargs": {}}, "", "property 'chat_template_kwargs' is unsupported"),
        (
            "chat_completions",
            {"messages": [{"role": "user", "content": "Hi", "timestamp": 1}]},
            "timestamp",
            "'messages.0' : for 'role:user' the following must be satisfied"
            "[('messages.0' : property 'timestamp' is unsupported)]",
        ),
    ],
)
def test_reported_refusals_end_with_a_body_without_the_field(
    api: ApiName, body: Json, field: str, message: str
) -> None:
    given = {"model": "m", **body}
    repaired = repair(given, message, api)
    assert repaired is not None
    assert f'"{field or next(iter(body))}"' not in json.dumps(repaired)
    assert set(given) - set(repaired) == (set() if field else set(body))


def test_the_responses_api_of_a_server_may_know_no_limit_of_output_tokens() -> None:
    body: Json = {"model": "m", "input": "Hi"}
    assert repair({**body, "max_output_tokens": 9}, "Unsupported parameter: max_output_tokens", "responses") == body


def test_what_the_client_calls_its_own_keeps_its_names() -> None:
    own = {"metadata": {"whim": "mine"}}
    message = "messages.0.whim: Extra inputs are not permitted"
    assert repair({**PLAIN, **own, "tools": [{"name": "f", "whim": 1}]}, message, "messages") == {
        **PLAIN,
        **own,
        "tools": [{"name": "f"}],
    }
    assert repair({**PLAIN, **own}, message, "messages") is None


def test_a_field_of_functions_stays_elsewhere() -> None:
    wants = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "whim": True}}}
    body: Json = {**PLAIN, **wants, "tools": [{"type": "function", "function": {"name": "f", "whim": True}}]}
    left = {**body, "tools": [{"type": "function", "function": {"name": "f"}}]}
    assert repair(body, "tools.0.function.whim: Extra inputs are not permitted") == left


def test_a_keyword_of_schemas_is_left_out_but_no_property_of_its_name() -> None:
    schema: Json = {"type": "object", "properties": {"whim": {"type": "string"}}}
    body: Json = {"model": "m", "tools": [{"name": "f", "input_schema": {**schema, "whim": 1}}]}
    message = "tools.0.custom.input_schema.whim: Extra inputs are not permitted"
    assert repair(body, message, "messages") == {"model": "m", "tools": [{"name": "f", "input_schema": schema}]}


@each_case(
    "message",
    [
        "tools: Extra inputs are not permitted",
        "messages.0.content.0.text: Extra inputs are not permitted",
        "messages.0.content.0.thinking: Extra inputs are not permitted",
        "Unrecognized request arguments supplied: whim, tools",
        "Unknown parameter: 'structured_outputs'.",
        "Unsupported value: 'whim' does not exist",
        "the model 'whim' is not supported",
        "unexpected error",
    ],
)
def test_what_is_asked_for_is_not_left_out(message: str) -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Why?", "signature": "s"}]}
    messages = [*PLAIN["messages"], thought, *PLAIN["messages"]]
    body = {"model": "m", "messages": messages, "tools": [], "structured_outputs": {}, "whim": 1}
    assert repair(body, message) is None


def test_a_server_is_asked_without_them_and_from_then_on_at_once() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        unknown = next((name for name in ("whim", "fancy") if name in json.loads(request.content)), None)
        if unknown is None:
            return ModelServer.short_reply()
        words = f"{unknown}: Extra inputs are not permitted"
        return httpx.Response(400, json={"error": {"message": words, "type": "invalid_request_error"}})

    server = ModelServer(answer)
    with Running(None, server) as gateway:
        body = {**PLAIN, "whim": 1, "fancy": 2}
        answered = gateway.post("/v1/chat/completions", body)
        assert (answered.status, len(server.requests)) == (200, 3)
        assert "does not know whim" in str(answered.json["warnings"])
        answered = gateway.post("/v1/chat/completions", {**body, "seed": 1})
        assert (answered.status, len(server.requests)) == (200, 4)
        assert "does not know fancy" in str(answered.json["warnings"])


@each_case("part", ["unknown field ", "a: extra inputs are ", "'a' was ", "extra_forbidden loc ", "property 'a' "])
def test_hostile_messages_are_read_in_linear_time(part: str) -> None:
    assert linear(lambda size: find_unknown_fields(part * size), 1000)
