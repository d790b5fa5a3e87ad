"""Writes the reply as OpenAI's `chat.completion.chunk`s or as one `chat.completion`."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from app.demo.brain import Called, Delta, Done, Said, Thought
from app.demo.request import Request

Json = dict[str, Any]


def text(value: Json) -> str:
    """JSON on one line; half a surrogate pair stays an escape, for it has no UTF-8."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return written.encode("utf-8", "backslashreplace").decode("utf-8")


def chunks(request: Request, deltas: Sequence[Delta], created: int) -> Iterator[Json]:
    head = _head(request, "chat.completion.chunk", created)
    yield {**head, "choices": [_choice({"role": "assistant", "content": ""})]}
    for delta in deltas:
        match delta:
            case Thought():
                yield {**head, "choices": [_choice({"reasoning_content": delta.text})]}
            case Said():
                yield {**head, "choices": [_choice({"content": delta.text})]}
            case Called():
                yield {**head, "choices": [_choice({"tool_calls": [_fragment(delta)]})]}
            case Done():
                yield {**head, "choices": [_choice({}, delta.reason)]}
                if request.include_usage:
                    yield {**head, "choices": [], "usage": _usage(delta)}
            case _:
                assert_never(delta)


def completion(request: Request, deltas: Sequence[Delta], created: int) -> Json:
    done = next(delta for delta in deltas if isinstance(delta, Done))
    message: Json = {"role": "assistant", "content": "".join(each.text for each in deltas if isinstance(each, Said))}
    thought = "".join(each.text for each in deltas if isinstance(each, Thought))
    calls = _whole_calls([each for each in deltas if isinstance(each, Called)])
    message |= {"reasoning_content": thought} if thought else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": done.reason}
    return {**_head(request, "chat.completion", created), "choices": [choice], "usage": _usage(done)}


def models() -> Json:
    model = {"id": "parley-demo", "object": "model", "created": 0, "owned_by": "parley"}
    return {"object": "list", "data": [model]}


def error(
    message: str, *, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None
) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _head(request: Request, kind: str, created: int) -> Json:
    return {"id": f"chatcmpl-{request.fingerprint[:24]}", "object": kind, "created": created, "model": request.model}


def _choice(delta: Json, reason: str | None = None) -> Json:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _fragment(delta: Called) -> Json:
    if delta.id:
        return {
            "index": delta.index,
            "id": delta.id,
            "type": "function",
            "function": {"name": delta.name, "arguments": ""},
        }
    return {"index": delta.index, "function": {"arguments": delta.arguments}}


def _whole_calls(fragments: Sequence[Called]) -> list[Json]:
    whole = []
    for first in (each for each in fragments if each.id):
        arguments = "".join(each.arguments for each in fragments if each.index == first.index)
        whole.append({"id": first.id, "type": "function", "function": {"name": first.name, "arguments": arguments}})
    return whole


def _usage(done: Done) -> Json:
    return {
        "prompt_tokens": done.prompt_tokens,
        "completion_tokens": done.completion_tokens,
        "total_tokens": done.prompt_tokens + done.completion_tokens,
        "completion_tokens_details": {"reasoning_tokens": done.reasoning_tokens},
    }
