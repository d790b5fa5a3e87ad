"""Bodies of the Gemini API that a server has refused."""

import hashlib
import json
from typing import Any

import httpx
from app.chat.messages import INTERRUPTED
from app.openai_messages.messages import UNCHECKED
from app.upstream.gemini.repair import REPAIRS, strip_signatures

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running
from tests.upstream.gemini.replies import REPLY, SETTINGS

Json = dict[str, Any]
CALL: Json = {"functionCall": {"id": "1", "name": "f"}}
RESULT: Json = {"functionResponse": {"id": "1", "name": "f"}}
USER_TEXT: Json = {"text": "a"}
USER: Json = {"role": "user", "parts": [USER_TEXT]}
OTHER: Json = {"functionCall": {"name": "g"}}
LOST: Json = {"functionResponse": {"name": "g", "response": {"error": INTERRUPTED}}}
THOUGHT: Json = {"text": "Hm.", "thought": True}
BARE: Json = {
    "contents": [{"role": "model", "parts": [{"text": "a"}, CALL, CALL]}, {"role": "user", "parts": [RESULT]}]
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
OLD = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}


def think(**config: Any) -> Json:
    return {"contents": [], "generationConfig": {"seed": 1, "thinkingConfig": config}}


def test_signatures_that_cannot_be_verified_are_replaced() -> None:
    signed = {**CALL, "thoughtSignature": "x"}
    body = {"contents": [{"parts": [{"text": "a", "thoughtSignature": "x"}, signed, signed, 1]}]}
    changed = strip_signatures(body)
    assert changed == {"contents": [{"parts": [{"text": "a"}, {**CALL, "thoughtSignature": UNCHECKED}, CALL, 1]}]}
    assert strip_signatures(changed) is None
    assert strip_signatures({"contents": "odd"}) is None


