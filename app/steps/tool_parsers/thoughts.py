"""Finds what is no reasoning at the end of reasoning: the answer or calls of a model that did not close it, and tokens
of its template.

Kimi's markers end the reasoning wherever they stand. A call of any other family in it is one only if nothing but it
ends the reply: a model may also think about a call, and then answer or make it. So the reasoning is held from such a
call on until it is known what follows.
"""

import re
from collections.abc import Sequence

from app.chat.events import Event, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.chat.template_tokens import THOUGHT_CLOSERS, THOUGHT_INTERRUPTS
from app.steps.partial_tag import partial_tag_length
from app.steps.tool_parsers.family import Grammar
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.text_end import LEFT_OUT, are_ends, find_held
from app.steps.tool_parsers.warnings import Warnings

_ENDS = (*THOUGHT_CLOSERS, *THOUGHT_INTERRUPTS)
_find_end = re.compile("|".join(map(re.escape, _ENDS))).search


class ThoughtEnd:
    """Finds where Kimi's reasoning ends and its answer or calls begin, in a field of reasoning that has both
    (sgl-project/sglang#37743), and the tokens at the end of any reasoning (vllm-project/vllm#48748)."""

    def __init__(self, warnings: Warnings) -> None:
        self.held = ""
        self.is_over = False
        """What follows is the answer."""
        self._warnings = warnings

    def feed(self, text: str, out: list[str]) -> str:
        """Pass reasoning on; return the beginning of the answer."""
        text, self.held = self.held + text, ""
        found = _find_end(text)
        if found is None:
            keep = max(partial_tag_length(text, _ENDS), find_held(text))
            self.held = text[len(text) - keep :]
            if keep < len(text):
                out.append(text[: len(text) - keep])
            return ""
        if found.start():
            out.append(text[: found.start()])
        self.is_over = True
        return text[found.end() if found.group() in THOUGHT_CLOSERS else found.start() :]

    def flush(self, out: list[str]) -> None:
        """End the reasoning, or interrupt it."""
        text, self.held = self.held, ""
        if are_ends(text):
            self._warnings.add(LEFT_OUT)
        elif text:
            out.append(text)


class ThoughtCalls:
    """Finds the calls with which a reply ends that is nothing but reasoning (waybarrios/vllm-mlx#98)."""

    def __init__(self, reply_id: str, tools: Sequence[Tool], grammar: Grammar) -> None:
        self._state = ParseState(reply_id, tools, strict=True)
        self._steps = grammar(self._state)
        next(self._steps)
        self._is_off = not tools
        self.watches = False
        """A call may begin, depending on what stands before it."""
        self._held: list[str] = []
        """The reasoning that is not passed on."""
        self._prose: list[str] = []
        """Which part of it stands before the first call."""
        self._calls: list[ToolCallDelta] = []

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def feed(self, text: str, out: list[Event]) -> None:
        if self._is_off or (not self._held and self._state.is_prose(text)):
            out.append(ReasoningDelta(text))
            return
        self.watches = True
        self._held.append(text)
        self._state.add_text(text)
        self._read(out)

    def _read(self, out: list[Event]) -> None:
        next(self._steps)
        found, self._state.out = self._state.out, []
        for event in found:
            if type(event) is ToolCallDelta:
                self._calls.append(event)
            elif type(event) is TextDelta and not self._calls:
                self._prose.append(event.text)
            elif type(event) is ReasoningDelta or (type(event) is TextDelta and not event.text.isspace()):
                self.end(out)  # the reasoning goes on behind the call
                return
        if self._state.idle and not self._calls:
            self._release(out)

    def _release(self, out: list[Event]) -> None:
        if text := "".join(self._held):
            out.append(ReasoningDelta(text))
        self._held.clear()
        self._prose.clear()

    def end(self, out: list[Event]) -> None:
        """Something else follows: what is held is reasoning, and so is all that comes later."""
        self._release(out)
        self._is_off, self.watches = True, False

    def close(self, out: list[Event]) -> int:
        """End a whole reply that had nothing but reasoning; return how many calls it ends with."""
        if self._held and not self._is_off:
            self._state.ended = self._state.is_whole = True
            self._read(out)
        if self._is_off or not self._calls:
            self.end(out)
            return 0
        if prose := "".join(self._prose):
            out.append(ReasoningDelta(prose))
        out += self._calls
        self._held.clear()
        return self._state.calls
