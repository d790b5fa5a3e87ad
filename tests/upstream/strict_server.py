"""Answers as a model server does that is as strict as the strictest of its kind."""

import json
from typing import Any

import httpx

from tests.in_process_gateway import streamed
from tests.upstream.strict_rules import CHAT, GEMINI, MESSAGES, RESPONSES, find_refusal

Json = dict[str, Any]

_CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
_MESSAGE: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_reason": "end_turn"}
_MESSAGE |= {"content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
_OUTPUT: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
_OUTPUT |= {"content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
_RESPONSE = {"id": "resp_1", "object": "response", "status": "completed", "model": "up", "output": [_OUTPUT]}
_CONTENT = {"role": "model", "parts": [{"text": "Hi"}]}
_CANDIDATE = {"candidates": [{"content": _CONTENT, "finishReason": "STOP", "index": 0}]}
REPLIES: dict[str, Any] = {MESSAGES: _MESSAGE, RESPONSES: _RESPONSE, GEMINI: _CANDIDATE}


def reply(request: httpx.Request) -> httpx.Response:
    """Answer as a server does that is as strict as its kind: the host is `<kind>.<api>.test`."""
    kind, api, _ = request.url.host.split(".")
    kind = kind.replace("-", "_")
    api = CHAT if api == "chat" else api
    fault = find_refusal(json.loads(request.content), api, kind)
    if fault is not None:
        return httpx.Response(400, json={"error": {"message": fault, "type": "invalid_request_error"}})
    if api == CHAT:
        return streamed(b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(_CHUNK).encode())
    return httpx.Response(200, json=REPLIES[api])
