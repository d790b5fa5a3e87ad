"""Replies of model servers in which one value has another type than its API says: every value of every event in turn.

The samples have each field that a reader looks at, so that no field can be used without a look at its type.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

Json = dict[str, Any]

ODD_VALUES: tuple[Any, ...] = (
    0,
    -1,
    1.5,
    2**70,
    True,
    False,
    None,
    "",
    "odd",
    "\ud83d",
    float("nan"),
    float("inf"),
    "[1]",
    [],
    [7],
    [[]],
    [None, {"type": ["odd"]}],
    {},
    {"type": []},
    {"type": {"odd": [1]}},
    {"odd": {"text": [{}]}},
)
"""What stands in the place of a value."""


class OddReply(NamedTuple):
    """A reply of one API in which one value is another one, or is missing."""

    api: str
    number: int
    """Which of the events, or of the whole replies, has the value."""
    is_whole: bool
    path: tuple[str | int, ...]
    value: Any
    """`MISSING` for none."""

    @property
    def name(self) -> str:
        sample = "whole reply" if self.is_whole else "event"
        return f"{self.api}, {sample} {self.number}, {self.path} = {self.value!r}"

    def write(self) -> bytes:
        samples = (REPLIES if self.is_whole else STREAMS)[self.api]
        event = _replace(samples[self.number], self.path, self.value)
        if self.is_whole:
            return json.dumps(event).encode()
        events = [*samples[: self.number], event, *samples[self.number + 1 :]]
        return b"".join(_write_frame(self.api, each) for each in events)


MISSING = object()
_NAMES = ("chat_completions", "responses", "messages", "gemini")


def list_replies() -> Iterator[OddReply]:
    """Yield each sample with each of its values replaced by each odd one, and with each removed."""
    for api in _NAMES:
        for is_whole, samples in ((False, STREAMS[api]), (True, REPLIES[api])):
            for number, sample in enumerate(samples):
                for path in _list_paths(sample):
                    for value in (*ODD_VALUES, MISSING):
                        yield OddReply(api, number, is_whole, path, value)


def list_ragged() -> Iterator[OddReply]:
    """Yield each sample with half a surrogate pair in each of its texts, and in the name of a field of each object."""
    for api in _NAMES:
        for is_whole, samples in ((False, STREAMS[api]), (True, REPLIES[api])):
            for number, sample in enumerate(samples):
                for path in _list_paths(sample):
                    for value in _list_ragged_values(_find(sample, path)):
                        yield OddReply(api, number, is_whole, path, value)


def _list_ragged_values(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from (value + "\ud83d", "\ude00" + value, value[:1] + "\udfff" + value[1:], json.dumps({"a": "\ud83d"}))
    elif isinstance(value, dict):
        yield {**value, "\ud83d": 1, "a\udc00": {"\ud83d": "\ud83d"}}


def _find(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def list_errors() -> Iterator[bytes]:
    """Yield each sample of an error body with each of its values replaced by each odd one."""
    return _list_bodies(ERRORS)


def list_model_lists() -> Iterator[bytes]:
    """Yield the same of a list of models."""
    return _list_bodies(MODEL_LISTS)


def _list_bodies(samples: list[Any]) -> Iterator[bytes]:
    for sample in samples:
        for path in _list_paths(sample):
            for value in ODD_VALUES:
                yield json.dumps(_replace(sample, path, value)).encode()


def _list_paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _list_paths(inner, (*path, key))


def _replace(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is MISSING:
        del copy[path[0]]
    else:
        copy[path[0]] = _replace(copy[path[0]], path[1:], new)
    return copy


def _write_frame(api: str, event: Any) -> bytes:
    name = event.get("type") if isinstance(event, dict) and api != "chat_completions" else None
    line = f"event: {name}\n" if isinstance(name, str) and name.isprintable() and name.isascii() else ""
    return f"{line}data: {json.dumps(event)}\n\n".encode()


_CHAT_USAGE: Json = {
    "prompt_tokens": 3,
    "completion_tokens": 5,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 2},
    "cache_read_input_tokens": 1,
    "cost": {"total_cost": "0.1"},
    "cost_in_usd_ticks": 5,
}
_DETAILS = [
    {"type": "reasoning.text", "id": "r1", "index": 0, "format": "anthropic-claude-v1", "text": "Hm", "signature": "s"},
    {"type": "reasoning.encrypted", "id": "r2", "index": 1, "data": "AAAA", "format": "openai-responses-v1"},
    {"type": "reasoning.summary", "summary": "In short", "index": 2},
    {"type": "provider.item", "item": {"type": "web_search_call", "id": "ws"}, "format": "openai-responses-v1"},
    {"type": "provider.item", "item": {"type": "server_tool_use", "id": "st"}, "format": "anthropic-claude-v1"},
]
_LOGPROBS = {
    "content": [
        {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": [{"token": "Hi", "logprob": -0.1}]}
    ],
    "refusal": None,
}
_CALL: Json = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city"'},
    "extra_content": {"google": {"thought_signature": "AA"}},
}
_MESSAGE: Json = {
    "role": "assistant",
    "content": [{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "Hm", "signature": "s"}],
    "reasoning_content": "Hm",
    "reasoning_details": _DETAILS,
    "refusal": "No",
    "tool_calls": [{**_CALL, "function": {"name": "get_weather", "arguments": '{"city": "A"}'}}],
    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}],
    "audio": {"id": "a", "data": "AAAA", "transcript": "Hi", "format": "wav"},
    "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    "reasoning_opaque": "AAAA",
    "thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": "s"}],
    "provider_specific_fields": {"reasoning_content": "Hm"},
}


def _chunk(delta: Json, **fields: Any) -> Json:
    return {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, **fields}]}


_CHAT_STREAM: list[Json] = [
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"reasoning_content": "Hm", "reasoning": "Hm", "reasoning_text": "Hm", "reasoning_opaque": "AAAA"}),
    _chunk({"reasoning_details": _DETAILS}),
    _chunk({"content": "Hi"}, logprobs=_LOGPROBS),
    _chunk({"content": [{"type": "text", "text": "there"}, {"type": "reference", "reference_ids": [0]}]}),
    _chunk({"refusal": "No", "annotations": _MESSAGE["annotations"], "images": _MESSAGE["images"]}),
    _chunk({"audio": _MESSAGE["audio"]}),
    _chunk({"tool_calls": [_CALL]}),
    _chunk({"tool_calls": [{"index": 0, "function": {"arguments": ': "A"}'}}]}),
    _chunk({"function_call": {"name": "f", "arguments": "{}"}, "extra_content": {"a": 1}}),
    _chunk(
        {},
        finish_reason="stop",
        native_finish_reason="STOP",
        stop_reason="x",
        matched_stop="x",
        usage=_CHAT_USAGE,
        error=None,
    ),
    {"choices": [], "usage": _CHAT_USAGE, "x_groq": {"usage": _CHAT_USAGE}, "citations": ["https://a.example"]},
    {"error": {"message": "late", "code": 500, "metadata": {"raw": "x"}, "errors": [{"code": 1}]}, "choices": None},
]

_PART: Json = {
    "type": "output_text",
    "text": "Hi",
    "annotations": [{"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0}],
    "logprobs": _LOGPROBS["content"],
}
_OUTPUT: list[Json] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm"}],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
        "encrypted_content": "AAAA",
        "status": "completed",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [_PART, {"type": "refusal", "refusal": "No"}],
        "phase": "final_answer",
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "get_weather",
        "arguments": '{"city": "A"}',
        "namespace": "a",
        "caller": {"type": "direct"},
    },
    {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "patch", "input": "x"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "image_generation_call", "id": "ig_1", "result": "AAAA", "output_format": "png"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "AAAA"},
    {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "output": "x", "server_label": "s"},
    {"type": "tool_search_call", "id": "ts_1", "call_id": "c3", "execution": "client", "arguments": {"query": "x"}},
]
_RESPONSES_USAGE = {
    "input_tokens": 3,
    "output_tokens": 5,
    "total_tokens": 8,
    "input_tokens_details": {"cached_tokens": 1},
    "output_tokens_details": {"reasoning_tokens": 2},
}
_RESPONSE: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "up",
    "output": _OUTPUT,
    "usage": _RESPONSES_USAGE,
    "error": None,
    "incomplete_details": {"reason": None},
}


def _event(type_: str, **fields: Any) -> Json:
    return {"type": f"response.{type_}", "sequence_number": 1, **fields}


def _item_events() -> Iterator[Json]:
    for index, item in enumerate(_OUTPUT):
        place = {"output_index": index, "item_id": item["id"]}
        part = {**place, "content_index": 0}
        yield _event("output_item.added", output_index=index, item={**item, "status": "in_progress"})
        match item["type"]:
            case "reasoning":
                yield _event("reasoning_summary_text.delta", **place, summary_index=0, delta="Hm")
                yield _event("reasoning_summary_text.done", **place, summary_index=0, text="Hm")
                yield _event("reasoning_text.delta", **part, delta="Hm")
            case "message":
                yield _event("content_part.added", **part, part=_PART)
                yield _event("output_text.delta", **part, delta="Hi", logprobs=_LOGPROBS["content"])
                yield _event(
                    "output_text.annotation.added", **part, annotation_index=0, annotation=_PART["annotations"][0]
                )
                yield _event("output_text.done", **part, text="Hi", logprobs=_LOGPROBS["content"])
                yield _event("refusal.delta", **part, delta="No")
                yield _event("refusal.done", **part, refusal="No")
                yield _event("content_part.done", **part, part=_PART)
            case "function_call":
                yield _event("function_call_arguments.delta", **place, delta='{"city": "A"}')
                yield _event("function_call_arguments.done", **place, arguments='{"city": "A"}')
            case "custom_tool_call":
                yield _event("custom_tool_call_input.delta", **place, delta="x")
                yield _event("custom_tool_call_input.done", **place, input="x")
        yield _event("output_item.done", output_index=index, item=item)


_RESPONSES_STREAM: list[Json] = [
    _event("created", response={**_RESPONSE, "output": [], "status": "in_progress"}),
    *_item_events(),
    _event("completed", response=_RESPONSE),
]
_FAILED: Json = {**_RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "no", "type": "x"}}
_INCOMPLETE: Json = {**_RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}

_MESSAGES_USAGE = {
    "input_tokens": 3,
    "output_tokens": 5,
    "cache_read_input_tokens": 1,
    "cache_creation_input_tokens": 1,
    "cache_creation": {"ephemeral_5m_input_tokens": 1},
    "server_tool_use": {"web_search_requests": 1},
}
_BLOCKS: list[tuple[Json, list[Json]]] = [
    (
        {"type": "thinking", "thinking": "", "signature": ""},
        [{"type": "thinking_delta", "thinking": "Hm"}, {"type": "signature_delta", "signature": "s"}],
    ),
    ({"type": "redacted_thinking", "data": "AAAA"}, []),
    (
        {"type": "text", "text": "", "citations": [{"type": "char_location", "cited_text": "x"}]},
        [{"type": "text_delta", "text": "Hi"}, {"type": "citations_delta", "citation": {"type": "page_location"}}],
    ),
    (
        {"type": "server_tool_use", "id": "st_1", "name": "web_search", "input": {}},
        [{"type": "input_json_delta", "partial_json": '{"query": "x"}'}],
    ),
    ({"type": "web_search_tool_result", "tool_use_id": "st_1", "content": [{"type": "web_search_result"}]}, []),
    (
        {"type": "compaction", "content": "", "encrypted_content": ""},
        [{"type": "compaction_delta", "content": "A", "encrypted_content": "BBBB"}],
    ),
    (
        {
            "type": "tool_use",
            "id": "t1",
            "name": "get_weather",
            "input": {},
            "caller": {"type": "code", "tool_id": "x"},
        },
        [
            {"type": "input_json_delta", "partial_json": '{"city"'},
            {"type": "input_json_delta", "partial_json": ': "A"}'},
        ],
    ),
]
_HEAD: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "usage": _MESSAGES_USAGE}


def _block_events() -> Iterator[Json]:
    for index, (block, deltas) in enumerate(_BLOCKS):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


_MESSAGES_STREAM: list[Json] = [
    {"type": "message_start", "message": {**_HEAD, "content": [], "input_transformations": [{"type": "x"}]}},
    *_block_events(),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": _MESSAGES_USAGE,
        "provider_metadata": {"gateway": {"cost": "0.1"}},
    },
    {"type": "message_stop"},
]
_WHOLE_BLOCKS: list[Json] = [
    {"type": "thinking", "thinking": "Hm", "signature": "s"},
    {"type": "redacted_thinking", "data": "AAAA"},
    {"type": "text", "text": "Hi", "citations": [{"type": "char_location", "cited_text": "x"}]},
    {"type": "server_tool_use", "id": "st_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "A"}},
]
_ERROR: Json = {"type": "error", "error": {"type": "overloaded_error", "message": "no"}, "request_id": "r"}

_SIGNED = {"thoughtSignature": "AAAA"}
_GEMINI_USAGE = {
    "promptTokenCount": 3,
    "toolUsePromptTokenCount": 1,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "cachedContentTokenCount": 1,
    "totalTokenCount": 11,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}],
}
_GEMINI_PARTS: list[Json] = [
    {"text": "Hm", "thought": True},
    {"text": "Hi", **_SIGNED},
    {"executableCode": {"code": "1", "language": "PYTHON"}, **_SIGNED},
    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, **_SIGNED},
    {"functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "A"}}, **_SIGNED},
    {"functionCall": {"name": "get_weather", "willContinue": True}},
    {
        "functionCall": {
            "partialArgs": [
                {"jsonPath": "$.city", "stringValue": "A", "willContinue": True},
                {"jsonPath": "$.n[0]", "numberValue": 1},
            ],
            "willContinue": True,
        }
    },
    {"functionCall": {}},
]
_GROUNDING: Json = {
    "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
    "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 2}, "groundingChunkIndices": [0]}],
}


def _candidate(*parts: Json, **fields: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **fields}]}


_GEMINI_STREAM: list[Json] = [
    *(_candidate(part) | {"usageMetadata": _GEMINI_USAGE} for part in _GEMINI_PARTS),
    _candidate(finishReason="STOP", finishMessage="x", groundingMetadata=_GROUNDING),
]
_BLOCKED: Json = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}

STREAMS: dict[str, list[Json]] = {
    "gemini": _GEMINI_STREAM,
    "chat_completions": _CHAT_STREAM,
    "responses": _RESPONSES_STREAM,
    "messages": _MESSAGES_STREAM,
}
REPLIES: dict[str, list[Json]] = {
    "gemini": [
        _candidate(*_GEMINI_PARTS, finishReason="MALFORMED_FUNCTION_CALL", finishMessage="x"),
        _candidate(*_GEMINI_PARTS, finishReason="SAFETY", finishMessage="x", groundingMetadata=_GROUNDING),
        _BLOCKED,
    ],
    "chat_completions": [
        {
            "id": "1",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": _MESSAGE, "logprobs": _LOGPROBS, "finish_reason": "stop"}],
            "usage": _CHAT_USAGE,
        },
        {"base_resp": {"status_code": 1004, "status_msg": "no"}, "object": "error", "message": "no", "detail": "no"},
    ],
    "responses": [_RESPONSE, _FAILED, _INCOMPLETE],
    "messages": [
        {**_HEAD, "content": _WHOLE_BLOCKS, "stop_reason": "stop_sequence", "stop_sequence": "x"},
        _ERROR,
    ],
}
ERRORS: list[Any] = [
    {
        "error": {
            "message": "no",
            "type": "t",
            "code": "c",
            "param": "p",
            "innererror": {"code": "x"},
            "metadata": {"raw": '{"error": {"message": "x"}}', "provider_name": "x"},
            "errors": [{"code": 1, "message": "x", "type": "x"}],
            "failed_generation": "x",
        }
    },
    {"detail": [{"loc": ["a", 1], "msg": "x", "type": "y"}]},
    {"base_resp": {"status_code": 1004, "status_msg": "x"}},
    [{"error": {"code": 400, "message": "x", "details": [{"@type": "x", "retryDelay": "3s"}]}}],
    {
        "error": {
            "code": 429,
            "message": "x",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"violations": [{"quotaId": "x"}], "reason": "x", "retryDelay": "3s"}],
        }
    },
    {"code": 20015, "message": "x", "data": None, "status_code": 400, "__type": "x", "error_type": "x"},
    {"Response": {"Error": {"Code": "x", "Message": "y"}}},
    {"error": "x", "errors": ["a", {"message": "b"}], "title": "x", "faultstring": "y"},
]
MODEL_LISTS: list[Any] = [
    {"object": "list", "data": [{"id": "a", "owned_by": "x", "meta": {"n_ctx": 5}, "max_model_len": 5}]},
    {"models": [{"name": "models/a", "inputTokenLimit": 5}]},
]
