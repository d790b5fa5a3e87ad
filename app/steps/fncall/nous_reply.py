"""Calls in the reply of a model that was asked with the `nous` prompt.

What stands between `<think>` and `</think>` in the content is a thought and stays what it is, calls included. Where
the model is known to think in the content without opening the thought (`thought_in_content`), everything before
`</think>` is one; when that never comes, calls are read after all.
"""

from collections.abc import Sequence

from app.chat.messages import Tool
from app.steps.text_tools.blocks import OPEN, tool_call
from app.steps.text_tools.cursor import Steps
from app.steps.text_tools.reading import Reading
from app.steps.text_tools.stage import CallStage
from app.steps.text_tools.told import Cut

_THINK, _THOUGHT = "<think>", "</think>"


class NousStage(CallStage):
    def __init__(
        self, reply_id: str, tools: Sequence[Tool], *, thought_in_content: bool = False, code: bool = False
    ) -> None:
        super().__init__(reply_id, tools, lambda reading: _nous(reading, thought_in_content, code))


def _nous(r: Reading, thinking: bool, code: bool) -> Steps:
    if thinking:
        yield from _unopened_thought(r)
    while True:
        marker = yield from r.prose(OPEN, _THINK, *r.owed)
        r.owed = ()
        if marker == OPEN:
            yield from r.attempt(tool_call(r, code=code))
        elif marker == _THINK:
            yield from _thought(r)


def _thought(r: Reading) -> Steps:
    r.say(_THINK)
    r.say((yield from r.prose(_THOUGHT)))


def _unopened_thought(r: Reading) -> Steps:
    """Text up to the end of the thought. Calls are held until it is known whether they belong to one."""
    marker = yield from r.prose(OPEN, _THOUGHT, _THINK)
    if marker != OPEN:
        r.say(marker)
        if marker == _THINK:
            r.say((yield from r.prose(_THOUGHT)))
        return
    r.unread()
    try:
        thought, end = yield from r.until(_THOUGHT)
    except Cut:
        return
    r.say(thought + end)
