"""A reply as AutoGen 0.7.5 itself would tell it: by its agent (`compat`), or by its model client (`model`)."""

from typing import Any

from typing_extensions import override

from app.chat.events import Finish
from app.chat.segments import Segment
from app.formats.autogen.encode import Stream, calls_of, joined
from app.formats.autogen.pen import models_usage
from app.formats.autogen.reply import frame, opaque, pieces
from app.formats.base import ReplyInfo


class Compat(Stream):
    """Thinking between tags in chunks that all name one message, then its thought, then the answer."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._all = self._author.begin()
        self._tag = ""

    @override
    def _started(self, segment: Segment) -> bytes:
        self._tag = "<think>" if segment.kind == "reasoning_content" else ""
        return b""

    @override
    def _grown(self, segment: Segment, text: str) -> bytes:
        tag, self._tag = self._tag, ""
        return self._author.chunk(self._all, tag + text)

    @override
    def _completed(self, segment: Segment) -> bytes:
        return self._author.chunk(self._all, "</think>") if segment.kind == "reasoning_content" else b""

    @override
    def _finished(self, finish: Finish) -> bytes:
        author, calls, text = self._author, calls_of(self._segmenter.segments), self._said("content")
        thought = text if calls else self._said("reasoning_content")
        if thought:
            own = self._extra("content" if calls else "reasoning_content")
            author.message("ThoughtEvent", self._all.id, thought, {}, own)
        beside = self._beside()
        if not thought or calls:  # the fields of thinking that is told in chunks alone
            beside = joined((self._extra("reasoning_content"), beside))
        if calls:
            extras = [one.extra for one in self._segmenter.segments if one.kind == "function_call"]
            unsaid = {} if thought else self._extra("content")
            extras[-1] = joined((extras[-1], unsaid, beside))
            author.message("ToolCallRequestEvent", author.new_id(), calls, {}, *extras)
        else:
            own = joined((self._extra("content"), beside))
            author.message("TextMessage", author.new_id() if thought else self._all.id, text, {}, own)
        author.charge(finish.usage)
        told = b"".join([frame(one) for one in author.messages])
        return told + frame({"type": "TaskResult", **author.result(finish)})


class ModelView(Stream):
    """What a model client's `create_stream` yields."""

    def __init__(self, info: ReplyInfo) -> None:
        super().__init__(info)
        self._tag = ""

    @override
    def _started(self, segment: Segment) -> bytes:
        self._tag = "<think>" if segment.kind == "reasoning_content" else ""
        return b""

    @override
    def _grown(self, segment: Segment, text: str) -> bytes:
        tag, self._tag = self._tag, ""
        return b"".join([frame(piece) for piece in pieces(tag + text)])

    @override
    def _completed(self, segment: Segment) -> bytes:
        return frame("</think>") if segment.kind == "reasoning_content" else b""

    @override
    def _finished(self, finish: Finish) -> bytes:
        return frame(self.body(finish))

    @override
    def body(self, finish: Finish) -> dict[str, Any]:
        calls, text = calls_of(self._segmenter.segments), self._said("content")
        thought = text if calls else self._said("reasoning_content")
        extra = joined((self._extra("reasoning_content", "content"), self._beside()))
        own = {
            one.id: told
            for one in self._segmenter.segments
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
