"""Parses Inkling's messages: `<|message_model|><|content_thinking|>…<|end_message|>` is reasoning, and behind
`<|content_invoke_tool_json|>` comes a call as an object. The name of the function may also stand in the header of its
message, which the prompt has begun: `get_weather<|content_invoke_tool_json|>{"name": "get_weather", "args": {…}}`.
"""

from collections.abc import Generator

from msgspec import Struct

from app.chat.template_tokens import INKLING_ENDS, INKLING_MESSAGE, INKLING_TEXT, INKLING_THOUGHT
from app.steps.tool_parsers.calls import NotACall, TruncatedCall
from app.steps.tool_parsers.cursor import BoolSteps, Steps
from app.steps.tool_parsers.json_calls import ObjectCalls
from app.steps.tool_parsers.parser import ParseState

CALL = "<|content_invoke_tool_json|>"
_TEXTS = (INKLING_TEXT, "<|content_invoke_tool_text|>", "<|content_tool_error|>")
_CONTENTS = (CALL, INKLING_THOUGHT, *_TEXTS)
_OBJECT = ObjectCalls()
_LIMIT = 200
"""The longest name in a header."""


class InklingBlock(Struct, frozen=True):
    """One message or content; without its opening, a call behind the name of its function."""

    opening: str

    def is_next(self, r: ParseState) -> BoolSteps:
        return (yield from r.is_at(self.opening))

    def read(self, r: ParseState, closers: tuple[str, ...]) -> Steps:
        content = yield from self._read_header(r)
        if content == CALL and r.tools:
            yield from r.skip_blanks()
            if not (yield from _OBJECT.is_next(r)):
                raise NotACall
            yield from _OBJECT.read(r, closers)
            return
        emit = r.emit_reasoning if content == INKLING_THOUGHT else r.emit_text
        r.commit()
        try:
            tag = yield from r.stream_until(emit, *INKLING_ENDS, INKLING_MESSAGE, *_CONTENTS)
        except TruncatedCall:
            emit(r.take_rest())
            raise
        if tag in INKLING_ENDS:
            r.pos += len(tag)

    def _read_header(self, r: ParseState) -> Generator[None, None, str]:
        """Skip the header, and return what says which content follows."""
        if (yield from r.accept(self.opening)) and self.opening != INKLING_MESSAGE:
            return self.opening
        head, content = yield from r.read_head(*_CONTENTS, limit=_LIMIT)
        if "<" in head or "\n" in head.strip():
            raise NotACall
        return content


BLOCKS = tuple(InklingBlock(opening) for opening in (INKLING_MESSAGE, *_CONTENTS))
