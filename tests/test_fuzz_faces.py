"""Whatever comes to the OpenAI face, and to translation, something sensible comes out."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from app.formats import FORMATS
from hypothesis import example, given
from hypothesis import strategies as st

from tests.effort import effort
from tests.fuzz_values import (
    CHOICES,
    JSON,
    TEXTS,
    TOOL,
    check_error,
    damaged,
    dumped,
    leads,
    read_body,
    record,
    usually,
)
from tests.in_process_gateway import SERVER, Answer, ModelServer, Running

PART = record(
    {
        "type": st.sampled_from(
            ["text", "image_url", "input_audio", "file", "video_url", "video", "refusal", "tool_use"]
        ),
        **dict.fromkeys(("text", "refusal", "thinking"), TEXTS),
        **dict.fromkeys(("image_url", "video_url"), TEXTS | record({"url": TEXTS | st.just("https://h/a")})),
        "input_audio": record({"data": TEXTS | st.just("AAAA"), "format": TEXTS}),
        "file": record({"file_data": TEXTS, "filename": TEXTS, "file_id": TEXTS}),
        "source": record({"type": st.sampled_from(["url", "base64"]), "url": TEXTS, "data": TEXTS}),
        **dict.fromkeys(("id", "name"), st.sampled_from(["1", "f"])),
        **dict.fromkeys(("input", "output"), JSON),
    }
)
CALL = record(
    {
        "id": st.sampled_from(["1", "2", ""]),
        "type": st.just("function"),
        "function": record({"name": st.sampled_from(["f", ""]), "arguments": st.sampled_from(["{}", "", "{"])}),
        "extra_content": JSON,
    }
)
MESSAGE = record(
    {
        "role": st.sampled_from(["user", "assistant", "tool", "function", "system", "developer"]),
        "content": st.one_of(st.none(), TEXTS, st.lists(usually(PART), max_size=3)),
        "tool_calls": st.lists(usually(CALL), max_size=2),
        "function_call": record({"name": TEXTS, "arguments": TEXTS}),
        "tool_call_id": st.sampled_from(["1", "2", ""]),
        **dict.fromkeys(("name", "refusal", "reasoning_content", "reasoning"), TEXTS),
        "reasoning_details": JSON,
        "type": st.sampled_from(["TextMessage", "ToolCallRequestEvent", "SystemMessage"]),
        "source": TEXTS,
        "metadata": JSON,
        "timestamp": TEXTS,
    }
).map(lambda message: {"role": "user", "content": "x", **message})
TALK = st.lists(usually(MESSAGE), max_size=4).map(lambda given: [{"role": "user", "content": "x"}, *given])
COMPLETION = record(
    {
        "model": st.just("m"),
        **dict.fromkeys(("stream", "logprobs", "parallel_tool_calls", "store"), st.booleans()),
        "stream_options": record({"include_usage": st.booleans(), "include_obfuscation": st.booleans()}),
        **dict.fromkeys(("tools", "functions"), st.lists(usually(TOOL), max_size=2)),
        **dict.fromkeys(("tool_choice", "function_call"), st.sampled_from([*CHOICES, "any", {"name": "f"}])),
        **dict.fromkeys(("n", "max_tokens", "max_completion_tokens", "seed", "top_logprobs"), st.integers(0, 9)),
        **dict.fromkeys(("response_format", "modalities", "audio", "metadata", "cache", "extra_body", "odd"), JSON),
        "stop": TEXTS | st.lists(TEXTS),
    }
).flatmap(lambda body: TALK.map(lambda talk: {"messages": talk, **body}))
GEMINI_PART = record(
    {
        "text": TEXTS,
        "thought": st.booleans(),
        **dict.fromkeys(("thoughtSignature", "thought_signature"), TEXTS | st.just("cGFybGV5MS5leUo=")),
        **dict.fromkeys(
            ("inlineData", "inline_data"), record({"mimeType": st.sampled_from(["image/png", "a/b"]), "data": TEXTS})
        ),
        "fileData": record({"file_uri": st.sampled_from(["https://h/a", "gs://a", "http://["]), "mimeType": TEXTS}),
        "functionCall": record(
            {"id": st.sampled_from(["1", "2", ""]), "name": st.sampled_from(["f", ""]), "args": JSON}
        ),
        "functionResponse": record({"id": st.sampled_from(["1", "2"]), "name": st.just("f"), "response": JSON}),
        **dict.fromkeys(("executableCode", "codeExecutionResult", "toolCall", "videoMetadata", "odd"), JSON),
    }
)
CONTENT = record(
    {
        "role": st.sampled_from(["user", "model", "MODEL", "function", "system", None, "x"]),
        "parts": st.lists(usually(GEMINI_PART), max_size=3),
    }
)
GEMINI = record(
    {
        **dict.fromkeys(("systemInstruction", "system_instruction"), st.one_of(TEXTS, CONTENT, JSON)),
        "tools": st.lists(
            record(
                {
                    "functionDeclarations": st.lists(
                        record({"name": st.sampled_from(["f", "g"]), "parameters": JSON}), max_size=2
                    ),
                    "googleSearch": JSON,
                }
            ),
            max_size=2,
        ),
        "toolConfig": record(
            {
                "functionCallingConfig": record(
                    {"mode": st.sampled_from(["any", "AUTO", "x"]), "allowedFunctionNames": st.lists(st.just("f"))}
                )
            }
        ),
        **dict.fromkeys(
            ("generationConfig", "generation_config"),
            record(
                {
                    **dict.fromkeys(
                        ("temperature", "topK", "seed", "max_output_tokens", "candidateCount"), JSON | st.integers(0, 2)
                    ),
                    "thinkingConfig": record({"includeThoughts": st.booleans(), "thinking_budget": st.integers(-2, 3)}),
                    "responseMimeType": st.sampled_from(["application/json", "text/plain", ""]),
                    **dict.fromkeys(("responseSchema", "responseJsonSchema", "stopSequences", "min_p"), JSON),
                }
            ),
        ),
        **dict.fromkeys(("cachedContent", "safetySettings", "odd", "cache", "enable_thinking"), JSON),
    }
).flatmap(
    lambda body: st.lists(usually(CONTENT), max_size=4).map(
        lambda given: {"contents": [{"parts": [{"text": "x"}]}, *given], **body}
    )
)
CONVERSION = record(
    {
        "from": st.sampled_from(["auto", *FORMATS]),
        "strict": st.booleans(),
        **dict.fromkeys(("agent", "agent_name"), TEXTS),
    }
).flatmap(
    lambda body: st.tuples(TALK, st.sampled_from([*FORMATS])).map(
        lambda pair: {"messages": pair[0], "to": pair[1], **body}
    )
)


def bodies(whole: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return st.one_of(whole.map(dumped), whole.map(dumped), damaged(whole.map(dumped)), JSON.map(dumped))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with Running({**SERVER, "server": {"log_level": "error"}}, ModelServer()) as running:
        yield running


def checked(answer: Answer, raw: bytes) -> None:
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        error = {key: value for key, value in answer.json["error"].items() if key != "type"}
        check_error(error, answer.status, raw)


@effort(45)
@given(bodies(COMPLETION))
@example(b'{"messages":[{"role":"user","content":"x"}],"seed":%b}' % (b"9" * 400))
@example(b'{"messages":[{"role":"user","content":"x"}],"odd":%b}' % (b"9" * 400))
@example(b'{"messages":[{"role":"user","content":"x"}],"odd":%b1%b}' % (b"[" * 150, b"]" * 150))
@example(b'{"messages":[{"role":"user","content":"x"}],"model":null,"n":NaN,"\\ud800":1}')
@example(b'{"messages":[{"role":"user","content":"x"}],"function_call":"required"}')
def test_no_request_makes_the_openai_endpoint_fail(gateway: Running, raw: bytes) -> None:
    answer = gateway.post("/v1/chat/completions", raw)
    checked(answer, raw)
    if answer.status >= 400:
        assert answer.json["error"]["type"] == "invalid_request_error"
    elif "text/event-stream" in answer.headers["content-type"]:
        assert answer.body.endswith(b"data: [DONE]\n\n")
    else:
        assert answer.json["choices"][0]["finish_reason"] == "stop"


@effort(45)
@given(bodies(CONVERSION))
def test_no_list_makes_translation_fail(gateway: Running, raw: bytes) -> None:
    answer = gateway.post("/v1/convert", raw)
    checked(answer, raw)
    if answer.status == 200:
        assert json.dumps(answer.json, allow_nan=False)


@effort(45)
@given(bodies(GEMINI), st.sampled_from(["generateContent", "streamGenerateContent", "countTokens"]))
@example(b'{"contents":[{"parts":[{"text":"x"}]}],"seed":%b}' % (b"9" * 400), "generateContent")
@example(b'{"contents":{"parts":{"text":"x"}},"odd":%b1%b}' % (b"[" * 150, b"]" * 150), "generateContent")
@example(b'{"contents":[{"parts":[{"text":"x"}]}],"\\ud800":1}', "generateContent")
def test_no_request_makes_the_gemini_endpoint_fail(gateway: Running, raw: bytes, method: str) -> None:
    answer = gateway.post(f"/v1beta/models/m:{method}", raw)
    if answer.status == 200:
        assert json.dumps(answer.json, allow_nan=False)
        return
    error = answer.json["error"]
    [info, *more] = error["details"]
    assert answer.status == error["code"]
    assert answer.status in (400, 413) or info["reason"] == "CACHE_MISS", answer.body
    for one in more[0]["fieldViolations"] if more else ():
        missing = "is required" in one["description"]
        assert not one["field"] or leads(one["field"], read_body(raw), missing=missing), (one, raw)