@each_case(
    ("name", "body", "changed"),
    [
        ("thinking", think(includeThoughts=True), {"contents": [], "generationConfig": {"seed": 1}}),
        ("thinking", {"generationConfig": {"thinkingConfig": {"a": 1}}}, {}),
        ("thinking", {"generationConfig": {"seed": 1}}, None),
        ("level", think(thinkingLevel="LOW", includeThoughts=True), think(includeThoughts=True, thinkingBudget=1024)),
        ("level", think(thinkingLevel="MINIMAL"), think(thinkingBudget=0)),
        ("level", think(thinkingBudget=5), None),
        ("level", think(thinkingLevel=["odd"]), None),
        # google-gemini/gemini-cli#17208
        (
            "results",
            {
                "contents": [
                    USER,
                    {"role": "model", "parts": [CALL, OTHER]},
                    {"role": "user", "parts": [USER_TEXT, RESULT]},
                ]
            },
            {
                "contents": [
                    USER,
                    {"role": "model", "parts": [CALL, OTHER]},
                    {"role": "user", "parts": [RESULT, LOST, USER_TEXT]},
                ]
            },
        ),
        (
            "results",
            {
                "contents": [
                    {"role": "user", "parts": [RESULT]},
                    {"role": "model", "parts": [OTHER]},
                    {"role": "model", "parts": [USER_TEXT]},
                ]
            },
            {
                "contents": [
                    {"role": "user", "parts": [{"text": "null"}]},
                    {"role": "model", "parts": [OTHER]},
                    {"role": "user", "parts": [LOST]},
                    {"role": "model", "parts": [USER_TEXT]},
                ]
            },
        ),
        ("results", {"contents": [{"role": "model", "parts": [CALL]}, {"role": "user", "parts": [RESULT]}]}, None),
        ("results", {"contents": ["odd"]}, None),
        ("results", {"contents": "odd"}, None),
        # google-gemini/gemini-cli#26486
        (
            "turns",
            {"contents": [USER, {"role": "model", "parts": [{"text": "b"}]}, {"role": "model", "parts": [CALL]}]},
            {"contents": [USER, {"role": "model", "parts": [{"text": "b"}, CALL]}]},
        ),
        (
            "turns",
            {"contents": [{"role": "model", "parts": [CALL]}, USER]},
            {"contents": [{"role": "user", "parts": [{"text": "."}]}, {"role": "model", "parts": [CALL]}, USER]},
        ),
        ("turns", {"contents": [USER]}, None),
        ("turns", {"contents": ["odd"]}, None),
        ("turns", {"contents": [{"role": "user"}, {"role": "user"}]}, None),
        ("always_thinks", think(thinkingBudget=0), {"contents": [], "generationConfig": {"seed": 1}}),
        ("always_thinks", think(thinkingBudget=5), None),
        ("always_thinks", {"generationConfig": "odd"}, None),
        (
            "missing_signature",
            BARE,
            {
                "contents": [
                    {"role": "model", "parts": [{"text": "a"}, {**CALL, "thoughtSignature": UNCHECKED}, CALL]},
                    BARE["contents"][1],
                ]
            },
        ),
        ("missing_signature", {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}, None),
        (
            "call_ids",
            {"contents": [{"role": "model", "parts": [CALL, "odd"]}, {"role": "user", "parts": [RESULT]}]},
            {
                "contents": [
                    {"role": "model", "parts": [{"functionCall": {"name": "f"}}, "odd"]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "f"}}]},
                ]
            },
        ),
        (
            "tool_schema",
            {
                "tools": [
                    {"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}, {"name": "g"}, 1]},
                    {"googleSearch": {}},
                    1,
                ],
                "generationConfig": {"responseJsonSchema": SCHEMA, "seed": 1},
            },
            {
                "tools": [
                    {"functionDeclarations": [{"name": "f", "parameters": OLD}, {"name": "g"}, 1]},
                    {"googleSearch": {}},
                    1,
                ],
                "generationConfig": {"seed": 1, "responseSchema": OLD},
            },
        ),
        ("tool_schema", {"contents": []}, None),
        (
            "assistant_last",
            {"contents": [USER, {"role": "model", "parts": [{"text": "b", "thoughtSignature": "x"}, THOUGHT]}]},
            {"contents": [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]},
        ),
        ("assistant_last", {"contents": [USER, {"role": "model", "parts": [CALL]}]}, None),
        ("assistant_last", {"contents": [{"role": "model", "parts": [{"text": "b"}]}]}, None),
        ("assistant_last", {"contents": [{"role": "model", "parts": []}, {"role": "model", "parts": []}]}, None),
        ("assistant_last", {"contents": [USER, USER]}, None),
        ("assistant_last", {"contents": [USER, {"role": "model", "parts": "odd"}]}, None),
        ("assistant_last", {"contents": ["odd", "odd"]}, None),
        ("assistant_last", {"contents": {"parts": []}}, None),
    ],
)
def test_a_repair_changes_what_was_refused_once(name: str, body: Json, changed: Json | None) -> None:
    assert REPAIRS[name].change(body) == changed
    assert changed is None or REPAIRS[name].change(changed) is None


@each_case(
    ("message", "name"),
    [
        (
            "Invalid JSON payload. Unknown name \"parametersJsonSchema\" at 'tools[0].function_declarations[0]'",
            "tool_schema",
        ),
        ("Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call'", "call_ids"),
        ("Function call is missing a thought_signature in functionCall parts.", "missing_signature"),
        ("$ref 'Option' was set alongside unsupported fields. If a schema node has $ref set", "tool_schema"),
        ("`f` functionDeclaration `parameters.a` schema didn't specify the schema type field.", "tool_schema"),
        (
            "GenerateContentRequest.tools[0].function_declarations[9].parameters.required[0]: property is not defined",
            "tool_schema",
        ),
        ("Invalid value at 'generation_config.response_schema.properties[0].value.enum[0]'", "tool_schema"),
        ("Requests ending with a model turn are not supported unless the last part is a", "assistant_last"),
        ("Please ensure that multiturn requests ends with a user role or a function response.", "assistant_last"),
        ("Thinking level is not supported for this model.", "level"),
        ("Budget 0 is invalid. This model only works in thinking mode.", "always_thinks"),
        ("Thinking is not enabled for models/gemini-2.0-flash", "thinking"),
        ("Unable to submit request because Thinking is not supported by this model.", "thinking"),
    ],
)
def test_the_message_of_a_refusal_tells_the_repair(message: str, name: str) -> None:
    assert next(one for one, repair in REPAIRS.items() if repair.refused.search(message)) == name


def refuse(message: str) -> httpx.Response:
    error = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return httpx.Response(400, json=error)


