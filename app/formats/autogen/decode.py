"""AutoGen's items into the vocabulary: who speaks on whose side, and what of it a model is told.

AgentChat makes a user's message of whatever an agent receives; what an agent said itself only the agent knows. So the
caller says for whom the list is (`Options.agent`); without that, whoever is not a user speaks as the assistant.
Items that say nothing to a model are kept beside the message that follows them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import Message, ToolCall, ToolResult
from app.errors import Violation
from app.formats.autogen.bag import ID_HEAD, KEY, item_id, restored, told
from app.formats.autogen.core import CoreMessage, SystemMessage
from app.formats.autogen.pieces import ASIDE, Verdict
from app.formats.autogen.schema import (
    Aside,
    AutogenItem,
    CodeExecutionEvent,
    CodeGenerationEvent,
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    Spoken,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
    UserInputRequestedEvent,
)
from app.formats.violations import unknown_keys

_OF_A_MODEL = (
    ThoughtEvent
    | ToolCallRequestEvent
    | ToolCallExecutionEvent
    | ToolCallSummaryMessage
    | ModelClientStreamingChunkEvent
    | CodeGenerationEvent
)


def decode(
    items: Sequence[AutogenItem], raws: Sequence[Mapping[str, Any]], agent: str | None
) -> tuple[tuple[Message, ...], list[Violation], list[str]]:
    """(messages, violations, warnings)."""
    run = _Decoding(items, raws, agent)
    for number in range(len(items)):
        run.add(number)
    messages = run.finish()
    wrong = [] if messages else [Violation("messages", "nothing in this list is said to the model or by it")]
    return tuple(messages), wrong, run.warnings


def sides(items: Sequence[AutogenItem]) -> frozenset[str]:
    """The sources that are users where no agent is named: "user", and who was asked for input and is no model."""
    asked = {one.source for one in items if isinstance(one, UserInputRequestedEvent)}
    models = {one.source for one in items if isinstance(one, _OF_A_MODEL)}
    return frozenset({"user"} | (asked - models))


class _Decoding:
    def __init__(self, items: Sequence[AutogenItem], raws: Sequence[Mapping[str, Any]], agent: str | None) -> None:
        self.warnings: list[str] = []
        self._items = items
        self._raws = raws
        self._agent = agent
        self._users = sides(items)
        self._messages: list[Message] = []
        self._before: list[Any] = []
        self._names: dict[str, str] = {}
        self._answered: set[str] = set()

    def add(self, number: int) -> None:
        item, raw, path = self._items[number], self._raws[number], f"messages[{number}]"
        for key in item.model_extra or ():
            self.warnings.append(f"{path}.{key} is not a field of AutoGen's {item.type} and was ignored")
        for name in type(item).model_fields:
            unread = unknown_keys(getattr(item, name), f"{path}.{name}") if name != "models_usage" else ()
            self.warnings += (f"{place} is not a field that AutoGen knows there and was ignored" for place in unread)
        messages = restored(item, raw, path)
        verdict = Verdict("kept") if messages else self._judge(number, item)
        if not messages:
            messages = [self._named(one) for one in told(item, raw, verdict, path)]
        self._remember(messages)
        if not messages:
            self._before.append(raw)
            return
        if not _ours(item, raw, number):
            messages = _beside(messages, raw, verdict)
        if self._before:
            messages[0] = _with(messages[0], autogen_before=self._before)
            self._before = []
        self._messages += messages

    def finish(self) -> list[Message]:
        if self._before and self._messages:
            self._messages[-1] = _with(self._messages[-1], autogen_after=self._before)
        return self._messages

    def _named(self, message: Message) -> Message:
        """A result of an old version gets the name of its call."""
        for part in message.parts:
            if isinstance(part, ToolResult) and part.name is None:
                name = self._names.get(part.id or "", "tool")
                return replace(message, name=name, parts=(replace(part, name=name),))
        return message

    def _remember(self, messages: Sequence[Message]) -> None:
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolCall) and part.id:
                self._names[part.id] = part.name
            elif isinstance(part, ToolResult) and part.id:
                self._answered.add(part.id)

    def _own(self, source: str) -> bool:
        return source == self._agent if self._agent is not None else source not in self._users

    def _judge(self, number: int, item: AutogenItem) -> Verdict:
        if isinstance(item, CoreMessage):
            return ASIDE if isinstance(item, SystemMessage) and not item.content else Verdict("core")
        if isinstance(item, Aside):
            return ASIDE
        if isinstance(item, CodeExecutionEvent):
            return Verdict("user")
        own = self._own(item.source)
        if isinstance(item, ToolCallSummaryMessage):
            return self._summary(item) if own else Verdict("user")
        if isinstance(item, HandoffMessage):
            return self._handoff() if own else Verdict("handoff")
        if isinstance(item, ThoughtEvent):
            return self._thought(number, item) if own else ASIDE
        if isinstance(item, ToolCallRequestEvent | ToolCallExecutionEvent):
            how: Any = "calls" if isinstance(item, ToolCallRequestEvent) else "results"
            return Verdict(how) if own else ASIDE
        return Verdict("own" if own else "user")

    def _after_result(self) -> bool:
        return bool(self._messages) and self._messages[-1].role == "tool"

    def _handoff(self) -> Verdict:
        """The result of the call that hands over says the same already."""
        return ASIDE if self._after_result() else Verdict("own")

    def _summary(self, item: ToolCallSummaryMessage) -> Verdict:
        """A summary is no part of its agent's context, but it may be all that a list holds of calls and results."""
        if not item.tool_calls:
            return ASIDE if self._after_result() else Verdict("own")
        calls = tuple(place for place, one in enumerate(item.tool_calls) if one.id not in self._names)
        open_ = {one.id for one in item.tool_calls if one.id not in self._answered}
        results = tuple(place for place, one in enumerate(item.results) if one.call_id in open_)
        return Verdict("rebuilt", calls, results) if calls or results else ASIDE

    def _thought(self, number: int, item: ThoughtEvent) -> Verdict:
        """Without its kind, a thought is text where calls of the same agent are the next that is said."""
        kind = (item.metadata or {}).get("kind")
        if kind == "content" or kind == "reasoning":
            return Verdict("content" if kind == "content" else "reasoning")
        for one in self._items[number + 1 :]:
            if isinstance(one, Aside) or self._foreign_act(one):
                continue
            calls = isinstance(one, ToolCallRequestEvent) and one.source == item.source
            return Verdict("content" if calls else "reasoning")
        return Verdict("reasoning")

    def _foreign_act(self, item: AutogenItem) -> bool:
        acts = ThoughtEvent | ToolCallRequestEvent | ToolCallExecutionEvent
        return isinstance(item, acts) and not self._own(item.source)


