"""Calls in the reply of a model that was asked with the `nous` prompt.

What stands between `<think>` and `</think>` in the content is a thought and stays what it is, calls included. Where
the model is known to think in the content without opening the thought (`thought_in_content`), everything before
`</think>` is one; when that never comes, calls are read after all.
"""

from collections.abc import Sequence

from app.chat.messages import Tool
from app.steps.tool_parsers.calls import TruncatedCall
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage
from app.steps.tool_parsers.tag_families import OPEN, read_tool_call

_THINK, _THOUGHT = "<think>", "</think>"


class NousStage(CallStage):
    def __init__(
        self, reply_id: str, tools: Sequence[Tool], *, thought_in_content: bool = False, code: bool = False
    ) -> None:
        super().__init__(reply_id, tools, lambda reading: _read_reply(reading, thought_in_content, code))


def _read_reply(r: ParseState, thinking: bool, code: bool) -> Steps:
    if thinking:
        yield from _read_unopened_thought(r)
    while True:
        marker = yield from r.read_prose(OPEN, _THINK, *r.pending_closers)
        r.pending_closers = ()
        if marker == OPEN:
            yield from r.attempt(read_tool_call(r, code=code))
        elif marker == _THINK:
            yield from _read_thought(r)


def _read_thought(r: ParseState) -> Steps:
    r.emit_text(_THINK)
    r.emit_text((yield from r.read_prose(_THOUGHT)))


def _read_unopened_thought(r: ParseState) -> Steps:
    """Text up to the end of the thought. Calls are held until it is known whether they belong to one."""
    marker = yield from r.read_prose(OPEN, _THOUGHT, _THINK)
    if marker != OPEN:
        r.emit_text(marker)
        if marker == _THINK:
            r.emit_text((yield from r.read_prose(_THOUGHT)))
        return
    r.rewind_to_marker()
    try:
        thought, end = yield from r.read_until(_THOUGHT)
    except TruncatedCall:
        return
    r.emit_text(thought + end)
