"""Sends a call with faults through the gateway's reading of a reply, and judges what comes out."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from app.chat.events import Event, Finish
from app.chat.messages import ChatRequest, Tool
from app.chat.template_tokens import TOKEN
from app.profiles import Profile
from app.steps.pipeline import reply_stages
from app.upstream.api import find_api

from tests.faults.model import CallFault
from tests.steps.stage_runner import Reply, run, texts

Json = dict[str, Any]
Outcome: TypeAlias = Literal["right", "warned", "error", "text", "wrong"]
"""`error`: the reply has failed. `text`: it has lost every token of its template, and stays the text that it is."""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = tuple(Tool(name, {"name": name, "parameters": SCHEMA}) for name in ("f", "get_weather"))
REQUEST = ChatRequest("m", (), TOOLS)
VALUES: tuple[Json, ...] = ({"city": "A b", "n": 3}, {"city": "A b"})
APIS = ("chat_completions", "messages", "responses")


def read_text(text: str, family: str, seed: int | None) -> Reply:
    """Read a reply of this text, cut as the seed says."""
    stages = reply_stages(REQUEST, Profile.model_validate({"text_tools": family}), "chat-1")
    return run(stages, texts(text, seed))


def judge(reply: Reply, calls: Sequence[tuple[str, Json]], prose: Sequence[str], text: str = "") -> Outcome:
    """Whether these calls came out and these texts; or only text, with a warning; or something else. `text` is what
    the reply had."""
    found, shown = [], []
    for one in reply.short():
        if one[0] == "F":
            try:
                found.append((one[1], json.loads(one[2])))
            except ValueError:
                return "wrong"
        elif one[1].strip():
            shown.append(one[1].strip())
    if found == list(calls) and shown == list(prose):
        return "right"
    if not found and shown and not TOKEN.search(text) and text.strip() == "".join(shown):
        return "text"
    end = reply.end
    is_warned = bool(reply.warnings) or (isinstance(end, Finish) and bool(end.warnings))
    return "warned" if is_warned and all(call in calls for call in found) else "wrong"


def read_call(api: str, name: str, arguments: str, size: int) -> Reply:
    """Read a reply with one structured call over an API, its arguments in pieces of this size."""
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    reader = find_api(api).make_reader("chat-1")
    events: list[Event] = []
    for data in _WRITERS[api](name, pieces):
        events += reader.assembler.feed(reader.events.feed(data))
    if not reader.assembler.ended:
        items = reader.events.close(clean=True)
        events += reader.assembler.feed(items) + reader.assembler.close(reader.events.junk, None)
    return run(reply_stages(REQUEST, Profile(), "chat-1"), [[event] for event in events], end=None)


def _frame(value: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def _write_chat(name: str, pieces: list[str]) -> Iterator[bytes]:
    def delta(value: Json, reason: str | None = None) -> bytes:
        return _frame({"choices": [{"index": 0, "delta": value, "finish_reason": reason}]})

    function = {"name": name, "arguments": ""}
    yield delta({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
    for piece in pieces:
        yield delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield delta({}, "tool_calls") + b"data: [DONE]\n\n"


def _write_messages(name: str, pieces: list[str]) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return _frame({"type": kind, **fields}, kind)

    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    yield event("message_start", message=message)
    block = {"type": "tool_use", "id": "c1", "name": name, "input": {}}
    yield event("content_block_start", index=0, content_block=block)
    for piece in pieces:
        yield event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
    yield event("content_block_stop", index=0)
    yield event("message_delta", delta={"stop_reason": "tool_use"}, usage=usage) + event("message_stop")


def _write_responses(name: str, pieces: list[str]) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return _frame({"type": kind, **fields}, kind)

    item = {"type": "function_call", "id": "fc1", "call_id": "c1", "name": name, "arguments": "", "status": "x"}
    whole = {**item, "arguments": "".join(pieces), "status": "completed"}
    yield event("response.created", response={"id": "r", "object": "response", "status": "in_progress", "output": []})
    yield event("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
    for piece in pieces:
        yield event("response.function_call_arguments.delta", output_index=0, item_id="fc1", delta=piece)
    done = {"output_index": 0, "item_id": "fc1", "arguments": "".join(pieces)}
    yield event("response.function_call_arguments.done", **done)
    yield event("response.output_item.done", output_index=0, item=whole)
    response = {"id": "r", "object": "response", "status": "completed", "output": [whole], "usage": None}
    yield event("response.completed", response=response)


_WRITERS = {"chat_completions": _write_chat, "messages": _write_messages, "responses": _write_responses}


def judge_call(fault: CallFault, api: str, size: int) -> Outcome:
    values = {"city": "A b"}
    name, arguments = fault.change("f", json.dumps(values))
    return judge(read_call(api, name, arguments, size), [("f", values)], [])


def judge_pair(pair: tuple[CallFault, CallFault]) -> Outcome:
    values = {"city": "A b"}
    name, arguments = "f", json.dumps(values)
    for fault in pair:
        name, arguments = fault.change(name, arguments)
    return judge(read_call("chat_completions", name, arguments, 5), [("f", values)], [])