def _ours(item: AutogenItem, raw: Mapping[str, Any], number: int) -> bool:
    """A history of ours, unchanged: writing its messages again gives the same item."""
    metadata = raw.get("metadata")
    if isinstance(item, SystemMessage):
        return set(raw) <= {"content", "type", "metadata"} and (metadata is None or set(metadata) == {KEY})
    if not isinstance(item, Spoken) or not (item.id or "").startswith(ID_HEAD):
        return False
    if item.id not in (item_id(number, raw, nameless=False), item_id(number, raw, nameless=True)):
        return False
    known = {"id", "source", "models_usage", "metadata", "content", "type"}
    return set(raw) == known and raw["models_usage"] is None and set(metadata or {}) <= {"kind", KEY}


def _beside(messages: Sequence[Message], raw: Mapping[str, Any], verdict: Verdict) -> list[Message]:
    kept: dict[str, Any] = {"raw": raw, "k": 0, "as": verdict.how}
    if verdict.how == "rebuilt":
        kept |= {"calls": list(verdict.calls), "results": list(verdict.results)}
    first, *rest = messages
    return [_with(first, autogen=kept), *(_with(one, autogen={"k": k}) for k, one in enumerate(rest, 1))]


def _with(message: Message, **fields: Any) -> Message:
    return replace(message, extra={**message.extra, **fields})
