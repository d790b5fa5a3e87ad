"""Parses AutoGen's items: decides the role of each item, and which items a model sees.

AgentChat makes a user message of everything that an agent receives, and only the agent knows its own messages. So the
caller names the agent that the model answers for (`Options.agent`); without it, every source that is not a user is the
assistant. Items that a model does not see are kept in `extra` of the next message.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import Message, ToolCall, ToolResult
from app.errors import Violation
from app.formats.autogen.item_parser import ASIDE, ItemRole
from app.formats.autogen.schema import (
    AgentItem,
    AsideItem,
    AutogenItem,
    CodeExecutionEvent,
    CodeGenerationEvent,
    CoreMessage,
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    SystemMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
    UserInputRequestedEvent,
)
from app.formats.autogen.sidecar import make_item_id, read_item, restore
from app.formats.sidecar import ID_HEAD, SIDECAR_KEY, keep_original
from app.validation.violations import find_unknown_keys

_MODEL_EVENTS = (
    ThoughtEvent
    | ToolCallRequestEvent
    | ToolCallExecutionEvent
    | ToolCallSummaryMessage
    | ModelClientStreamingChunkEvent
    | CodeGenerationEvent
)


def parse_items(
    items: Sequence[AutogenItem], raws: Sequence[Mapping[str, Any]], agent: str | None
) -> tuple[tuple[Message, ...], list[Violation], list[str]]:
    """Return (messages, violations, warnings). `raws` are the items as the caller wrote them."""
    parser = _ItemListParser(items, raws, agent)
    for number in range(len(items)):
        parser.add(number)
    messages = parser.finish()
    text = "no item has content for the model: add a message with text"
    violations = [] if messages else [Violation("messages", text)]
    return tuple(messages), violations, parser.warnings


def find_user_sources(items: Sequence[AutogenItem]) -> frozenset[str]:
    """Return the sources that are users if the caller names no agent: "user", and sources that were asked for input
    and wrote no item that only a model writes."""
    input_sources = {item.source for item in items if isinstance(item, UserInputRequestedEvent)}
    models = {item.source for item in items if isinstance(item, _MODEL_EVENTS)}
    return frozenset({"user"} | (input_sources - models))


class _ItemListParser:
    def __init__(self, items: Sequence[AutogenItem], raws: Sequence[Mapping[str, Any]], agent: str | None) -> None:
        self.warnings: list[str] = []
        self._items = items
        self._raws = raws
        self._agent = agent
        self._users = find_user_sources(items)
        self._messages: list[Message] = []
        self._pending_asides: list[Any] = []
        self._names: dict[str, str] = {}
        self._answered_ids: set[str] = set()

    def add(self, number: int) -> None:
        item, raw, path = self._items[number], self._raws[number], f"messages[{number}]"
        for key in item.model_extra or ():
            self.warnings.append(f"{path}.{key} is not a field of AutoGen's {item.type} and was ignored")
        for name in type(item).model_fields:
            unread = find_unknown_keys(getattr(item, name), f"{path}.{name}") if name != "models_usage" else ()
            self.warnings += (f"{place} is not a field that AutoGen has there and was ignored" for place in unread)
        messages = restore(item, raw, path)
        item_role = ItemRole("kept") if messages else self._find_role(number, item)
        if not messages:
            messages = [self._fill_result_name(one) for one in read_item(item, raw, item_role, path)]
        self._track_calls(messages)
        if not messages:
            self._pending_asides.append(raw)
            return
        if not _is_written_here(item, raw, number):
            messages = keep_original(messages, "autogen", raw, **_describe_role(item_role))
        if self._pending_asides:
            messages[0] = _add_extra(messages[0], autogen_before=self._pending_asides)
            self._pending_asides = []
        self._messages += messages

    def finish(self) -> list[Message]:
        if self._pending_asides and self._messages:
            self._messages[-1] = _add_extra(self._messages[-1], autogen_after=self._pending_asides)
        return self._messages

    def _fill_result_name(self, message: Message) -> Message:
        """Fill in the name of the call in a result of an AutoGen version before 0.4.8."""
        for part in message.parts:
            if isinstance(part, ToolResult) and part.name is None:
                name = self._names.get(part.id or "", "tool")
                return replace(message, name=name, parts=(replace(part, name=name),))
        return message

    def _track_calls(self, messages: Sequence[Message]) -> None:
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolCall) and part.id:
                self._names[part.id] = part.name
            elif isinstance(part, ToolResult) and part.id:
                self._answered_ids.add(part.id)

    def _is_own(self, source: str) -> bool:
        return source == self._agent if self._agent is not None else source not in self._users

    def _find_role(self, number: int, item: AutogenItem) -> ItemRole:
        if isinstance(item, CoreMessage):
            return ASIDE if isinstance(item, SystemMessage) and not item.content else ItemRole("core")
        if isinstance(item, AsideItem):
            return ASIDE
        if isinstance(item, CodeExecutionEvent):
            return ItemRole("user")
        own = self._is_own(item.source)
        if isinstance(item, ToolCallSummaryMessage):
            return self._find_summary_role(item) if own else ItemRole("user")
        if isinstance(item, HandoffMessage):
            return self._find_handoff_role() if own else ItemRole("handoff")
        if isinstance(item, ThoughtEvent):
            return self._find_thought_role(number, item) if own else ASIDE
        if isinstance(item, ToolCallRequestEvent | ToolCallExecutionEvent):
            kind: Any = "calls" if isinstance(item, ToolCallRequestEvent) else "results"
            return ItemRole(kind) if own else ASIDE
        return ItemRole("own" if own else "user")

    def _is_after_result(self) -> bool:
        return bool(self._messages) and self._messages[-1].role == "tool"

    def _find_handoff_role(self) -> ItemRole:
        """A handoff after a result is an aside, because the result of the handoff call has the same text."""
        return ASIDE if self._is_after_result() else ItemRole("own")

    def _find_summary_role(self, item: ToolCallSummaryMessage) -> ItemRole:
        """A summary is not part of its agent's context, unless the list has its calls and results nowhere else."""
        if not item.tool_calls:
            return ASIDE if self._is_after_result() else ItemRole("own")
        calls = tuple(place for place, one in enumerate(item.tool_calls) if one.id not in self._names)
        open_ = {one.id for one in item.tool_calls if one.id not in self._answered_ids}
        results = tuple(place for place, one in enumerate(item.results) if one.call_id in open_)
        return ItemRole("rebuilt", calls, results) if calls or results else ASIDE

    def _find_thought_role(self, number: int, item: ThoughtEvent) -> ItemRole:
        """A `ThoughtEvent` without a kind is text if calls of the same agent are the next item that a model sees."""
        kind = (item.metadata or {}).get("kind")
        if kind == "content" or kind == "reasoning":
            return ItemRole("content" if kind == "content" else "reasoning")
        for one in self._items[number + 1 :]:
            if isinstance(one, AsideItem) or self._is_foreign_action(one):
                continue
            calls = isinstance(one, ToolCallRequestEvent) and one.source == item.source
            return ItemRole("content" if calls else "reasoning")
        return ItemRole("reasoning")

    def _is_foreign_action(self, item: AutogenItem) -> bool:
        acts = ThoughtEvent | ToolCallRequestEvent | ToolCallExecutionEvent
        return isinstance(item, acts) and not self._is_own(item.source)


def _is_written_here(item: AutogenItem, raw: Mapping[str, Any], number: int) -> bool:
    """Return whether the gateway wrote this item and it was not changed, so that its messages give the same item."""
    metadata = raw.get("metadata")
    if isinstance(item, SystemMessage):
        return set(raw) <= {"content", "type", "metadata"} and (metadata is None or set(metadata) == {SIDECAR_KEY})
    if not isinstance(item, AgentItem) or not (item.id or "").startswith(ID_HEAD):
        return False
    if item.id not in (make_item_id(number, raw, nameless=False), make_item_id(number, raw, nameless=True)):
        return False
    known = {"id", "source", "models_usage", "metadata", "content", "type"}
    return set(raw) == known and raw["models_usage"] is None and set(metadata or {}) <= {"kind", SIDECAR_KEY}


def _describe_role(item_role: ItemRole) -> dict[str, Any]:
    """Return how an item was read, so that it can be read again in the same way."""
    how: dict[str, Any] = {"as": item_role.kind}
    if item_role.kind == "rebuilt":
        how |= {"calls": list(item_role.calls), "results": list(item_role.results)}
    return how


def _add_extra(message: Message, **fields: Any) -> Message:
    return replace(message, extra={**message.extra, **fields})
