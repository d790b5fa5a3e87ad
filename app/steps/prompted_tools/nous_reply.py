"""Parses calls from the reply to a `nous` prompt.

Content between `<think>` and `</think>` is reasoning and stays unchanged, calls included. If the model is known to
leave out the opening tag (`thought_in_content`), everything before `</think>` is reasoning; if there is no `</think>`,
calls are parsed.
"""

from collections.abc import Generator, Sequence

from app.chat.messages import Tool
from app.steps.tool_parsers.cursor import Steps
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.stage import CallStage
from app.steps.tool_parsers.tag_families import OPEN, read_tool_call

_THINK, _THOUGHT = "<think>", "</think>"


class NousStage(CallStage):
    def __init__(
        self, reply_id: str, tools: Sequence[Tool], *, thought_in_content: bool = False, code: bool = False
    ) -> None:
        super().__init__(reply_id, tools, lambda state: _read_reply(state, thought_in_content, code))


def _read_reply(r: ParseState, thinking: bool, code: bool) -> Steps:
    marker = (yield from _read_unopened_thought(r)) if thinking else ""
    while True:
        marker = marker or (yield from r.read_prose(OPEN, _THINK, *r.pending_closers))
        r.pending_closers = ()
        if marker == OPEN:
            yield from r.attempt(read_tool_call(r, code=code))
        elif marker == _THINK:
            yield from _read_thought(r)
        marker = ""


def _read_thought(r: ParseState) -> Steps:
    r.emit_text(_THINK)
    r.emit_text((yield from r.read_prose(_THOUGHT)))


def _read_unopened_thought(r: ParseState) -> Generator[None, None, str]:
    """Read text up to `</think>`. Calls are buffered until it is known whether they are part of the reasoning: if they
    are not, the marker of the first is returned, else ""."""
    marker = yield from r.read_prose(OPEN, _THOUGHT, _THINK)
    if marker != OPEN:
        r.emit_text(marker)
        if marker == _THINK:
            r.emit_text((yield from r.read_prose(_THOUGHT)))
        return ""
    thought, end = yield from r.read_until(_THOUGHT)
    if not end:
        r.rewind_to_marker()
        return OPEN
    r.emit_text(OPEN + thought + end)
    return ""
