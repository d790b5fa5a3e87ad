"""A reply as AutoGen 0.7.5 itself would tell it: by its agent (`compat`), or by its model client (`model`)."""

from typing import Any

from typing_extensions import override

from app.chat.accumulator import ReplyMessage
from app.chat.events import Finish
from app.formats.autogen.item_writer import models_usage
from app.formats.autogen.reply_items import opaque
from app.formats.autogen.stream import AgentEventEncoder, calls_of, joined
from app.formats.base import ReplyInfo
from app.formats.sse import split_text, write_frame


class CompatEncoder(AgentEventEncoder):
    """Thinking between tags in chunks that all name one message, then its thought, then the answer."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._item = self._factory.begin()
        self._tag = ""

    @override
    def _on_started(self, segment: ReplyMessage) -> bytes:
        self._tag = "<think>" if segment.kind == "reasoning_content" else ""
        return b""

    @override
    def _on_delta(self, segment: ReplyMessage, text: str) -> bytes:
        tag, self._tag = self._tag, ""
        return self._factory.write_chunk(self._item, tag + text)

    @override
    def _on_completed(self, segment: ReplyMessage) -> bytes:
        return self._factory.write_chunk(self._item, "</think>") if segment.kind == "reasoning_content" else b""

    @override
    def _on_finish(self, finish: Finish) -> bytes:
        author, calls, text = self._factory, calls_of(self._accumulator.messages), self._join_text("content")
        thought = text if calls else self._join_text("reasoning_content")
        if thought:
            own = self._extra("content" if calls else "reasoning_content")
            author.add_message("ThoughtEvent", self._item.id, thought, {}, own)
        beside = self._beside()
        if not thought or calls:  # the fields of thinking that is told in chunks alone
            beside = joined((self._extra("reasoning_content"), beside))
        if calls:
            extras = [one.extra for one in self._accumulator.messages if one.kind == "function_call"]
            unsaid = {} if thought else self._extra("content")
            extras[-1] = joined((extras[-1], unsaid, beside))
            author.add_message("ToolCallRequestEvent", author.new_id(), calls, {}, *extras)
        else:
            own = joined((self._extra("content"), beside))
            author.add_message("TextMessage", author.new_id() if thought else self._item.id, text, {}, own)
        author.add_usage(finish.usage)
        told = b"".join([write_frame(one) for one in author.messages])
        return told + write_frame({"type": "TaskResult", **author.result(finish)})


class ModelViewEncoder(AgentEventEncoder):
    """What a model client's `create_stream` yields."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._tag = ""

    @override
    def _on_started(self, segment: ReplyMessage) -> bytes:
        self._tag = "<think>" if segment.kind == "reasoning_content" else ""
        return b""

    @override
    def _on_delta(self, segment: ReplyMessage, text: str) -> bytes:
        tag, self._tag = self._tag, ""
        return b"".join([write_frame(piece) for piece in split_text(tag + text)])

    @override
    def _on_completed(self, segment: ReplyMessage) -> bytes:
        return write_frame("</think>") if segment.kind == "reasoning_content" else b""

    @override
    def _on_finish(self, finish: Finish) -> bytes:
        return write_frame(self.body(finish))

    @override
    def body(self, finish: Finish) -> dict[str, Any]:
        calls, text = calls_of(self._accumulator.messages), self._join_text("content")
        thought = text if calls else self._join_text("reasoning_content")
        extra = joined((self._extra("reasoning_content", "content"), self._beside()))
        own = {
            one.id: told
            for one in self._accumulator.messages
            if one.kind == "function_call"
            if (told := opaque(one.extra))
        }
        extra |= {"calls": own} if own else {}
        warnings = self._info.warnings_with(finish)
        beside = {**({"extra": extra} if extra else {}), **({"warnings": warnings} if warnings else {})}
        return {
            "finish_reason": "function_calls" if finish.reason == "tool_calls" else finish.reason,
            "content": calls or text,
            # AutoGen's own type has no word for unknown.
            "usage": models_usage(finish.usage) or {"prompt_tokens": 0, "completion_tokens": 0},
            "cached": self._info.cached,
            "logprobs": None,
            "thought": thought or None,
            **beside,  # its client ignores keys that it does not know
        }
