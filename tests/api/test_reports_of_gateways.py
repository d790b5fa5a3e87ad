"""What users of other gateways reported of Gemini's API and of requests that pass through, tried here. Each test names
the report."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.each_case import each_case
from tests.in_process_gateway import AnsweringGateway, streamed

Json = dict[str, Any]
SETTINGS: Json = {
    "upstreams": {
        "local": {"base_url": "http://model.test/v1"},
        "google": {"base_url": "http://google.test/v1beta", "api": "gemini"},
    },
    "models": {
        "m": {"upstreams": ["local"]},
        "g": {"upstreams": ["google"], "max_retries": 0},
        "strict": {"upstreams": ["google"], "profile": {"tool_schema": "openapi"}},
        **{
            name: {"upstreams": ["local"], "endpoints": [name]}
            for name in ("embeddings", "rerank", "audio", "speech", "moderations", "images", "completions")
        },
    },
    "server": {"log_level": "error"},
}
HI: Json = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
WHOLE, STREAM = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse"


@pytest.fixture(scope="module")
def gateway() -> Iterator[AnsweringGateway]:
    with AnsweringGateway(SETTINGS) as gateway:
        yield gateway


# -- requests that pass through ------------------------------------------------------------------------------------


def test_no_encoding_of_embeddings_is_added(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 19174, agent0ai/agent-zero issue 1429."""
    vectors = {"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "model": "up", "usage": {}}
    body = {"model": "embeddings", "input": "Hi"}
    assert gateway.exchange("/v1/embeddings", body, httpx.Response(200, json=vectors)).status == 200
    assert gateway.sent == body


def test_why_a_server_refuses_a_batch_is_told(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 11231."""
    text = "batch size is invalid, it should not be larger than 10.: input.contents"
    refusal = httpx.Response(400, json={"error": {"message": text, "type": "InvalidParameter", "code": None}})
    answer = gateway.exchange("/v1/embeddings", {"model": "embeddings", "input": ["a"] * 11}, refusal)
    assert answer.status == 400
    assert text in answer.json["error"]["message"]


def test_a_ranking_without_documents_is_no_error(gateway: AnsweringGateway) -> None:
    """joonsoome/embed-rerank issue 11."""
    ranking = {"results": [{"index": 1, "relevance_score": 0.9, "document": None}], "model": "rerank"}
    body = {"model": "rerank", "query": "q", "documents": ["a", "b"], "top_n": 2}
    answer = gateway.exchange("/rerank", body, httpx.Response(200, json=ranking))
    assert (answer.status, answer.json) == (200, ranking)


def _write_form(*parts: tuple[str, str, bytes]) -> tuple[bytes, dict[str, str]]:
    """Return a form of (name, file name, content), and its headers."""
    lines = []
    for name, file, content in parts:
        file_name = f'; filename="{file}"' if file else ""
        lines.append(f'--x\r\nContent-Disposition: form-data; name="{name}"{file_name}\r\n\r\n'.encode() + content)
    body = b"\r\n".join([*lines, b"--x--\r\n"])
    return body, {"content-type": "multipart/form-data; boundary=x", "content-length": str(len(body))}


def test_the_segments_of_a_transcript_are_kept(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 25633."""
    transcript = {"text": "Hi", "duration": 1.5, "segments": [{"id": 0, "start": 0.0, "end": 1.5, "text": "Hi"}]}
    form, headers = _write_form(
        ("file", "a.wav", b"RIFF"), ("model", "", b"audio"), ("response_format", "", b"verbose_json")
    )
    answer = gateway.exchange("/v1/audio/transcriptions", form, httpx.Response(200, json=transcript), headers)
    assert (answer.status, answer.json) == (200, transcript)


def test_speech_has_the_type_of_its_format(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm pull request 38798."""
    sound = httpx.Response(200, content=b"RIFF....WAVE", headers={"content-type": "audio/wav"})
    body = {"model": "speech", "input": "hello", "voice": "alloy", "response_format": "wav"}
    answer = gateway.exchange("/v1/audio/speech", body, sound)
    assert (answer.headers["content-type"], answer.body) == ("audio/wav", b"RIFF....WAVE")


def test_speech_in_events_passes(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 33974."""
    events = (
        b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n',
        b'data: {"type":"speech.audio.delta","audio":"BBBB"}\n\n',
        b'data: {"type":"speech.audio.done","usage":{"input_tokens":4,"output_tokens":9,"total_tokens":13}}\n\n',
    )
    body = {"model": "speech", "input": "hello", "voice": "alloy", "stream_format": "sse"}
    answer = gateway.exchange("/v1/audio/speech", body, streamed(*events))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body == b"".join(events)


def test_moderations_need_no_model_where_there_is_one(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 4336."""
    verdict = {"id": "modr-1", "model": "moderations", "results": [{"flagged": False}]}
    answer = gateway.exchange("/v1/moderations", {"input": "Hi"}, httpx.Response(200, json=verdict))
    assert (answer.status, answer.json) == (200, verdict)
    assert gateway.sent == {"input": "Hi", "model": "moderations"}


def test_all_pictures_of_an_edit_are_files(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm pull request 41625, basketikun/chatgpt2api issue 12."""
    form, headers = _write_form(
        *(("image[]", "a.png", b"\x89PNG-a"), ("image[]", "b.png", b"\x89PNG-b"), ("mask[]", "m.png", b"\x89PNG-m")),
        *(("prompt", "", b"make it blue"), ("model", "", b"images")),
    )
    answer = gateway.exchange(
        "/v1/images/edits", form, httpx.Response(200, json={"data": [{"b64_json": "AA=="}]}), headers
    )
    assert answer.status == 200
    sent = gateway.server.requests[-1].content
    for name, file, content in (("image[]", "a.png", b"-a"), ("image[]", "b.png", b"-b"), ("mask[]", "m.png", b"-m")):
        assert f'name="{name}"; filename="{file}"'.encode() in sent
        assert b"\x89PNG%b\r\n" % content in sent


def test_streamed_text_completions_are_no_conversation(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 1109."""
    chunks = (
        b'data: {"object":"text_completion","choices":[{"index":0,"text":" world","finish_reason":null}]}\n\n',
        b'data: {"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"stop"}]}\n\n',
        b"data: [DONE]\n\n",
    )
    body = {"model": "completions", "prompt": "Hello", "stream": True}
    answer = gateway.exchange("/v1/completions", body, streamed(*chunks))
    assert answer.body == b"".join(chunks)
    assert gateway.server.requests[-1].url.path == "/v1/completions"


def test_a_text_completion_has_its_log_probabilities_and_all_its_choices(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 2796."""
    logprobs = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -0.5}], "text_offset": [0]}
    choices = [{"index": at, "text": "a", "logprobs": logprobs, "finish_reason": "length"} for at in range(4)]
    body = {"model": "completions", "prompt": ["x", "y"], "n": 2, "echo": True, "logprobs": 1, "max_tokens": 0}
    whole = {"object": "text_completion", "model": "completions", "choices": choices}
    answer = gateway.exchange("/v1/completions", body, httpx.Response(200, json=whole))
    assert (answer.json["choices"], gateway.sent) == (choices, body)


# -- clients of Gemini's API ---------------------------------------------------------------------------------------


def _chat(*deltas: Json, finish: str = "stop", usage: Json | None = None) -> httpx.Response:
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks += [{"choices": [], "usage": usage}] if usage else []
    return streamed(*(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks), b"data: [DONE]\n\n")


def _call(index: int, id_: str, arguments: str = "{}") -> Json:
    call = {"index": index, "id": id_, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"tool_calls": [call]}


def test_a_stream_of_a_model_that_is_not_googles(gateway: AnsweringGateway) -> None:
    """BerriAI/litellm issue 16910."""
    answer = gateway.exchange(STREAM, HI, _chat({"content": "Hel"}, {"content": "lo"}))
    assert answer.status == 200
    parts = [part for frame in answer.frames for part in frame["candidates"][0]["content"].get("parts", ())]
    assert "".join(part["text"] for part in parts) == "Hello"


@each_case("path", [WHOLE, STREAM])
def test_a_system_prompt_in_the_other_spelling_is_sent(gateway: AnsweringGateway, path: str) -> None:
    """BerriAI/litellm issue 18093."""
    gateway.exchange(path, {**HI, "system_instruction": {"parts": [{"text": "Be a cat."}]}}, _chat({"content": "Meow"}))
    assert gateway.sent["messages"][0] == {"role": "system", "content": "Be a cat."}


def test_tokens_are_counted(gateway: AnsweringGateway) -> None:
    """lbjlaq/Antigravity-Manager issue 3294."""
    answer = gateway.exchange("/v1beta/models/m:countTokens", HI, httpx.Response(404))
    assert answer.status == 200
    assert answer.json["totalTokens"] > 0


def _ask_for_two(ids: tuple[str | None, str | None], results: list[Json]) -> Json:
    calls = [
        {"functionCall": {"name": "f", "args": {"at": at}, **({"id": id_} if id_ else {})}}
        for at, id_ in enumerate(ids)
    ]
    answered = [{"functionResponse": {"name": "f", **one}} for one in results]
    turns = [{"role": "model", "parts": calls}, {"role": "user", "parts": answered}]
    return {"contents": [*HI["contents"], *turns], "tools": [{"functionDeclarations": [{"name": "f"}]}]}


def _read_pairs(sent: Json) -> list[tuple[str, str]]:
    """Return (the arguments of a call, its result)."""
    calls = {
        call["id"]: call["function"]["arguments"] for one in sent["messages"] for call in one.get("tool_calls", ())
    }
    return [(calls[one["tool_call_id"]], one["content"]) for one in sent["messages"] if one["role"] == "tool"]


def test_results_of_calls_of_one_function_without_ids_are_not_mixed(gateway: AnsweringGateway) -> None:
    """CherryHQ/cherry-studio pull request 16921."""
    results: list[Json] = [{"response": {"result": "first"}}, {"response": {"result": "second"}}]
    assert gateway.exchange(WHOLE, _ask_for_two((None, None), results), _chat({"content": "ok"})).status == 200
    assert _read_pairs(gateway.sent) == [('{"at": 0}', "first"), ('{"at": 1}', "second")]


def test_results_find_their_calls_by_id(gateway: AnsweringGateway) -> None:
    """router-for-me/CLIProxyAPI issue 3878."""
    results: list[Json] = [
        {"id": "call_b", "response": {"result": "second"}},
        {"id": "call_a", "response": {"result": "first"}},
    ]
    assert gateway.exchange(WHOLE, _ask_for_two(("call_a", "call_b"), results), _chat({"content": "ok"})).status == 200
    assert sorted(_read_pairs(gateway.sent)) == [('{"at": 0}', "first"), ('{"at": 1}', "second")]


def test_a_result_is_any_object(gateway: AnsweringGateway) -> None:
    """QuantumNous/new-api pull request 1166."""
    given = {"city": "Zürich", "days": [{"max": 3, "min": None}], "content": {"text": "x"}}
    gateway.exchange(WHOLE, _ask_for_two(("a", "b"), [{"id": id_, "response": given} for id_ in "ab"]), _chat({}))
    assert [json.loads(result) for _, result in _read_pairs(gateway.sent)] == [given, given]


@each_case("empty", [{"role": "model", "parts": []}, {"role": "model"}, {"role": "model", "parts": [{"text": ""}]}])
def test_a_turn_in_which_the_model_said_nothing_is_no_error(gateway: AnsweringGateway, empty: Json) -> None:
    """simonw/llm-gemini issue 100."""
    body = {"contents": [*HI["contents"], empty, {"role": "user", "parts": [{"text": "print it"}]}]}
    assert gateway.exchange(WHOLE, body, _chat({"content": "ok"})).status == 200


@each_case("path", [WHOLE, STREAM])
def test_a_reply_whose_tokens_went_into_thoughts_says_so(gateway: AnsweringGateway, path: str) -> None:
    """googleapis/go-genai issue 453."""
    usage: dict[str, Any] = {"prompt_tokens": 3078, "completion_tokens": 8191, "total_tokens": 11269}
    usage |= {"completion_tokens_details": {"reasoning_tokens": 8191}}
    answer = gateway.exchange(path, HI, _chat({"reasoning_content": "Hm."}, finish="length", usage=usage))
    last = answer.json if path == WHOLE else answer.frames[-1]
    [candidate] = last["candidates"]
    assert candidate["finishReason"] == "MAX_TOKENS"
    assert isinstance(candidate["content"].get("parts", []), list)
    assert (last["usageMetadata"]["thoughtsTokenCount"], last["usageMetadata"]["totalTokenCount"]) == (8191, 11269)


@each_case("path", [WHOLE, STREAM])
@each_case("second", ["call_1", "call_2", ""])
def test_parallel_calls_have_ids_of_their_own(gateway: AnsweringGateway, path: str, second: str) -> None:
    """cline/cline pull request 9768."""
    body = {**HI, "tools": [{"functionDeclarations": [{"name": "f"}]}]}
    deltas = (_call(0, "call_1", '{"a": 1}'), _call(1, second, '{"a": 2}'))
    answer = gateway.exchange(path, body, _chat(*deltas, finish="tool_calls"))
    chunks = [answer.json] if path == WHOLE else answer.frames
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"].get("parts", ())]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    assert [call["args"] for call in calls] == [{"a": 1}, {"a": 2}]
    assert len({call["id"] for call in calls}) == 2


@each_case("path", [WHOLE, STREAM])
def test_thoughts_are_counted_beside_the_text_and_cached_tokens_are_told(gateway: AnsweringGateway, path: str) -> None:
    """OpenMinis/OpenMinis issue 384."""
    usage: Json = {"prompt_tokens": 900, "completion_tokens": 796, "total_tokens": 1696}
    usage["completion_tokens_details"] = {"reasoning_tokens": 766}
    usage["prompt_tokens_details"] = {"cached_tokens": 640}
    answer = gateway.exchange(path, HI, _chat({"content": "ok"}, usage=usage))
    told = (answer.json if path == WHOLE else answer.frames[-1])["usageMetadata"]
    assert (told["candidatesTokenCount"], told["thoughtsTokenCount"]) == (30, 766)
    assert (told["cachedContentTokenCount"], told["totalTokenCount"]) == (640, 1696)


# -- servers of Gemini's API ---------------------------------------------------------------------------------------


def _gemini(*chunks: Json, streams: bool = True) -> httpx.Response:
    if not streams:
        return httpx.Response(200, json=chunks[0])
    return streamed(*(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in chunks))


def _chunk(*parts: Json, finish: str | None = None, **fields: Any) -> Json:
    ended = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **ended}], **fields}


