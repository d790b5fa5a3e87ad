"""What users of other gateways reported of Gemini as a model's server, tried here by clients of the other APIs. Each
test names the report."""

import json
from typing import Any

import httpx

from tests.each_case import each_case
from tests.in_process_gateway import Answer, ModelServer, Running, streamed
from tests.upstream.gemini.replies import REPLY, SETTINGS, call, chunk, write_stream

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
USER: Json = {"role": "user", "content": "Hi"}
TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"
PICTURE = f"data:image/png;base64,{PNG}"


def configure(profile: Json | None = None) -> Json:
    model = {**SETTINGS["models"]["m"], "profile": {"media": ["image"], **(profile or {})}}
    return {**SETTINGS, "models": {"m": model}}


def ask(body: Json, *chunks: Json, path: str = CHAT, profile: Json | None = None) -> Answer:
    sent = write_stream(*chunks) if chunks else json.dumps(REPLY).encode()
    server = ModelServer(lambda _: streamed(sent))
    with Running(configure(profile), server) as gateway:
        return gateway.post(path, {"model": "m", **body})


def send(messages: list[Json], profile: Json | None = None, **fields: Any) -> Json:
    """Return what the server is sent of a chat completion."""
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    with Running(configure(profile), server) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "messages": messages, **fields})
    assert server.requests, answer.body
    sent: Json = json.loads(server.requests[-1].content)
    return sent


def turn(*names: str, **fields: Any) -> Json:
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps({"n": at})}}
        for at, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, **fields}


def result(at: int, content: Any = "ok") -> Json:
    return {"role": "tool", "tool_call_id": f"c{at}", "content": content}


def read_frames(answer: Answer) -> list[Json]:
    lines = answer.body.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def stream_calls(answer: Answer) -> dict[int, Json]:
    """Return the calls of a stream as a client of OpenAI's API puts them together."""
    found: dict[int, Json] = {}
    for frame in read_frames(answer):
        for one in (frame["choices"] or [{"delta": {}}])[0]["delta"].get("tool_calls") or ():
            known = found.setdefault(one["index"], {"id": "", "name": "", "arguments": ""})
            known["id"] += one.get("id") or ""
            known["name"] += one["function"].get("name") or ""
            known["arguments"] += one["function"].get("arguments") or ""
    return found


@each_case(
    "chunks",
    [
        (chunk(call("f", {"n": 0})), chunk(call("f", {"n": 1})), chunk(call("f", {"n": 2}), end="STOP")),
        (chunk(call("f", {"n": 0}), call("f", {"n": 1})), chunk(call("f", {"n": 2})), chunk(end="STOP")),
        (chunk(call("f", {"n": 0}), call("f", {"n": 1}), call("f", {"n": 2}), end="STOP"),),
        (
            chunk(call("f", {"n": 0})),
            chunk({"text": ""}),
            chunk(call("f", {"n": 1}), call("f", {"n": 2})),
            chunk(end="STOP"),
        ),
    ],
)
def test_parallel_calls_have_numbers_of_their_own(chunks: tuple[Json, ...]) -> None:
    """su-kaka/gcli2api pull request 406; NousResearch/hermes-agent issue 57939; omnigent-ai/omnigent pull
    request 28."""
    body = {"messages": [USER], "tools": [TOOL]}
    found = stream_calls(ask({**body, "stream": True}, *chunks))
    assert [json.loads(one["arguments"]) for one in found.values()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len({one["id"] for one in found.values()}) == 3 == len(found)
    whole = ask(body, *chunks).json["choices"][0]
    assert whole["finish_reason"] == "tool_calls"
    assert [json.loads(one["function"]["arguments"])["n"] for one in whole["message"]["tool_calls"]] == [0, 1, 2]


def test_results_of_parallel_calls_are_one_content() -> None:
    """cloudwego/eino-ext issue 571; epam/ai-dial-adapter-vertexai issue 214; anomalyco/opencode pull request 43814."""
    contents = send([USER, turn("f", "f", "g"), result(1), result(0), result(2), USER])["contents"]
    assert [one["role"] for one in contents] == ["user", "model", "user"]
    assert [one["functionResponse"]["id"] for one in contents[2]["parts"][:3]] == ["c0", "c1", "c2"]
    assert contents[2]["parts"][3] == {"text": "Hi"}


def test_only_the_first_of_parallel_calls_is_signed() -> None:
    """pipecat-ai/pipecat pull request 3420."""
    parts = send([USER, turn("f", "g"), result(0), result(1)])["contents"][1]["parts"]
    assert ["thoughtSignature" in part for part in parts] == [True, False]


def test_a_call_without_a_result_is_never_sent() -> None:
    """microsoft/vscode issue 299295; google-gemini/gemini-cli issue 16984."""
    server = ModelServer(lambda _: httpx.Response(200, json=REPLY))
    with Running(configure(), server) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "messages": [USER, turn("f", "g"), result(0), USER]})
    if answer.status == 200:
        parts = [part for one in json.loads(server.requests[-1].content)["contents"] for part in one["parts"]]
        calls, results = ([p for p in parts if name in p] for name in ("functionCall", "functionResponse"))
        assert len(calls) == len(results)
    else:
        assert answer.status == 400 and not server.requests


