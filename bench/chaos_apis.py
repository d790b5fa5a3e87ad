"""The four APIs of the chaos run's model servers: what a request says, and how a reply to it is written.

Every server speaks all four. Replies are the same in each, so that one that another upstream gives, by another API, is
checked like any other.
"""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from chaos_replies import Answer

Json = dict[str, Any]


class Api(ABC):
    """How one API is written. Messages are in the form of chat completions."""

    def read_request(self, path: str, body: Json) -> Json:
        """Return the body with the fields `model` and `stream`."""
        return body

    @abstractmethod
    def read_messages(self, body: Json) -> list[Json]:
        """Return the conversation of a request."""

    @abstractmethod
    def write_whole(self, reply: Answer, model: str) -> Json: ...

    @abstractmethod
    def write_events(self, reply: Answer, model: str, pick: random.Random) -> Iterator[bytes]:
        """Write the events of a stream."""

    @abstractmethod
    def write_error(self, message: str) -> bytes:
        """Write the event of a failure within a stream."""


class ChatCompletions(Api):
    def read_messages(self, body: Json) -> list[Json]:
        return list(body["messages"])

    def write_whole(self, reply: Answer, model: str) -> Json:
        message: Json = {"role": "assistant", "content": reply.content, "reasoning_content": reply.reasoning}
        if reply.calls:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id_, name, arguments in reply.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        return {"id": "x", "object": "chat.completion", "model": model, "choices": [choice], "usage": _usage(reply)}

    def write_events(self, reply: Answer, model: str, pick: random.Random) -> Iterator[bytes]:
        yield _write_chunk({"role": "assistant", "content": ""}, model)
        for text in _cut(reply.reasoning, pick):
            yield _write_chunk({"reasoning_content": text}, model)
        for text in _cut(reply.content, pick):
            yield _write_chunk({"content": text}, model)
        for index, (id_, name, arguments) in enumerate(reply.calls):
            call = {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
            yield _write_chunk({"tool_calls": [call]}, model)
            for text in _cut(arguments, pick):
                yield _write_chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]}, model)
        yield _write_chunk({}, model, reply.finish_reason)
        yield _write(
            {"id": "x", "object": "chat.completion.chunk", "model": model, "choices": [], "usage": _usage(reply)}
        )
        yield b"data: [DONE]\n\n"

    def write_error(self, message: str) -> bytes:
        return _write({"error": {"message": message, "code": 500}})


_EMPTY: dict[str, Json] = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
"""What an item of each type has as it begins."""