OK = _chunk({"text": "ok"}, finish="STOP")
COMPLETIONS = "/v1/chat/completions"
USER: Json = {"role": "user", "content": "Hi"}


def _ask(model: str = "g", *, stream: bool = False, **fields: Any) -> Json:
    return {"model": model, "messages": [USER], "stream": stream, **fields}


def _calling(*ids: str, **fields: Any) -> Json:
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(id_: str) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": f"of {id_}"}


def test_calls_in_a_history_of_another_api_are_signed(gateway: AnsweringGateway) -> None:
    """theopenco/llmgateway issue 1267, musistudio/claude-code-router issue 1431."""
    own = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
    messages = [USER, _calling("a", "b"), _result("a"), _result("b"), _calling("c", **own), _result("c")]
    gateway.exchange(COMPLETIONS, _ask(messages=messages), _gemini(OK, streams=False))
    model = [content["parts"] for content in gateway.sent["contents"] if content["role"] == "model"]
    assert ["thoughtSignature" in part for part in model[0]] == [True, False]
    assert model[1][0]["thoughtSignature"] == "c2lnbmVk"


SCHEMA: Json = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$comment": "x",
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "map": {"type": "object", "propertyNames": {"pattern": "^a"}, "additionalProperties": {"type": "string"}},
        "mode": {"type": "string", "enum": ["a", "b"], "enumDescriptions": ["A", "B"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "fixed": {"const": "insert_text"},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["tags"],
    "additionalProperties": False,
}


def _send_tool(gateway: AnsweringGateway, model: str) -> Json:
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
    answer = gateway.exchange(COMPLETIONS, _ask(model, tools=[tool]), _gemini(OK, streams=False))
    assert answer.status == 200, answer.body
    declared: Json = gateway.sent["tools"][0]["functionDeclarations"][0]
    return declared


def test_the_dialect_of_a_schema_is_not_sent(gateway: AnsweringGateway) -> None:
    """router-for-me/CLIProxyAPI issue 97, PublicAffairs/openai-gemini issue 70."""
    declared = _send_tool(gateway, "g")
    assert "$schema" not in json.dumps(declared)
    assert declared["parametersJsonSchema"]["properties"]["fixed"] == {"const": "insert_text"}


def test_words_that_a_strict_server_does_not_know_are_not_sent(gateway: AnsweringGateway) -> None:
    """router-for-me/CLIProxyAPI issue 3512, diegosouzapw/OmniRoute issue 9617, automazeio/vibeproxy issue 338."""
    text = json.dumps(_send_tool(gateway, "strict"))
    for word in ("$schema", "$comment", "uniqueItems", "propertyNames", "enumDescriptions", "additionalProperties"):
        assert word not in text


def test_what_openapi_has_no_words_for_is_said_in_others(gateway: AnsweringGateway) -> None:
    """taylorwilsdon/google_workspace_mcp issue 1099, router-for-me/CLIProxyAPI issue 136."""
    properties = _send_tool(gateway, "strict")["parameters"]["properties"]
    assert (properties["maybe"]["type"], properties["maybe"]["nullable"]) == ("STRING", True)
    assert properties["fixed"]["enum"] == ["insert_text"]
    assert [one["type"] for one in properties["either"]["anyOf"]] == ["STRING", "INTEGER"]


MALFORMED = _chunk({"text": "", "thoughtSignature": "c2ln"}, finish="MALFORMED_FUNCTION_CALL")


def test_a_malformed_call_is_no_empty_reply(gateway: AnsweringGateway) -> None:
    """Wei-Shaw/sub2api issue 7081."""
    answer = gateway.exchange(COMPLETIONS, _ask(), _gemini(MALFORMED, streams=False))
    assert answer.status >= 400
    answer = gateway.exchange(COMPLETIONS, _ask(stream=True), _gemini(MALFORMED))
    assert answer.status >= 400 or "error" in answer.frames[-1]
    assert b"[DONE]" not in answer.body


@each_case("stream", [False, True])
def test_a_call_in_a_malformed_turn_is_not_given(gateway: AnsweringGateway, stream: bool) -> None:
    """NousResearch/hermes-agent pull request 83886."""
    called = {"functionCall": {"name": "f", "args": {"a": 1}}}
    chunk = _chunk(called, finish="MALFORMED_FUNCTION_CALL")
    answer = gateway.exchange(COMPLETIONS, _ask(stream=stream), _gemini(chunk, streams=stream))
    assert b'"finish_reason":"tool_calls"' not in answer.body.replace(b" ", b"")
    assert b'"error"' in answer.body


@each_case("apart", [False, True])
@each_case("stream", [False, True])
def test_each_call_is_an_item_of_its_own(gateway: AnsweringGateway, apart: bool, stream: bool) -> None:
    """smg-project/smg pull request 1407, brainlid/langchain pull request 620."""
    calls = [{"functionCall": {"name": "f", "args": {"city": city}}} for city in ("Denver", "Moab")]
    chunks = [_chunk(calls[0]), _chunk(calls[1], finish="STOP")] if apart else [_chunk(*calls, finish="STOP")]
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    body = {"model": "g", "input": "Hi", "stream": stream, "tools": [tool], "store": False}
    answer = gateway.exchange("/v1/responses", body, _gemini(*chunks))
    output = (answer.frames[-1]["response"] if stream else answer.json)["output"]
    items = [item for item in output if item["type"] == "function_call"]
    assert [json.loads(item["arguments"]) for item in items] == [{"city": "Denver"}, {"city": "Moab"}]
    assert len({item["call_id"] for item in items}) == 2


@each_case("stream", [False, True])
def test_a_candidate_with_an_empty_content_is_read(gateway: AnsweringGateway, stream: bool) -> None:
    """vercel/ai pull request 5039."""
    chunk: Json = {"candidates": [{"content": {}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 9056}}
    answer = gateway.exchange(COMPLETIONS, _ask(stream=stream), _gemini(chunk, streams=stream))
    assert answer.status == 200
    assert b'"finish_reason":"stop"' in answer.body.replace(b" ", b"")


def test_a_later_chunk_does_not_take_back_cached_tokens(gateway: AnsweringGateway) -> None:
    """OpenMinis/OpenMinis issue 384, mozilla-ai/any-llm issue 794."""
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 30, "thoughtsTokenCount": 766, "totalTokenCount": 896}
    chunks = (
        _chunk({"text": "o"}, usageMetadata={**usage, "cachedContentTokenCount": 80}),
        _chunk({"text": "k"}, finish="STOP", usageMetadata=usage),
    )
    answer = gateway.exchange(COMPLETIONS, _ask(), _gemini(*chunks))
    told = answer.json["usage"]
    assert (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]) == (100, 796, 896)
    assert told["prompt_tokens_details"]["cached_tokens"] == 80
    assert told["completion_tokens_details"]["reasoning_tokens"] == 766


