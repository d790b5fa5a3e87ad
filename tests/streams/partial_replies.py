"""What a reply of the Messages or the Responses API has said after each of its events. It shares no line with the
gateway's readers.

Texts and arguments count as they come, opaque items when they are complete. White space is left out of texts, because
the gateway puts blank lines between items.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


def squeeze(text: str | None) -> str:
    return "".join((text or "").split())


@dataclass(slots=True)
class Said:
    """What has been said so far."""

    text: str = ""
    thought: str = ""
    calls: list[list[str]] = field(default_factory=list)
    """The id, the name and the arguments of each."""
    opaque: list[Any] = field(default_factory=list)
    tokens: tuple[int, int] | None = None


class PartialReply(Protocol):
    @property
    def said(self) -> Said: ...

    @property
    def is_complete(self) -> bool:
        """Whether the server has said how its reply ended, and that it did not fail."""

    @property
    def is_over(self) -> bool:
        """Whether nothing that follows counts."""

    def feed(self, event: Json) -> None: ...

    def close(self) -> None:
        """The body ends here."""


class PartialMessage:
    """A reply of the Messages API."""

    def __init__(self) -> None:
        self.said = Said()
        self.is_over = False
        self._stop_reason: str | None = None
        self._failed = False
        self._blocks: dict[int, Json] = {}
        self._has_block = False
        self._usage: Json = {}

    @property
    def is_complete(self) -> bool:
        return not self._failed and (self.is_over or self._stop_reason is not None)

    def feed(self, event: Json) -> None:
        match event["type"]:
            case "message_start":
                self._count(event["message"].get("usage"))
            case "content_block_start":
                self._start(event["index"], dict(event["content_block"]))
            case "content_block_delta":
                self._add(self._blocks[event["index"]], event["delta"])
            case "content_block_stop":
                self._stop(self._blocks.pop(event["index"]))
            case "message_delta":
                self._count(event.get("usage"))
                self._stop_reason = self._stop_reason or event["delta"].get("stop_reason")
            case "message_stop" if self._stop_reason is not None or self._has_block:
                self.is_over = True
                self.close()
            case "error":
                self.is_over, self._failed = True, self._stop_reason is None

    def close(self) -> None:
        if self.is_complete:
            for index in sorted(self._blocks):
                self._stop(self._blocks.pop(index))
            for call in self.said.calls:
                call[2] = call[2] if call[2].strip() else "{}"

    def _start(self, index: int, block: Json) -> None:
        self._blocks[index], self._has_block = block | {"json": ""}, True
        if block["type"] == "text":
            self.said.text += squeeze(block.get("text"))
        elif block["type"] == "thinking":
            self.said.thought += squeeze(block.get("thinking"))
        elif block["type"] == "tool_use":
            self.said.calls.append([block["id"], block["name"], ""])
            self._blocks[index]["call"] = self.said.calls[-1]

    def _add(self, block: Json, delta: Json) -> None:
        match delta["type"]:
            case "text_delta":
                self.said.text += squeeze(delta["text"])
            case "thinking_delta":
                self.said.thought += squeeze(delta["thinking"])
            case "signature_delta":
                block["signature"] = (block.get("signature") or "") + delta["signature"]
            case "input_json_delta":
                block["json"] += delta["partial_json"]
                if "call" in block:
                    block["call"][2] += delta["partial_json"]
            case "compaction_delta":
                block |= {name: value for name, value in delta.items() if name != "type"}

    def _stop(self, block: Json) -> None:
        text, call = block.pop("json"), block.pop("call", None)
        match block["type"]:
            case "text":
                pass
            case "thinking":
                self.said.opaque += [block["signature"]] if block.get("signature") else []
            case "redacted_thinking":
                self.said.opaque.append(block["data"])
            case "tool_use":
                if not text and block.get("input"):
                    call[2] = json.dumps(block["input"], ensure_ascii=False)
            case _:
                self.said.opaque.append({**block, "input": json.loads(text)} if text else block)

    def _count(self, usage: Json | None) -> None:
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}
        if self._usage:
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self.said.tokens = sum(self._usage.get(name, 0) for name in names), self._usage.get("output_tokens", 0)


class PartialResponse:
    """A reply of the Responses API."""

    def __init__(self) -> None:
        self.said = Said()
        self.is_over = False
        self.is_complete = False
        self._items: dict[Any, Json] = {}
        """What is known of each item: its texts by place, the kind of its reasoning, its call."""

    def feed(self, event: Json) -> None:
        name = event["type"].removeprefix("response.")
        match name:
            case "output_item.added":
                self._find(event)
                self._open_call(event, event["item"])
            case "output_item.done":
                self._complete(event, event["item"])
            case "output_text.delta" | "refusal.delta":
                self._add(event, (name[:4], event["content_index"]), event["delta"])
            case "output_text.done" | "refusal.done":
                self._fill(event, (name[:4], event["content_index"]), event.get("text") or event.get("refusal"))
            case "reasoning_summary_text.delta" | "reasoning_text.delta":
                self._add(event, self._get_thought_key(name, event), event["delta"])
            case "reasoning_summary_text.done" | "reasoning_text.done":
                self._fill(event, self._get_thought_key(name, event), event["text"])
            case "function_call_arguments.delta":
                self._add(event, ("call", 0), event["delta"])
            case "function_call_arguments.done":
                self._fill(event, ("call", 0), event["arguments"])
            case "completed" | "incomplete" | "failed" | "cancelled":
                self._end(event["response"], name)
            case "error":
                self.is_over = True

    def close(self) -> None:
        """What is open stays as it is."""

    def _find(self, event: Json) -> Json:
        return self._items.setdefault(event["output_index"], {"texts": {}, "thought": None, "call": None})

    @staticmethod
    def _get_thought_key(name: str, event: Json) -> tuple[str, int]:
        return ("summary", event["summary_index"]) if "summary" in name else ("content", event["content_index"])

    def _add(self, event: Json, key: tuple[str, int], text: str) -> None:
        item = self._find(event)
        item["texts"][key] = item["texts"].get(key, "") + text
        match key[0]:
            case "summary" | "content":
                item["thought"] = item["thought"] or key[0]
                if item["thought"] == key[0]:
                    self.said.thought += squeeze(text)
            case "call":
                item["call"][2] += text
            case _:
                self.said.text += squeeze(text)

    def _fill(self, event: Json, key: tuple[str, int], whole: str | None) -> None:
        known = self._find(event)["texts"].get(key, "")
        if whole and whole.startswith(known) and whole != known:
            self._add(event, key, whole[len(known) :])

    def _open_call(self, event: Json, item: Json) -> None:
        known = self._find(event)
        if item["type"] in ("function_call", "custom_tool_call") and known["call"] is None:
            call = known["call"] = [item.get("call_id") or item["id"], item["name"], ""]
            self.said.calls.append(call)

    def _complete(self, event: Json, item: Json) -> None:
        self._open_call(event, item)
        match item["type"]:
            case "message":
                for place, part in enumerate(item["content"]):
                    kind = "refu" if part["type"] == "refusal" else "outp"
                    self._fill(event, (kind, place), part.get("text") or part.get("refusal"))
            case "reasoning":
                kind = self._find(event)["thought"] or ("summary" if item.get("summary") else "content")
                for place, part in enumerate(item.get(kind) or ()):
                    self._fill(event, (kind, place), part["text"])
                self.said.opaque += [item["encrypted_content"]] if item.get("encrypted_content") else []
            case "function_call":
                self._fill(event, ("call", 0), item["arguments"])
            case "custom_tool_call":
                self._fill(event, ("call", 0), json.dumps({"input": item["input"]}, ensure_ascii=False))
            case _:
                self.said.opaque.append(item)

    def _end(self, response: Json, name: str) -> None:
        self.is_over = True
        usage = response.get("usage")
        self.said.tokens = (usage["input_tokens"], usage["output_tokens"]) if usage else None
        self.is_complete = (response.get("status") or name) not in ("failed", "cancelled")
        if not self.is_complete:
            return
        for index, item in enumerate(response.get("output") or ()):
            if item["type"] == "mcp_list_tools" and item not in self.said.opaque:  # told nowhere else in one recording
                self._complete({"output_index": ("end", index)}, item)
        for call in self.said.calls:
            call[2] = call[2] if call[2].strip() else "{}"


def read_message(document: Json) -> PartialMessage:
    """Read a whole reply of the Messages API."""
    reply = PartialMessage()
    reply.feed({"type": "message_start", "message": document})
    for index, item in enumerate(document["content"]):
        reply.feed({"type": "content_block_start", "index": index, "content_block": item})
        reply.feed({"type": "content_block_stop", "index": index})
    reply.feed({"type": "message_delta", "delta": {"stop_reason": document.get("stop_reason") or "end_turn"}})
    reply.feed({"type": "message_stop"})
    return reply


def read_response(document: Json) -> PartialResponse:
    """Read a whole reply of the Responses API. One that is still being written is a failure."""
    reply = PartialResponse()
    if isinstance(document.get("reasoning"), str):  # mistral.rs: that of the whole reply
        reply.said.thought = squeeze(document["reasoning"])
    for index, item in enumerate(document.get("output") or ()):
        reply.feed({"type": "response.output_item.done", "output_index": index, "item": item})
    is_waiting = document.get("status") in ("queued", "in_progress")
    reply.feed({"type": "response.failed" if is_waiting else "response.completed", "response": document})
    reply.is_complete = reply.is_complete and not is_waiting
    return reply