def test_what_a_model_refuses_is_changed_once_and_then_always() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        if "thinkingConfig" in body.get("generationConfig", {}):
            return refuse("Thinking is not enabled for models/up-model")
        if "parametersJsonSchema" in body["tools"][0]["functionDeclarations"][0]:
            return refuse("Unknown name \"parametersJsonSchema\" at 'tools[0]': Cannot find field.")
        return httpx.Response(200, json=REPLY)

    server = ModelServer(answer)
    tools = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    ask = {"model": "m", "messages": [{"role": "user", "content": "Q"}], "tools": tools}
    with Running(SETTINGS, server) as gateway:
        warnings = [gateway.post("/v1/chat/completions", ask).json["warnings"] for _ in range(2)]
    assert len(server.requests) == 4
    assert warnings[0] == warnings[1] and len(warnings[0]) == 2


def test_a_refusal_that_no_repair_is_for_is_told() -> None:
    server = ModelServer(lambda _: refuse("Thinking is not enabled, and neither is anything else"))
    with Running(SETTINGS, server) as gateway:
        answer = gateway.post("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Q"}]})
    assert answer.status == 400 and len(server.requests) == 2


def test_a_refusal_that_repeats_its_callers_words_changes_nothing_for_others() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        odd = [name for name in json.loads(request.content) if "thinking" in name]
        return refuse(f'Unknown name "{odd[0]}": Cannot find field.') if odd else httpx.Response(200, json=REPLY)

    server = ModelServer(answer)
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Q"}]}],
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 512}},
    }
    path = "/v1beta/models/m:generateContent"
    with Running(SETTINGS, server) as gateway:
        assert gateway.post(path, {**body, "thinking is not supported": 1}).status == 400
        server.requests.clear()
        assert gateway.post(path, body).status == 200
    assert json.loads(server.requests[0].content)["generationConfig"] == body["generationConfig"]


def test_what_made_the_body_of_one_caller_acceptable_changes_nothing_for_another() -> None:
    """The caller writes its words where the repair leaves them out, so that the server takes the repaired body."""

    def answer(request: httpx.Request) -> httpx.Response:
        config = json.loads(request.content).get("generationConfig", {}).get("thinkingConfig", {})
        odd = [name for name in config if "supported" in name]
        return refuse(f'Unknown name "{odd[0]}": Cannot find field.') if odd else httpx.Response(200, json=REPLY)

    server = ModelServer(answer)
    contents = [{"role": "user", "parts": [{"text": "Q"}]}]
    path, thinks = "/v1beta/models/m:generateContent", {"thinkingConfig": {"thinkingBudget": 512}}
    odd = {"thinkingConfig": {"thinking is not supported": 1}}
    keys = {name: f"{name}-0123456789abcdef" for name in ("one", "other")}
    rows = {name: {"sha256": hashlib.sha256(key.encode()).hexdigest()} for name, key in keys.items()}
    with Running({**SETTINGS, "keys": rows}, server) as gateway:

        def post(key: str, options: Json) -> Json:
            body = {"contents": contents, "generationConfig": options}
            assert gateway.post(path, body, {"x-goog-api-key": keys[key]}).status == 200
            sent: Json = json.loads(server.requests[-1].content)
            options_sent: Json = sent.get("generationConfig", {})
            return options_sent

        assert post("one", odd) == {}
        assert post("other", thinks) == thinks
        assert post("one", thinks) == {}


def test_a_repair_loses_no_content_in_another_form() -> None:
    odd: list[Json] = [
        {"role": "user", "parts": {"text": "an object in the place of a list"}},
        {"role": "user"},
        {"role": "user", "parts": ["text", 7, None, ["functionCall"]]},
    ]
    call = {"functionCall": {"id": "c", "name": "f"}, "thought_signature": "AAAA"}
    body = {"contents": [*odd, {"role": "model", "parts": [call]}]}
    for change in (strip_signatures, REPAIRS["missing_signature"].change, REPAIRS["call_ids"].change):
        assert change({"contents": odd}) is None
        changed = change(body)
        assert changed is not None and changed["contents"][:-1] == odd
    stripped = strip_signatures(body)
    assert stripped is not None
    assert stripped["contents"][-1]["parts"] == [{"functionCall": call["functionCall"], "thoughtSignature": UNCHECKED}]