def test_all_results_of_a_turn_are_in_one_content_in_the_order_of_the_calls(gateway: AnsweringGateway) -> None:
    """router-for-me/CLIProxyAPI issue 123, google-gemini/gemini-cli issue 21830."""
    use: list[Any] = [{"type": "tool_use", "id": id_, "name": "f", "input": {}} for id_ in ("a", "b", "c")]
    given = [{"type": "tool_result", "tool_use_id": id_, "content": f"of {id_}"} for id_ in ("c", "a", "b")]
    content = [{"type": "text", "text": "Note."}, *given, {"type": "text", "text": "Go on."}]
    messages = [USER, {"role": "assistant", "content": use}, {"role": "user", "content": content}]
    answer = gateway.exchange(
        "/v1/messages", {"model": "g", "max_tokens": 9, "messages": messages}, _gemini(OK, streams=False)
    )
    assert answer.status == 200, answer.body
    contents = gateway.sent["contents"]
    assert [one["role"] for one in contents] == ["user", "model", "user"]
    results = [part["functionResponse"]["id"] for part in contents[2]["parts"] if "functionResponse" in part]
    assert results == ["a", "b", "c"]
    assert ["functionResponse" in part for part in contents[2]["parts"][:3]] == [True] * 3


def test_an_error_in_a_list_is_an_error(gateway: AnsweringGateway) -> None:
    """0xsline/OpenChatCut issue 6."""
    error = {"code": 400, "message": "Function call is missing a thing", "status": "INVALID_ARGUMENT"}
    answer = gateway.exchange(COMPLETIONS, _ask(), httpx.Response(400, json=[{"error": error}]))
    assert answer.status == 400
    assert "Function call is missing a thing" in answer.json["error"]["message"]
