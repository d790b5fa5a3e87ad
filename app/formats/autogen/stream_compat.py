"""Encodes a reply as AutoGen 0.7.5 itself streams it: from its agent (`compat`), or from its model client (`model`)."""

from abc import abstractmethod
from typing import Any

from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.events import Finish
from app.formats.autogen.item_writer import models_usage
from app.formats.autogen.reply_items import opaque
from app.formats.autogen.stream import AgentEventEncoder, calls_of, joined
from app.formats.base import ReplyInfo
from app.formats.sse import split_text, write_frame


class _TaggedEncoder(AgentEventEncoder):
    """Streams reasoning between tags, and text after it."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._tag = ""

    @override
    def _on_started(self, message: ReplyMessage) -> bytes:
        self._tag = "<think>" if message.kind == "reasoning_content" else ""
        return b""

    @override
    def _on_delta(self, message: ReplyMessage, text: str) -> bytes:
        tag, self._tag = self._tag, ""
        return self._write_chunk(tag + text)

    @override
    def _on_completed(self, message: ReplyMessage) -> bytes:
        return self._write_chunk("</think>") if message.kind == "reasoning_content" else b""

    @abstractmethod
    def _write_chunk(self, text: str) -> bytes: ...


class CompatEncoder(_TaggedEncoder):
    """Streams reasoning and text in chunks with one message id, then the `ThoughtEvent`, then the message."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._item = self._factory.begin()

    @override
    def _write_chunk(self, text: str) -> bytes:
        return self._factory.write_chunk(self._item, text)

    @override
    def _on_turn_end(self) -> bytes:
        """Complete the texts of a turn as the agent's thought, and begin the item of the next one."""
        item, self._item = self._item, self._factory.begin()
        thought = self._join_text("content")
        if not thought:
            return b""
        return write_frame(self._factory.add_message("ThoughtEvent", item.id, thought, {}, self._extra("content")))

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        out = self._write_results()
        before = len(self._factory.messages)
        if self._is_said(finish):
            return out + write_frame({"type": "TaskResult", **self._factory.result(finish)})
        factory, calls, text = self._factory, calls_of(self._turn), self._join_text("content")
        thought = text if calls else self._join_text("reasoning_content")
        if thought:
            own = self._extra("content" if calls else "reasoning_content")
            factory.add_message("ThoughtEvent", self._item.id, thought, {}, own)
        beside = self._beside()
        if not thought or calls:  # reasoning that only chunks have has no item for its extras
            beside = joined((self._extra("reasoning_content"), beside))
        if calls:
            extras = [one.extra for one in self._turn if one.kind == "function_call"]
            content_extra = {} if thought else self._extra("content")
            extras[-1] = joined((extras[-1], content_extra, beside))
            factory.add_message("ToolCallRequestEvent", factory.new_id(), calls, {}, *extras)
        else:
            own = joined((self._extra("content"), beside))
            factory.add_message("TextMessage", factory.new_id() if thought else self._item.id, text, {}, own)
        factory.add_usage(self._get_last_usage(finish))
        frames = b"".join([write_frame(item) for item in factory.messages[before:]])
        return out + frames + write_frame({"type": "TaskResult", **factory.result(finish)})


class ModelViewEncoder(_TaggedEncoder):
    """Streams what a model client's `create_stream` yields: texts, then a `CreateResult`. It is of the last turn: a
    model client does not know of tools that are run for it."""

    @override
    def _on_turn_end(self) -> bytes:
        return b""

    @override
    def _show(self, item: dict[str, Any]) -> bytes:
        return b""

    @override
    def _write_chunk(self, text: str) -> bytes:
        return b"".join([write_frame(piece) for piece in split_text(text)])

    @override
    def _write_finish(self, finish: Finish) -> bytes:
        return write_frame(self.body(finish))

    @override
    def body(self, finish: Finish) -> dict[str, Any]:
        ends = self._accumulator.turn_ends
        if ends and self._is_said(finish):
            self._first = ends[-2] if len(ends) > 1 else 0
        own = [one for one in self._turn if one.server is None]
        calls, text = calls_of(own), self._join_text("content")
        thought = text if calls else self._join_text("reasoning_content")
        extra = joined((self._extra("reasoning_content", "content"), self._beside()))
        call_extras = {
            message.id: fields
            for message in own
            if message.kind == "function_call"
            if (fields := opaque(message.extra))
        }
        extra |= {"calls": call_extras} if call_extras else {}
        warnings = self._info.warnings_with(finish)
        tools = self._info.write_extensions(finish)
        beside = {**tools, **({"extra": extra} if extra else {}), **({"warnings": warnings} if warnings else {})}
        return {
            "finish_reason": "function_calls" if finish.reason == "tool_calls" else finish.reason,
            "content": calls or text,
            # AutoGen's type has no value for unknown usage.
            "usage": models_usage(finish.usage) or {"prompt_tokens": 0, "completion_tokens": 0},
            "cached": self._info.cached,
            "logprobs": None,
            "thought": thought or None,
            **beside,  # AutoGen's client ignores unknown keys
        }
