"""The stage through which the texts and calls of a reply pass: it separates calls in the content from the prose, cleans
structured calls, and leaves out what a template leaves at the end of a text.

Once a structured call arrives, the content is no longer parsed, because the server parses its model's calls itself. Its
calls are numbered after those that were found before.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from app.chat.events import Event, Extra, Failed, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers.cursor import compile_characters
from app.steps.tool_parsers.family import Grammar
from app.steps.tool_parsers.parser import ParseState
from app.steps.tool_parsers.repeated_calls import RepeatedCalls
from app.steps.tool_parsers.structured_calls import StructuredCalls
from app.steps.tool_parsers.text_end import LONGEST_END, TextEnd
from app.steps.tool_parsers.thoughts import ThoughtCalls, ThoughtEnd
from app.steps.tool_parsers.warnings import Warnings

_WHOLE = ("stop", "tool_calls")
"""The finish reasons of a reply that has ended by itself."""
_may_end_thought = re.compile(r"<|\]\Z").search
"""Whether a text has what a token can begin with: MiniMax-M3's begin with `]<`."""
_CALLED = ("tool_calls", "tool_use", "function_call")
"""The words of servers for a reply with calls. Some lose them in streams (earendil-works/pi#6356)."""


class CallStage:
    def __init__(
        self,
        reply_id: str,
        tools: Sequence[Tool],
        grammar: Grammar,
        *,
        strict: bool = False,
        structured: Callable[[Mapping[str, Tool], Warnings], StructuredCalls] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """`strict`: see `ParseState`. `structured` cleans the structured calls of the reply. `report` is called with
        the family as which calls were read, if it was not configured."""
        self._report = report or (lambda family: None)
        self._state = ParseState(reply_id, tools, strict=strict)
        self._steps = grammar(self._state)
        self._passing = False
        self._numbers: dict[int, int] = {}
        self._warnings = Warnings()
        self._repeated = RepeatedCalls(self._warnings)
        self._structured = structured(self._state.tools, self._warnings) if structured is not None else None
        self.passes_text, self.passes_reasoning, self.passes_arguments = False, True, -1
        self._text_end = TextEnd(self._warnings, may_have_calls=bool(tools))
        self._thought_end = ThoughtEnd(self._warnings)
        self._thought_calls = ThoughtCalls(reply_id, tools, grammar)
        self._calls_in_thought = 0
        self._blanks = ""
        """White space that waits."""
        next(self._steps)

    def feed(self, events: list[Event]) -> list[Event]:
        state, text_end = self._state, self._text_end
        out: list[Event] = []
        for event in events:
            if type(event) is TextDelta and not event.refusal:
                if text_end.is_idle and state.is_prose(event.text):
                    text_end.add_passed(event.text)
                    out.append(event)
                else:
                    self._read_text(event.text, out)
            elif type(event) is ReasoningDelta:
                self._read_reasoning(event, out)
            elif type(event) is Extra and not self._repeated.hold(event):
                number = self._numbers.get(event.index, event.index)
                out.append(event if number == event.index else Extra(event.fields, number))
            elif type(event) is not Extra:
                state.cut = type(event) is Failed or (type(event) is Finish and event.reason not in _WHOLE)
                state.is_whole = type(event) is Finish and not state.cut
                self._flush(out)
                self._add_other(event, out)
        self._find_passing(events)
        return out

    def _find_passing(self, events: list[Event]) -> None:
        """Say what may pass without this stage until the next event that it is given."""
        state, thought = self._state, self._thought_end
        is_thought_clear = not thought.held and not thought.is_over and not self._thought_calls.watches
        self.passes_text = is_thought_clear and state.idle and self._text_end.is_idle
        self.passes_reasoning = is_thought_clear and (
            self.passes_text or (not state.text and not state.position and not self._text_end.has_text)
        )
        last = events[-1] if events else None
        self.passes_arguments = -1
        if type(last) is ToolCallDelta and not self._numbers and not state.calls:
            self.passes_arguments = last.index if self._structured is None else self._structured.find_plain(last)

    @property
    def marker_starts(self) -> re.Pattern[str]:
        """What a text has that does not pass without this stage."""
        return compile_characters(self._state.all_starts)

    def skip(self, texts: list[str], arguments: list[str]) -> None:
        """Learn which texts have passed without this stage, and which arguments of the call that may."""
        if texts:
            self._text_end.add_passed("".join(texts[-LONGEST_END:]))
            if self._state.prose is not None:
                self._state.prose.add("".join(texts))
        if arguments and self._structured is not None:
            self._structured.skip(self.passes_arguments, arguments)

    def _read_text(self, text: str, out: list[Event]) -> None:
        state = self._state
        if self._is_beside_thought(text, out):
            return
        text, self._blanks = self._blanks + text, ""
        if self._passing:
            self._text_end.feed(text, out)
        elif not state.continue_string(text):
            state.add_text(text)
            next(self._steps)
        self._take_output(out)

    def _take_output(self, out: list[Event]) -> None:
        """Pass on what the grammar has emitted."""
        found, self._state.out = self._state.out, []
        for event in found:
            if type(event) is TextDelta:
                self._text_end.feed(event.text, out)
            else:
                if type(event) is ToolCallDelta:
                    self._text_end.flush(out)
                    self._repeated.add(event)
                elif type(event) is not Extra:
                    self._text_end.flush(out)
                elif "warning" in event.fields:  # only some formats have the extra fields of a message
                    self._warnings.add(event.fields["warning"])
                out.append(event)

    def _read_reasoning(self, event: ReasoningDelta, out: list[Event]) -> None:
        thought = self._thought_end
        if thought.is_over:
            self._read_text(event.text, out)
            return
        self._flush(out)
        if not thought.held and not self._thought_calls.watches and _may_end_thought(event.text) is None:
            out.append(event)
            return
        passed: list[str] = []
        answer = thought.feed(event.text, passed)
        for text in passed:
            self._thought_calls.feed(text, out)
        if answer:
            self._read_text(answer, out)
        elif thought.held or self._thought_calls.holds:
            self._text_end.is_idle = False

    def _flush_thought(self, out: list[Event]) -> None:
        passed: list[str] = []
        self._thought_end.flush(passed)
        for text in passed:
            self._thought_calls.feed(text, out)

    def _is_beside_thought(self, text: str, out: list[Event]) -> bool:
        """End the reasoning before a text, unless the text is white space behind a call in it, which waits."""
        self._flush_thought(out)
        if self._thought_calls.holds and text.isspace():
            self._blanks += text
            return True
        self._thought_calls.end(out)
        return False

    def _flush(self, out: list[Event]) -> None:
        """End the buffered text before an event that is not text. What comes before all text, such as reasoning, does
        not end it: some grammars read calls at its beginning only."""
        state = self._state
        if not state.idle and not self._passing and (state.text or state.position):
            state.ended = True
            next(self._steps)
            state.ended = False
        self._take_output(out)
        self._text_end.flush(out)

    def _add_other(self, event: Event, out: list[Event]) -> None:
        self._flush_thought(out)
        if type(event) is Finish and event.reason in _WHOLE:
            self._calls_in_thought = self._thought_calls.close(out)
        else:
            self._thought_calls.end(out)
        if type(event) is ToolCallDelta:
            self._passing = True
            if not self._repeated.hold(event):
                self._add_call(event, out)
            return
        self._add_held(out)
        if type(event) is Finish:
            if self._structured is not None:
                self._structured.close(out, whole=not self._state.cut)
            out.append(self._finish(event))
        else:
            if type(event) is Failed and self._structured is not None:
                self._structured.close(out, whole=not self._state.cut)
            out.append(event)

    def _add_call(self, event: ToolCallDelta, out: list[Event]) -> None:
        call = self._renumber_call(event)
        if self._structured is None:
            out.append(call)
        else:
            self._structured.feed(call, out)

    def _add_held(self, out: list[Event]) -> None:
        if self._state.calls:
            for event in self._repeated.take_others():
                if type(event) is ToolCallDelta:
                    self._add_call(event, out)
                elif type(event) is Extra:
                    out.append(Extra(event.fields, self._numbers.get(event.index, event.index)))

    def _finish(self, event: Finish) -> Finish:
        state = self._state
        if self._calls_in_thought:
            event = replace(event, reason="tool_calls")
            self._warnings.add("the model's function calls stood in its reasoning, and nothing followed")
        elif event.reason == "stop" and state.calls > len(self._numbers):
            event = replace(event, reason="tool_calls")
        elif event.reason == "stop" and event.native_reason in _CALLED and not self._passing:
            event = replace(event, cacheable=False)
            self._warnings.add(
                f"the model server ended the reply with {event.native_reason!r}, but has sent no call: one may be lost"
            )
        if state.exhausted:
            event = replace(event, cacheable=False)
        if state.strict and state.calls > len(self._numbers):
            self._report(state.found_family)
            self._warnings.add(
                f"the model's function calls arrived as text and were read without a setting; "
                f'text_tools = "{state.found_family}" in its profile reads them as they arrive'
            )
        if self._warnings.texts:
            event = replace(event, warnings=(*event.warnings, *self._warnings.texts))
        return event

    def _renumber_call(self, event: ToolCallDelta) -> ToolCallDelta:
        if event.index not in self._numbers and not self._state.calls:
            return event
        number = self._numbers.get(event.index)
        if number is None:
            number, id_ = self._state.next_call(event.id)
            self._numbers[event.index] = number
            return ToolCallDelta(number, event.arguments, id_, event.name)
        return ToolCallDelta(number, event.arguments, event.id, event.name)
