"""How a client of each format reads a reply, and answers its calls."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.conversations.sample_conversations import Json
from tests.in_process_gateway import Answer


@dataclass(frozen=True, slots=True)
class Caller:
    ask: Callable[[str], Json]
    whole: Callable[[Json], list[Json]]
    """The messages of a reply that came as one."""
    streamed: Callable[[list[Json]], list[Json]]
    """The messages that the frames of a reply make."""
    answer: Callable[[list[Json], dict[str, str]], list[Json]]
    """The whole history with these results, by the id of their calls, behind it."""


def frames(answer: Answer) -> list[Json]:
    lines = (line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


# -- Qwen-Agent --------------------------------------------------------------


def _qwen_result(id_: str, text: str) -> Json:
    return {"role": "function", "name": "get_weather", "content": text, "extra": {"function_id": id_}}


def _qwen_streamed(events: list[Json]) -> list[Json]:
    completed = [one for one in events if one["type"] == "message.completed"]
    return [one["message"] for one in sorted(completed, key=lambda one: int(one["index"]))]


QWEN = Caller(
    ask=lambda text: {"role": "user", "content": text},
    whole=lambda body: list(body["messages"]),
    streamed=_qwen_streamed,
    answer=lambda history, results: [*history, *(_qwen_result(*one) for one in results.items())],
)


# -- OpenAI --------------------------------------------------------------


def _openai_streamed(chunks: list[Json]) -> list[Json]:
    """As the SDKs add deltas up."""
    message: Json = {"role": "assistant", "content": None}
    calls: dict[int, Json] = {}
    for delta in (choice["delta"] for chunk in chunks for choice in chunk["choices"]):
        for key in ("content", "reasoning_content", "refusal"):
            if delta.get(key):
                message[key] = (message.get(key) or "") + delta[key]
        if delta.get("reasoning_details"):
            message["reasoning_details"] = message.get("reasoning_details", []) + delta["reasoning_details"]
        for piece in delta.get("tool_calls", ()):
            call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
            call |= {key: value for key, value in piece.items() if key not in ("index", "function")}
            function = piece.get("function", {})
            arguments = call["function"]["arguments"] + function.get("arguments", "")
            call["function"] |= function | {"arguments": arguments}
    return [message | ({"tool_calls": [calls[index] for index in sorted(calls)]} if calls else {})]


def _openai_result(id_: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": text}


OPENAI = Caller(
    ask=lambda text: {"role": "user", "content": text},
    whole=lambda body: [body["choices"][0]["message"]],
    streamed=_openai_streamed,
    answer=lambda history, results: [*history, *(_openai_result(*one) for one in results.items())],
)


# -- AutoGen --------------------------------------------------------------


def _autogen_streamed(events: list[Json]) -> list[Json]:
    *streamed_events, result = events
    messages = [one for one in streamed_events if one["type"] != "ModelClientStreamingChunkEvent"]
    assert result["messages"] == messages
    return messages


def _autogen_result(id_: str, text: str) -> Json:
    return {"call_id": id_, "name": "get_weather", "content": text, "is_error": False}


def _autogen_answer(history: list[Json], results: dict[str, str]) -> list[Json]:
    content = [_autogen_result(*one) for one in results.items()]
    return [*history, {"type": "ToolCallExecutionEvent", "source": "assistant", "content": content}]


AUTOGEN = Caller(
    ask=lambda text: {"type": "TextMessage", "source": "user", "content": text},
    whole=lambda body: list(body["messages"]),
    streamed=_autogen_streamed,
    answer=_autogen_answer,
)


# -- AgentScope --------------------------------------------------------------


def _scope_result(id_: str, text: str) -> Json:
    block = {"type": "tool_result", "id": id_, "name": "get_weather", "output": text}
    return {"name": "system", "role": "system", "content": [block]}


AGENTSCOPE = Caller(
    ask=lambda text: {"name": "user", "role": "user", "content": text},
    whole=lambda body: [body["msg"]],
    streamed=lambda events: [events[-1]["msg"]],
    answer=lambda history, results: [*history, *(_scope_result(*one) for one in results.items())],
)


def _scope2_streamed(events: list[Json]) -> list[Json]:
    """As `Msg.append_event` adds events up."""
    blocks: dict[str, Json] = {}
    for event in events:
        kind, _, step = event["type"].rpartition("_")
        made = _BLOCKS.get(kind)
        if made is None:
            continue
        type_, field = made
        id_ = event.get("block_id") or event["tool_call_id"]
        if step == "START":
            name = {"name": event["tool_call_name"], "state": "pending"} if kind == "TOOL_CALL" else {}
            blocks[id_] = {"type": type_, "id": id_, **name, field: ""}
        elif step == "DELTA":
            blocks[id_][field] += event["delta"]
    started = next(one for one in events if one["type"] == "REPLY_START")
    content = list(blocks.values())
    head = {"id": started["reply_id"], "name": started["name"], "role": "assistant"}
    return [{**head, "content": content, "metadata": events[-1]["metadata"]}]


_BLOCKS = {
    "THINKING_BLOCK": ("thinking", "thinking"),
    "TEXT_BLOCK": ("text", "text"),
    "TOOL_CALL": ("tool_call", "input"),
}


def _scope2_answer(history: list[Json], results: dict[str, str]) -> list[Json]:
    """Results are in the message of their calls."""
    *before, last = history
    done = {"name": "get_weather", "state": "success"}
    blocks = [{"type": "tool_result", "id": id_, "output": text, **done} for id_, text in results.items()]
    return [*before, {**last, "content": [*last["content"], *blocks]}]


AGENTSCOPE2 = Caller(
    ask=lambda text: {"name": "user", "role": "user", "content": [{"type": "text", "text": text}]},
    whole=lambda body: [body["msg"]],
    streamed=_scope2_streamed,
    answer=_scope2_answer,
)

# -- Anthropic --------------------------------------------------------------


def _anthropic_streamed(events: list[Json]) -> list[Json]:
    """As the SDKs add deltas up."""
    blocks: list[Json] = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"]})
        elif event["type"] == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for key in ("text", "thinking", "signature"):
                if key in delta:
                    block[key] += delta[key]
            if "partial_json" in delta:
                block["json"] = block.get("json", "") + delta["partial_json"]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("json")) if "json" in block else block["input"]
    return [{"role": "assistant", "content": blocks}]


def _anthropic_answer(history: list[Json], results: dict[str, str]) -> list[Json]:
    content = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in results.items()]
    return [*history, {"role": "user", "content": content}]


ANTHROPIC = Caller(
    ask=lambda text: {"role": "user", "content": text},
    whole=lambda body: [{"role": body["role"], "content": body["content"]}],
    streamed=_anthropic_streamed,
    answer=_anthropic_answer,
)


# -- OpenAI's Responses --------------------------------------------------------------


def _responses_streamed(events: list[Json]) -> list[Json]:
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done
    return done


def _responses_result(id_: str, text: str) -> Json:
    return {"type": "function_call_output", "call_id": id_, "output": text}


RESPONSES = Caller(
    ask=lambda text: {"type": "message", "role": "user", "content": text},
    whole=lambda body: list(body["output"]),
    streamed=_responses_streamed,
    answer=lambda history, results: [*history, *(_responses_result(*one) for one in results.items())],
)

# -- Google's Gemini --------------------------------------------------------------


def _gemini_streamed(chunks: list[Json]) -> list[Json]:
    """As the chats of google-genai keep a stream: one content for each chunk."""
    contents = (chunk["candidates"][0]["content"] for chunk in chunks)
    return [content for content in contents if content.get("parts")]


def _gemini_result(id_: str, text: str) -> Json:
    return {"functionResponse": {"id": id_, "name": "get_weather", "response": {"result": text}}}


GEMINI = Caller(
    ask=lambda text: {"role": "user", "parts": [{"text": text}]},
    whole=lambda body: [body["candidates"][0]["content"]],
    streamed=_gemini_streamed,
    answer=lambda history, results: [
        *history,
        {"role": "user", "parts": [_gemini_result(*one) for one in results.items()]},
    ],
)

CALLERS = {
    "qwen": QWEN,
    "openai": OPENAI,
    "agentscope": AGENTSCOPE,
    "agentscope2": AGENTSCOPE2,
    "autogen": AUTOGEN,
    "anthropic": ANTHROPIC,
    "responses": RESPONSES,
    "gemini": GEMINI,
}


# -- what a model server says --------------------------------------------------------------


def sse(*deltas: Json, finish: str = "stop") -> bytes:
    usage = {"prompt_tokens": 30, "completion_tokens": 25, "total_tokens": 55}
    chunks: Iterable[Json] = (
        *({"choices": [{"index": 0, "delta": delta}]} for delta in deltas),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": usage},
    )
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def call(index: int, id_: str, name: str, arguments: str, **more: Any) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function, **more}]}


def more(index: int, arguments: str) -> Json:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
