"""Replies of which everything is known, as the four APIs stream them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

Json = dict[str, Any]
ApiName: TypeAlias = Literal["chat_completions", "responses", "messages", "gemini"]
APIS: tuple[ApiName, ...] = ("chat_completions", "responses", "messages", "gemini")


class Frame(NamedTuple):
    """One event of a stream. A text in place of its data is written as it is."""

    name: str
    data: Any


class KnownReply(NamedTuple):
    reasoning: str = ""
    text: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    usage: tuple[int, int] = (21, 13)
    """The tokens of the prompt and of the reply."""


_CALLS: tuple[tuple[str, Json], ...] = (("f", {"city": "A b", "n": 3}), ("get_weather", {"city": "Oslo"}))
REPLIES = {
    "text": KnownReply("Both are near.", "The sky is blue, as ever."),
    "calls": KnownReply("Both are near.", "I look both up.", _CALLS),
    "one call": KnownReply(calls=_CALLS[:1]),
}
_SIZE = 6
"""Characters of a delta."""


def cut(text: str) -> list[str]:
    return [text[at : at + _SIZE] for at in range(0, len(text), _SIZE)]


def write_frames(api: ApiName, reply: KnownReply) -> list[Frame]:
    return list(_WRITERS[api](reply))


def write_stream(frames: Iterable[Frame]) -> bytes:
    return b"".join(map(_write_frame, frames))


def _write_frame(frame: Frame) -> bytes:
    if isinstance(frame.data, str):
        return f"{frame.data}\n\n".encode()
    head = f"event: {frame.name}\n" if frame.name else ""
    return f"{head}data: {json.dumps(frame.data)}\n\n".encode()


DONE = Frame("", "data: [DONE]")


def chunk(delta: Json, reason: str | None = None, **fields: Any) -> Frame:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return Frame("", {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **fields})


def _write_chat(reply: KnownReply) -> Iterator[Frame]:
    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": piece}) for piece in cut(reply.reasoning))
    yield from (chunk({"content": piece}) for piece in cut(reply.text))
    for index, (name, arguments) in enumerate(reply.calls):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]})
        for piece in cut(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    prompt, answer = reply.usage
    usage = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    yield Frame("", {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield DONE


def event(name: str, **fields: Any) -> Frame:
    return Frame(name, {"type": name, **fields})


def _write_messages(reply: KnownReply) -> Iterator[Frame]:
    prompt, answer = reply.usage
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
    yield event("message_start", message={**message, "usage": {"input_tokens": prompt, "output_tokens": 1}})
    blocks: list[tuple[Json, str, str, str]] = []
    if reply.reasoning:
        thinking = {"type": "thinking", "thinking": "", "signature": ""}
        blocks.append((thinking, "thinking_delta", "thinking", reply.reasoning))
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", reply.text))
    for index, (name, arguments) in enumerate(reply.calls):
        use = {"type": "tool_use", "id": f"c{index}", "name": name, "input": {}}
        blocks.append((use, "input_json_delta", "partial_json", json.dumps(arguments)))
    for index, (block, kind, field, text) in enumerate(blocks):
        yield event("content_block_start", index=index, content_block=block)
        for piece in cut(text):
            yield event("content_block_delta", index=index, delta={"type": kind, field: piece})
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": answer})
    yield event("message_stop")


def _write_responses(reply: KnownReply) -> Iterator[Frame]:
    response: Json = {"id": "r", "object": "response", "status": "in_progress", "output": [], "model": "m"}
    yield event("response.created", response=response)
    output: list[Json] = []
    if reply.reasoning:
        output.append({"type": "reasoning", "id": "rs0", "summary": []})
        yield from _write_part(output, "reasoning_text", "reasoning_text", reply.reasoning)
    if reply.text:
        output.append({"type": "message", "id": "m0", "role": "assistant", "status": "completed"})
        yield from _write_part(output, "output_text", "output_text", reply.text)
    for index, (name, arguments) in enumerate(reply.calls):
        text = json.dumps(arguments)
        call = {"type": "function_call", "id": f"fc{index}", "call_id": f"c{index}", "name": name}
        place: Json = {"output_index": len(output)}
        yield event("response.output_item.added", **place, item={**call, "arguments": "", "status": "in_progress"})
        place["item_id"] = call["id"]
        for piece in cut(text):
            yield event("response.function_call_arguments.delta", **place, delta=piece)
        yield event("response.function_call_arguments.done", **place, arguments=text)
        output.append({**call, "arguments": text, "status": "completed"})
        yield event("response.output_item.done", output_index=len(output) - 1, item=output[-1])
    prompt, answer = reply.usage
    usage = {"input_tokens": prompt, "output_tokens": answer, "total_tokens": prompt + answer}
    yield event("response.completed", response={**response, "status": "completed", "output": output, "usage": usage})


def _write_part(output: list[Json], kind: str, name: str, text: str) -> Iterator[Frame]:
    """Write the last item, with one part."""
    item = output.pop()
    place: Json = {"output_index": len(output)}
    yield event("response.output_item.added", **place, item={**item, "content": []})
    place |= {"item_id": item["id"], "content_index": 0}
    part = {"type": kind, "text": "", **({"annotations": []} if kind == "output_text" else {})}
    yield event("response.content_part.added", **place, part=part)
    for piece in cut(text):
        yield event(f"response.{name}.delta", **place, delta=piece)
    yield event(f"response.{name}.done", **place, text=text)
    part["text"] = text
    yield event("response.content_part.done", **place, part=part)
    output.append({**item, "content": [part]})
    yield event("response.output_item.done", output_index=place["output_index"], item=output[-1])


def gemini_chunk(*parts: Json, reason: str | None = None, **fields: Any) -> Frame:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    if reason is not None:
        candidate["finishReason"] = reason
    return Frame("", {"candidates": [candidate], **fields})


def _write_gemini(reply: KnownReply) -> Iterator[Frame]:
    yield from (gemini_chunk({"text": piece, "thought": True}) for piece in cut(reply.reasoning))
    yield from (gemini_chunk({"text": piece}) for piece in cut(reply.text))
    for index, (name, arguments) in enumerate(reply.calls):
        yield gemini_chunk({"functionCall": {"id": f"c{index}", "name": name, "args": arguments}})
    prompt, answer = reply.usage
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": answer, "totalTokenCount": prompt + answer}
    yield gemini_chunk({"text": ""}, reason="STOP", usageMetadata=usage)


_WRITERS = {
    "chat_completions": _write_chat,
    "responses": _write_responses,
    "messages": _write_messages,
    "gemini": _write_gemini,
}
