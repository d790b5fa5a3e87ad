"""Writes the reply as OpenAI's `chat.completion.chunk`s or as one `chat.completion`."""

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from app.chat.events import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.demo.model import ReplyEvent
from app.demo.request import Question


def write_chunks(question: Question, events: Sequence[ReplyEvent]) -> Iterator[dict[str, Any]]:
    head = _write_head(question, "chat.completion.chunk")
    yield {**head, "choices": [_write_choice({"role": "assistant", "content": ""})]}
    for event in events:
        match event:
            case ReasoningDelta():
                yield {**head, "choices": [_write_choice({"reasoning_content": event.text})]}
            case TextDelta():
                yield {**head, "choices": [_write_choice({"content": event.text})]}
            case ToolCallDelta():
                yield {**head, "choices": [_write_choice({"tool_calls": [_write_call_delta(event)]})]}
            case Finish():
                yield {**head, "choices": [_write_choice({}, event.reason)]}
                if question.body.stream_options.get("include_usage"):
                    yield {**head, "choices": [], "usage": event.usage}
            case _:
                assert_never(event)


def write_completion(question: Question, events: Sequence[ReplyEvent]) -> dict[str, Any]:
    finish = next(event for event in events if isinstance(event, Finish))
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    content = "".join(event.text for event in events if isinstance(event, TextDelta))
    calls = _assemble_calls([event for event in events if isinstance(event, ToolCallDelta)])
    message: dict[str, Any] = {"role": "assistant", "content": None if calls and not content else content}
    message |= {"reasoning_content": thought} if thought else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": finish.reason}
    return {**_write_head(question, "chat.completion"), "choices": [choice], "usage": finish.usage}


def write_models() -> dict[str, Any]:
    model = {"id": "parley-demo", "object": "model", "created": 0, "owned_by": "parley"}
    return {"object": "list", "data": [model]}


def write_error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _write_head(question: Question, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{question.fingerprint[:24]}", "object": kind, "created": 0, "model": question.body.model}


def _write_choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _write_call_delta(delta: ToolCallDelta) -> dict[str, Any]:
    if not delta.id:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"index": delta.index, "id": delta.id, "type": "function", "function": function}


def _assemble_calls(deltas: Sequence[ToolCallDelta]) -> list[dict[str, Any]]:
    calls = []
    for first in (delta for delta in deltas if delta.id):
        arguments = "".join(delta.arguments for delta in deltas if delta.index == first.index)
        calls.append({"id": first.id, "type": "function", "function": {"name": first.name, "arguments": arguments}})
    return calls