def test_media_of_results_do_not_change_their_number() -> None:
    """google-gemini/gemini-cli issues 16135 and 17068; BerriAI/litellm pull request 29325; maximhq/bifrost pull request
    4202."""
    content = [{"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    messages = [USER, turn("f", "g"), result(0, content), result(1)]
    for tool_media in (True, False):
        parts = send(messages, {"tool_media": tool_media})["contents"][2]["parts"]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert len(answers) == 2
        assert ("parts" in answers[0]) is tool_media
        assert json.dumps(parts).count(PNG) == 1
        assert [next(iter(part)) for part in parts[:2]] == ["functionResponse"] * 2


def test_tools_beside_json_are_not_sent_to_models_that_refuse_them() -> None:
    """symfony/ai issue 803; googleapis/python-genai issue 867; openai/openai-agents-python issue 656."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    format_ = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    body = {"tools": [TOOL], "response_format": format_}
    old = send([USER], {"formats_beside_tools": False}, **body)
    assert "tools" in old and "responseMimeType" not in old.get("generationConfig", {})
    new = send([USER], {"formats_beside_tools": True}, **body)
    assert "tools" in new and new["generationConfig"]["responseMimeType"] == "application/json"


def ask_each(*chunks: Json, **fields: Any) -> list[Answer]:
    """Ask by each of the other APIs, whole and streamed."""
    bodies: dict[str, Json] = {
        CHAT: {"messages": [USER]},
        MESSAGES: {"messages": [USER], "max_tokens": 9},
        RESPONSES: {"input": "Hi"},
    }
    return [
        ask({**body, "stream": streams}, *chunks, path=path, **fields)
        for path, body in bodies.items()
        for streams in (False, True)
    ]


def test_a_blocked_prompt_is_an_error_with_its_reason() -> None:
    """topcheer/ggcode issue 1301; NousResearch/hermes-agent pull request 85031; microsoft/agent-framework-go pull
    request 743; 2389-research/tracker issue 543."""
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}}
    for answer in ask_each(blocked):
        assert b"PROHIBITED_CONTENT" in answer.body
        assert answer.status == 400 or b"error" in answer.body


@each_case(
    "reply",
    [
        {"candidates": []},
        {"candidates": [], "usageMetadata": {"promptTokenCount": 4}},
        {"promptFeedback": {}},
        {"candidates": None},
    ],
)
def test_a_reply_without_a_candidate_is_an_error(reply: Json) -> None:
    """Pasta-Devs/Marinara-Engine issue 2667; mem0ai/mem0 issue 5930; ShishirPatil/gorilla pull request 809;
    cortexkit/antigravity-auth issue 11."""
    for answer in ask_each(reply):
        assert answer.status >= 500 or b"error" in answer.body
        assert b'"stop"' not in answer.body and b"end_turn" not in answer.body


@each_case(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("SOMETHING_NEW", "stop"),
        ("OTHER", "stop"),
    ],
)
def test_finish_reasons_have_the_words_of_openai(word: str, reason: str) -> None:
    """mozilla-ai/any-llm pull request 1202; higress-group/higress pull request 2408; brekkylab/ailoy pull request
    334."""
    body = {"messages": [USER]}
    assert ask(body, chunk({"text": "a"}, end=word)).json["choices"][0]["finish_reason"] == reason
    frames = read_frames(ask({**body, "stream": True}, chunk({"text": "a"}), chunk(end=word)))
    assert [one["choices"][0]["finish_reason"] for one in frames if one["choices"]][-1] == reason


@each_case(
    "candidate",
    [
        {"content": {"role": "model"}},
        {"content": {}},
        {},
        {"content": {"role": "model", "parts": []}},
        {"content": {"role": "model", "parts": None}},
        {"content": {"role": "model", "parts": [{}]}},
        {"content": {"role": "model", "parts": [{"text": ""}]}},
        {"content": {"role": "model", "parts": [{"text": "", "functionCall": None, "thought": None}]}},
    ],
)
def test_a_content_without_parts_is_no_failure(candidate: Json) -> None:
    """RightNow-AI/openfang pull request 788; livekit/agents issue 4066; inngest/agent-kit pull request 178;
    AstrBotDevs/AstrBot pull request 6735."""
    empty, end = {"candidates": [candidate]}, chunk({"text": "a"}, end="STOP")
    for answer in ask_each(empty, end):
        assert answer.status == 200 and b"error" not in answer.body.replace(b'"error":null', b"")
    last = {"candidates": [{**candidate, "finishReason": "STOP"}]}
    for answer in ask_each(chunk({"text": "a"}), last):
        assert answer.status == 200


def test_cached_tokens_are_counted_once_for_each_client() -> None:
    """getomnico/omni pull request 431; mozilla-ai/any-llm pull request 815; diegosouzapw/OmniRoute pull request
    10465."""
    usage = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 5, "thoughtsTokenCount": 7}
    chat, _, messages, _, responses, _ = ask_each(chunk({"text": "a"}, usage=usage), chunk(end="STOP", usage=usage))
    assert chat.json["usage"]["prompt_tokens"] == 100
    assert chat.json["usage"]["prompt_tokens_details"]["cached_tokens"] == 60
    assert chat.json["usage"]["completion_tokens"] == 12
    assert messages.json["usage"]["input_tokens"] == 40
    assert messages.json["usage"]["cache_read_input_tokens"] == 60
    assert responses.json["usage"]["input_tokens"] == 100
    assert responses.json["usage"]["input_tokens_details"]["cached_tokens"] == 60


@each_case("name", [None, "", "other"])
def test_a_result_has_the_name_of_its_call(name: Any) -> None:
    """earendil-works/pi issue 1360; vectorize-io/hindsight pull request 187; binaricat/Netcatty pull request 350."""
    contents = send([USER, turn("f"), {**result(0), **({} if name is None else {"name": name})}])["contents"]
    assert contents[2]["parts"][0]["functionResponse"]["name"] == "f"


@each_case("name", ["server::tool", "3d.render", "a" * 70, "mcp tool", "工具", "a/b"])
def test_names_that_google_refuses_come_back_as_they_were(name: str) -> None:
    """mcp-router/mcp-router issue 176; mixelpixx/KiCAD-MCP-Server issue 7; CherryHQ/cherry-studio issue 4087."""

    def answer(request: httpx.Request) -> httpx.Response:
        [declared] = json.loads(request.content)["tools"][0]["functionDeclarations"]
        return httpx.Response(200, json=chunk(call(declared["name"], {}), end="STOP"))

    server = ModelServer(answer)
    tool = {"type": "function", "function": {"name": name}}
    with Running(configure(), server) as gateway:
        found = gateway.post(CHAT, {"model": "m", "messages": [USER], "tools": [tool]}).json
    sent = json.loads(server.requests[0].content)["tools"][0]["functionDeclarations"][0]["name"]
    assert len(sent) <= 64 and (sent[0].isalpha() or sent[0] == "_") and sent.isascii() and " " not in sent
    assert found["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == name


def test_schemas_of_openapi_have_only_what_google_knows() -> None:
    """TableProApp/TablePro pull request 1276; microsoft/azure-devops-mcp issue 139; zendev-sh/goai pull request 108;
    CherryHQ/cherry-studio issue 20939."""
    properties = {
        "a": {"type": ["string", "null"], "default": "x"},
        "b": {"type": "integer", "enum": [0, 1, 2]},
        "c": {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "string"}], "examples": [1]},
        "d": {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "x"}},
        "e": {"type": "array", "uniqueItems": True},
        "f": {"const": "x"},
        "g": {"type": "number", "exclusiveMinimum": 0},
    }
    schema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$schema": "s",
        "required": ["a"],
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    sent = send([USER], {"tool_schema": "openapi"}, tools=[tool])["tools"][0]["functionDeclarations"][0]["parameters"]
    found = sent["properties"]
    assert found["a"] == {"type": "STRING", "nullable": True}
    assert found["b"] == {"type": "INTEGER"}
    assert found["c"] == {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}
    assert found["d"] == {"type": "OBJECT"}
    assert found["e"] == {"type": "ARRAY", "items": {"type": "STRING"}}
    assert found["f"] == {"type": "STRING", "enum": ["x"]}
    assert found["g"] == {"type": "NUMBER"}
    assert sent.keys() == {"type", "properties", "required"}


def test_a_limit_in_a_list_is_a_limit() -> None:
    """google-gemini/gemini-cli issues 12207 and 6454."""
    error = {
        "code": 429,
        "message": "Resource exhausted. Please try again later.",
        "errors": [{"message": "m", "domain": "global", "reason": "rateLimitExceeded"}],
        "status": "RESOURCE_EXHAUSTED",
    }
    server = ModelServer(lambda _: httpx.Response(429, json=[{"error": error}]))
    with Running(configure({}), server) as gateway:
        answer = gateway.post(CHAT, {"model": "m", "messages": [USER]})
    assert (answer.status, answer.json["error"]["code"]) == (429, "rate_limit")
    assert "Resource exhausted" in answer.json["error"]["message"]
