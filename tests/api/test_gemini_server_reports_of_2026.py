"""What users of other gateways reported in 2026 of Gemini as a model's server, tried here by clients of the other APIs.
Each test names the report."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.upstream.gemini.google_rules import find_broken_rule
from tests.upstream.gemini.replies import REPLY, SETTINGS, call, chunk, write_stream

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
USER: Json = {"role": "user", "content": "Hi"}
OLD: Json = {"tool_schema": "openapi"}


def post(
    path: str, body: Json, answer: Callable[[httpx.Request], httpx.Response], profile: Json | None = None
) -> tuple[Answer, list[Json]]:
    """Return the answer, and what the server was sent."""
    server = ModelServer(answer)
    model = {**SETTINGS["models"]["m"], "profile": profile or {}}
    with Running({**SETTINGS, "models": {"m": model}}, server) as gateway:
        found = gateway.post(path, {"model": "m", **body})
    return found, [json.loads(request.content) for request in server.requests]


def send(messages: list[Json], profile: Json | None = None, path: str = CHAT, **fields: Any) -> Json:
    """Return what the server is sent, which it does not refuse."""
    found, sent = post(path, {"messages": messages, **fields}, lambda _: httpx.Response(200, json=REPLY), profile)
    assert sent, found.body
    assert find_broken_rule(sent[-1]) is None
    return sent[-1]


def write_schema(schema: Json, profile: Json | None = None) -> Json:
    """Return the schema of a function as the server is sent it."""
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    [sent] = send([USER], profile, tools=[tool])["tools"][0]["functionDeclarations"]
    found: Json = sent.get("parameters") or sent.get("parametersJsonSchema")
    return found


def turn(*names: str, **fields: Any) -> Json:
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for at, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def result(at: int, content: Any = "ok") -> Json:
    return {"role": "tool", "tool_call_id": f"c{at}", "content": content}


KNOWN = {
    *("type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"),
    *("required", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf"),
}
OF_TYPE = {
    **dict.fromkeys(("properties", "required"), ("OBJECT",)),
    **dict.fromkeys(("items", "minItems", "maxItems"), ("ARRAY",)),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "enum"), ("STRING",)),
    **dict.fromkeys(("minimum", "maximum"), ("INTEGER", "NUMBER")),
}
"""The types of whose schemas these keywords are, by the refusals ("only allowed for OBJECT type")."""


def find_refused(schema: Json, path: str = "") -> str | None:
    """Return what a server of the older form refuses of a schema, written independently of the code that writes it."""
    if schema.keys() - KNOWN:
        return f"{path}: unknown {schema.keys() - KNOWN}"
    kind = schema.get("type")
    for name, kinds in OF_TYPE.items():
        if name in schema and kind not in kinds:
            return f"{path}.{name}: only allowed for {kinds}"
    if not all(isinstance(one, str) for one in schema.get("enum", ())):
        return f"{path}.enum: no texts"
    if set(schema.get("required", ())) - schema.get("properties", {}).keys():
        return f"{path}.required: property is not defined"
    if kind == "ARRAY" and "items" not in schema:
        return f"{path}.items: missing field"
    inner = {f".{name}": one for name, one in schema.get("properties", {}).items()}
    inner |= {f"[{at}]": one for at, one in enumerate(schema.get("anyOf", ()))}
    inner |= {"[]": schema["items"]} if "items" in schema else {}
    faults = (find_refused(one, f"{path}{name}") for name, one in inner.items())
    return next(filter(None, faults), None)


OBJECT: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


@each_case(
    "schema",
    [
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2},
        {**OBJECT, "additionalProperties": {"type": "array", "items": {**OBJECT, "additionalProperties": False}}},
        {"type": "integer", "enum": [60, 1440], "default": 60},
        {"type": "boolean", "enum": [True]},
        {"enum": ["a", "b"]},
        {"enum": ["a", 1]},
        {**OBJECT, "required": ["a", "b"]},
        {"type": "object", "required": ["b"]},
        {"type": "string", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "array", "properties": {"a": {"type": "string"}}, "items": {"type": "string", "minItems": 1}},
        {"type": "object", "minLength": 1, "pattern": "x", "minimum": 1, "items": {"type": "string"}},
        {"type": ["string", "object"], "properties": {"a": {}}, "minLength": 2, "required": ["a"]},
        {"type": "string", "minimum": 1, "exclusiveMinimum": 3, "maxItems": 2, "enumTitles": ["A"], "prefill": "x"},
        {"$ref": "#/$defs/x", "title": "T", "nullable": True, "$defs": {"x": {"type": "string", "minLength": 1}}},
        {"anyOf": [{"type": "string"}, {**OBJECT, "required": ["z"]}], "minLength": 3, "properties": {"q": {}}},
        {"type": "object", "propertyNames": {"pattern": "^a"}, "patternProperties": {"^a": {"type": "string"}}},
        {"type": "number", "minLength": 3, "pattern": "x", "multipleOf": 2},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": "array", "items": False, "contains": {"type": "string"}},
        {"type": "null"},
        {"not": {"type": "string"}},
    ],
)
def test_an_old_server_refuses_none_of_these_schemas(schema: Json) -> None:
    """diegosouzapw/OmniRoute issue 13464 and pull request 760; felinics/Memoh issue 620; probelabs/probe issue 569;
    anomalyco/opencode issue 11889; BrokkAi/bifrost issue 25; thClaws/thClaws issue 172; NousResearch/hermes-agent pull
    request 15082; decolua/9router pull request 380; openswarm-ai/openswarm issue 31."""
    whole = {"type": "object", "properties": {"x": schema, "y": {"type": "string"}}, "$defs": schema.get("$defs", {})}
    written = write_schema(whole, OLD)
    assert find_refused(written) is None
    assert written["properties"].keys() == {"x", "y"}


@each_case(
    "message",
    [
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.required[0]: property is not defined",
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[x].properties: only allowed "
        "for OBJECT type",
        "Invalid JSON payload received. Unknown name \"prefixItems\" at 'tools[0].function_declarations[0].parameters'",
        "Invalid value at 'tools[0].function_declarations[36].parameters.properties[14].value.enum[0]' (TYPE_STRING)",
        "GenerateContentRequest.tools[0].function_declarations[0].parameters_json_schema: schema is not supported",
        "GenerateContentRequest.generation_config.response_json_schema: must have a type",
        "$ref '#/$defs/x' was set alongside unsupported fields.",
    ],
)
def test_a_refused_schema_is_sent_once_more_in_the_older_form(message: str) -> None:
    """probelabs/probe issue 569, anomalyco/opencode issue 11889, diegosouzapw/OmniRoute issue 13464, BrokkAi/bifrost
    issue 25, su-kaka/gcli2api pull request 374: one schema of a tool, and every request of the agent is refused."""
    refusal = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}

    def answer(request: httpx.Request) -> httpx.Response:
        is_old = b"sonSchema" not in request.content
        return httpx.Response(200, json=REPLY) if is_old else httpx.Response(400, json=refusal)

    tool = {"type": "function", "function": {"name": "f", "parameters": OBJECT}}
    format_ = {"type": "json_schema", "json_schema": {"name": "r", "schema": OBJECT}}
    body = {"messages": [USER], "tools": [tool], "response_format": format_}
    found, sent = post(CHAT, body, answer)
    assert (found.status, len(sent)) == (200, 2)
    assert "parameters" in sent[1]["tools"][0]["functionDeclarations"][0]


@each_case(
    "messages",
    [
        [turn("f"), result(0), USER],
        [{"role": "system", "content": "Be brief."}, turn("f", "g"), result(0), result(1)],
        [{"role": "assistant", "content": "So."}, turn("f"), result(0)],
    ],
)
def test_a_cut_history_begins_with_the_user(messages: list[Json]) -> None:
    """diegosouzapw/OmniRoute pull request 13573; RightNow-AI/openfang pull requests 796 and 1011."""
    assert send(messages)["contents"][0] == {"role": "user", "parts": [{"text": "."}]}


@each_case("empty", ["", [], [{"type": "text", "text": ""}], None])
def test_an_empty_message_leaves_no_empty_part(empty: Any) -> None:
    """router-for-me/CLIProxyAPI issues 1292 and 1293; 54xzh/FLIT pull request 70."""
    contents = send([USER, {"role": "assistant", "content": empty}, USER])["contents"]
    assert contents == [{"role": "user", "parts": [{"text": "Hi"}, {"text": "Hi"}]}]
    spoken = {"content": empty} if empty else {}
    contents = send([USER, {**turn("f"), **spoken}, result(0, empty or ""), {"role": "user", "content": empty or ""}])[
        "contents"
    ]
    assert [len(one["parts"]) for one in contents] == [1, 1, 1]


NO_PREFILL = "Requests ending with a model turn are not supported unless the last part is a function response."


@each_case(
    ("path", "message"),
    [
        (CHAT, NO_PREFILL),
        (MESSAGES, NO_PREFILL),
        (RESPONSES, NO_PREFILL),
        (CHAT, "Please ensure that multiturn requests ends with a user role or a function response."),
    ],
)
def test_a_history_that_ends_with_the_model_is_sent_in_a_form_that_newer_models_take(path: str, message: str) -> None:
    """crewAIInc/crewAI pull requests 6973 and 7134; LibreChat-AI/agents pull request 323; pipecat-ai/pipecat pull
    request 5821; anthonyhaussman/opencode-agy-auth pull request 78."""

    def answer(request: httpx.Request) -> httpx.Response:
        refusal = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        ends_well = json.loads(request.content)["contents"][-1]["role"] == "user"
        return httpx.Response(200, json=REPLY) if ends_well else httpx.Response(400, json=refusal)

    history = [USER, {"role": "assistant", "content": "Half a"}]
    body: Json = {"input": history} if path == RESPONSES else {"messages": history, "max_tokens": 9}
    found, sent = post(path, body, answer)
    assert found.status == 200
    [content] = sent[-1]["contents"]
    assert content["role"] == "user"
    assert " ".join(part["text"] for part in content["parts"]).split() == ["Hi", "Half", "a"]
    assert len(sent) == 1 or "appended to the user" in found.body.decode()


SIGNED = [call("f", {"n": 0}, thoughtSignature="c2lnMQ=="), call("g", {"n": 1})]


def test_signatures_of_parallel_calls_come_back_from_a_client_of_responses() -> None:
    """vercel/ai issue 20008; lbjlaq/Antigravity-Manager issue 3202."""
    body = {"input": "Hi", "store": False, "include": ["reasoning.encrypted_content"]}
    functions = [{"type": "function", "name": name, "parameters": OBJECT} for name in "fg"]
    replies = iter([chunk(*SIGNED, end="STOP"), chunk({"text": "ok"}, end="STOP")])
    server = ModelServer(lambda _: httpx.Response(200, json=next(replies)))
    with Running(SETTINGS, server) as gateway:
        first = gateway.post(RESPONSES, {"model": "m", **body, "tools": functions}).json
        calls = [one for one in first["output"] if one["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": one["call_id"], "output": "ok"} for one in calls]
        again = [{"role": "user", "content": "Hi"}, *first["output"], *results]
        assert gateway.post(RESPONSES, {"model": "m", **body, "tools": functions, "input": again}).status == 200
    sent = json.loads(server.requests[-1].content)
    assert find_broken_rule(sent) is None
    found = [part.get("thoughtSignature") for part in sent["contents"][1]["parts"] if "functionCall" in part]
    assert found == ["c2lnMQ==", None]


def test_a_signature_comes_back_from_a_client_of_chat_completions_whole_and_streamed() -> None:
    """0xsline/OpenChatCut issue 6; securo-finance/securo issue 884; AstrBotDevs/AstrBot issue 9217."""
    for streams in (False, True):
        body: Json = {"messages": [USER], "stream": streams}
        found, _ = post(CHAT, body, lambda _: streamed(write_stream(chunk(*SIGNED), chunk(end="STOP"))))
        if streams:
            lines = [line for line in found.body.decode().split("\n") if line.startswith("data: {")]
            deltas = [one["choices"][0]["delta"] for one in map(json.loads, (line[6:] for line in lines))]
            calls = [one for delta in deltas for one in delta.get("tool_calls") or () if one.get("id")]
            calls = [{**one, "function": {**one["function"], "arguments": "{}"}} for one in calls]
        else:
            calls = found.json["choices"][0]["message"]["tool_calls"]
        told = [{"role": "assistant", "content": None, "tool_calls": calls}]
        results = [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in calls]
        parts = send([USER, *told, *results])["contents"][1]["parts"]
        assert [part.get("thoughtSignature") for part in parts] == ["c2lnMQ==", None]


def test_the_system_is_in_the_spelling_that_all_servers_read() -> None:
    """router-for-me/CLIProxyAPI pull request 1959: `system_instruction` was ignored."""
    sent = send([{"role": "system", "content": "Be brief."}, USER], temperature=0.5, max_tokens=9)
    assert sent["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert "_" not in "".join([*sent, *sent["generationConfig"]])


@each_case(
    "usage",
    [
        {"promptTokenCount": 100, "candidatesTokenCount": 16, "thoughtsTokenCount": 5, "cachedContentTokenCount": 60},
    ],
)
def test_tokens_of_a_stream_count_thoughts_and_the_cache(usage: Json) -> None:
    """topcheer/ggcode issue 225; librefang/librefang issue 5873; NousResearch/hermes-agent pull request 19632."""
    cached = {"cachedContentTokenCount": 60}
    chunks = (chunk({"text": "a"}, usage=cached), chunk(end="STOP", usage=usage))
    body = {"messages": [USER], "stream": True, "stream_options": {"include_usage": True}}
    found, _ = post(CHAT, body, lambda _: streamed(write_stream(*chunks), b""))
    lines = [line for line in found.body.decode().split("\n\n") if '"usage":{' in line]
    told = json.loads(lines[-1].removeprefix("data: "))["usage"]
    assert (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]) == (100, 21, 121)
    assert told["prompt_tokens_details"]["cached_tokens"] == 60
    assert told["completion_tokens_details"]["reasoning_tokens"] == 5


@each_case(("first", "second"), [("c2ln", None), (None, "c2ln"), ("c2ln", "c2ln"), (None, None)])
@each_case("stream", [True, False])
def test_a_call_that_is_told_again_is_one_call(stream: bool, first: str | None, second: str | None) -> None:
    """vertesia/llumiverse pull request 470; allenhutchison/obsidian-gemini pull request 230."""
    told = {"functionCall": {"id": "c9", "name": "f", "args": {"a": 1}}}
    parts = [{**told, **({} if one is None else {"thoughtSignature": one})} for one in (first, second)]
    reply = write_stream(*[chunk(part) for part in parts], chunk(end="STOP"))
    body = {"messages": [USER], "stream": stream, "tools": [{"type": "function", "function": {"name": "f"}}]}
    found, _ = post(CHAT, body, lambda _: streamed(reply))
    if stream:
        frames = [json.loads(line[6:]) for line in found.body.splitlines() if line.startswith(b"data: {")]
        deltas = [row["delta"] for frame in frames for row in frame["choices"]]
        calls = [one for delta in deltas for one in delta.get("tool_calls", ())]
        assert {one["index"] for one in calls} == {0}
        assert "".join(one["function"].get("arguments", "") for one in calls if "function" in one) == '{"a":1}'
    else:
        [answered] = found.json["choices"][0]["message"]["tool_calls"]
        assert answered["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert (b"c2ln" in found.body) is bool(first or second)


def test_calls_of_one_id_that_differ_are_two_calls() -> None:
    parts = [{"functionCall": {"id": "c9", "name": "f", "args": {"a": at}}} for at in (1, 2)]
    reply = write_stream(chunk(*parts, end="STOP"))
    found, _ = post(CHAT, {"messages": [USER]}, lambda _: streamed(reply))
    assert len(found.json["choices"][0]["message"]["tool_calls"]) == 2


def test_texts_that_are_signed_come_back_as_parts_of_their_own() -> None:
    """google/adk-go pull request 442: what is signed is not joined with what is not."""
    parts = [{"text": "a", "thoughtSignature": "QQ=="}, {"text": "b", "thoughtSignature": "Qg=="}, {"text": "c"}]
    reply = write_stream(*[chunk(part) for part in parts], chunk(end="STOP"))
    found, _ = post(MESSAGES, {"messages": [USER], "max_tokens": 9}, lambda _: streamed(reply))
    history = [USER, {"role": "assistant", "content": found.json["content"]}, USER]
    sent = send(history, path=MESSAGES, max_tokens=9)
    [turn_of_model] = [one["parts"] for one in sent["contents"] if one["role"] == "model"]
    assert turn_of_model == parts