class Responses(Api):
    def read_messages(self, body: Json) -> list[Json]:
        items = body["input"]
        if isinstance(items, str):
            return [{"role": "user", "content": items}]
        messages: list[Json] = []
        for item in items:
            kind = item.get("type", "message")
            if kind == "function_call_output":
                messages.append(
                    {"role": "tool", "tool_call_id": item["call_id"], "content": _read_text(item["output"])}
                )
            elif kind == "message" and item["role"] != "assistant":
                messages.append({"role": item["role"], "content": _read_text(item["content"])})
            else:
                turn = _open_turn(messages)
                if kind == "function_call":
                    turn["tool_calls"].append(_call(item["call_id"], item["name"], item["arguments"]))
        return messages

    def write_whole(self, reply: Answer, model: str) -> Json:
        return self._write_response(reply, model, list(self._list_items(reply)))

    def _write_response(self, reply: Answer, model: str, output: list[Json]) -> Json:
        given, used = reply.prompt_tokens, reply.completion_tokens
        usage = {"input_tokens": given, "output_tokens": used, "total_tokens": given + used}
        fields = {"id": "x", "object": "response", "model": model, "status": "completed"}
        return {**fields, "output": output, "usage": usage}

    def _list_items(self, reply: Answer) -> Iterator[Json]:
        if reply.reasoning:
            summary = [{"type": "summary_text", "text": reply.reasoning}]
            yield {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "an opaque text"}
        if reply.content:
            content = [{"type": "output_text", "text": reply.content, "annotations": []}]
            yield {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        for id_, name, arguments in reply.calls:
            yield {"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name, "arguments": arguments}

    def write_events(self, reply: Answer, model: str, pick: random.Random) -> Iterator[bytes]:
        for number, event in enumerate(self._list_events(reply, model, pick)):
            yield _write_named({**event, "sequence_number": number})

    def _list_events(self, reply: Answer, model: str, pick: random.Random) -> Iterator[Json]:
        head = {"id": "x", "object": "response", "model": model, "status": "in_progress", "output": []}
        yield {"type": "response.created", "response": head}
        yield {"type": "response.in_progress", "response": head}
        texts = {
            "reasoning": "reasoning_summary_text",
            "message": "output_text",
            "function_call": "function_call_arguments",
        }
        items = list(self._list_items(reply))
        for index, item in enumerate(items):
            kind = item["type"]
            empty: Json = _EMPTY[kind]
            yield {"type": "response.output_item.added", "output_index": index, "item": item | empty}
            text = {"reasoning": reply.reasoning, "message": reply.content}.get(kind) or item["arguments"]
            for piece in _cut(text, pick):
                place = {"item_id": item["id"], "output_index": index, "content_index": 0, "summary_index": 0}
                yield {"type": f"response.{texts[kind]}.delta", **place, "delta": piece}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": self._write_response(reply, model, items)}

    def write_error(self, message: str) -> bytes:
        return _write_named({"type": "error", "code": "server_error", "message": message})


class Messages(Api):
    def read_messages(self, body: Json) -> list[Json]:
        messages: list[Json] = []
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                kind = block["type"]
                if kind == "tool_result":
                    text = _read_text(block["content"])
                    messages.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
                elif message["role"] == "assistant":
                    turn = _open_turn(messages)
                    if kind == "tool_use":
                        turn["tool_calls"].append(_call(block["id"], block["name"], json.dumps(block["input"])))
                else:
                    messages.append({"role": message["role"], "content": block["text"]})
        return messages

    def write_whole(self, reply: Answer, model: str) -> Json:
        blocks = [{**begun, field: text} for begun, field, text in self._list_blocks(reply)]
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["input"])
        usage = {"input_tokens": reply.prompt_tokens, "output_tokens": reply.completion_tokens}
        head = {"id": "x", "type": "message", "role": "assistant", "model": model, "content": blocks}
        return {**head, "stop_reason": self._choose_reason(reply), "stop_sequence": None, "usage": usage}

    def _choose_reason(self, reply: Answer) -> str:
        return "tool_use" if reply.calls else "end_turn"

    def _list_blocks(self, reply: Answer) -> Iterator[tuple[Json, str, str]]:
        """Yield each block as it begins, the field of its text, and the text."""
        yield {"type": "thinking", "thinking": "", "signature": "an opaque text"}, "thinking", reply.reasoning
        if reply.content:
            yield {"type": "text", "text": ""}, "text", reply.content
        for id_, name, arguments in reply.calls:
            yield {"type": "tool_use", "id": id_, "name": name, "input": {}}, "input", arguments

    def write_events(self, reply: Answer, model: str, pick: random.Random) -> Iterator[bytes]:
        usage = {"input_tokens": reply.prompt_tokens, "output_tokens": 1}
        head = {"id": "x", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
        yield _write_named({"type": "message_start", "message": head})
        for index, (begun, field, text) in enumerate(self._list_blocks(reply)):
            yield _write_named({"type": "content_block_start", "index": index, "content_block": begun})
            kind, name = ("input_json_delta", "partial_json") if field == "input" else (f"{field}_delta", field)
            for piece in _cut(text, pick):
                delta = {"type": kind, name: piece}
                yield _write_named({"type": "content_block_delta", "index": index, "delta": delta})
            yield _write_named({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": self._choose_reason(reply), "stop_sequence": None}
        used = {"output_tokens": reply.completion_tokens}
        yield _write_named({"type": "message_delta", "delta": ending, "usage": used})
        yield _write_named({"type": "message_stop"})

    def write_error(self, message: str) -> bytes:
        return _write_named({"type": "error", "error": {"type": "api_error", "message": message}})


class Gemini(Api):
    def read_request(self, path: str, body: Json) -> Json:
        model, _, method = path.rpartition("/")[2].partition(":")
        return {**body, "model": model, "stream": method.startswith("stream")}

    def read_messages(self, body: Json) -> list[Json]:
        messages: list[Json] = []
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionResponse" in part:
                    result = part["functionResponse"]
                    text = result["response"].get("result", result["response"].get("error"))
                    text = json.dumps(result["response"]) if text is None else text
                    messages.append({"role": "tool", "tool_call_id": result["id"], "content": text})
                elif content["role"] == "model":
                    turn = _open_turn(messages)
                    if call := part.get("functionCall"):
                        turn["tool_calls"].append(_call(call["id"], call["name"], json.dumps(call["args"])))
                else:
                    messages.append({"role": content["role"], "content": part["text"]})
        return messages

    def write_whole(self, reply: Answer, model: str) -> Json:
        thought = {"text": reply.reasoning, "thought": True}
        said = [{"text": reply.content}] if reply.content else []
        return self._write_chunk([thought, *said, *self._list_calls(reply)], reply, model, finishReason="STOP")

    def _list_calls(self, reply: Answer) -> list[Json]:
        calls: list[Json] = [
            {"functionCall": {"id": id_, "name": name, "args": json.loads(arguments)}}
            for id_, name, arguments in reply.calls
        ]
        return [{**calls[0], "thoughtSignature": "b3BhcXVl"}, *calls[1:]] if calls else []

    def _write_chunk(self, parts: list[Json], reply: Answer, model: str, **fields: str) -> Json:
        given, used = reply.prompt_tokens, reply.completion_tokens
        usage = {"promptTokenCount": given, "candidatesTokenCount": used, "totalTokenCount": given + used}
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **fields}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "x"}

    def write_events(self, reply: Answer, model: str, pick: random.Random) -> Iterator[bytes]:
        parts: list[Json] = [{"text": piece, "thought": True} for piece in _cut(reply.reasoning, pick)]
        parts += ({"text": piece} for piece in _cut(reply.content, pick))
        for part in [*parts, *self._list_calls(reply)]:
            yield _write(self._write_chunk([part], reply, model))
        yield _write(self._write_chunk([{"text": ""}], reply, model, finishReason="STOP"))

    def write_error(self, message: str) -> bytes:
        return _write({"error": {"code": 500, "message": message, "status": "INTERNAL"}})


APIS: dict[str, Api] = {
    "chat_completions": ChatCompletions(),
    "responses": Responses(),
    "messages": Messages(),
    "gemini": Gemini(),
}
"""By the `api` of an upstream."""


def find_api(path: str) -> Api:
    """Return the API of a request's path."""
    ends = {"/responses": "responses", "/messages": "messages", "Content": "gemini"}
    end = next((end for end in ends if path.partition("?")[0].endswith(end)), None)
    return APIS["chat_completions" if end is None else ends[end]]


def _open_turn(messages: list[Json]) -> Json:
    """Return the turn of the assistant that has begun."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "tool_calls": []})
    return messages[-1]


def _call(id_: str, name: str, arguments: str) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _read_text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _cut(text: str, pick: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = pick.randrange(1, 60)
        yield text[at : at + size]
        at += size


def _usage(reply: Answer) -> dict[str, int]:
    total = reply.prompt_tokens + reply.completion_tokens
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": total,
    }


def _write_chunk(delta: Json, model: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _write({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]})


def _write(event: Json) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _write_named(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
