"""Groups the messages of a conversation as OpenAI's format orders them (docs/reference/formats/upstream-messages.md).

Assistant messages of one turn become one message with all its calls. The results follow it in the order in which they
came, and messages between the calls and their results follow the last result. Ids are kept; a missing id is derived
from the call's position, name and arguments, so that equal conversations give equal bytes. A result without a call and
a call without a result are violations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from app.chat.ids import make_call_id
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.chat.turns import Turn
from app.errors import Violation


@dataclass(slots=True)
class GroupedCall:
    """A call of the history with the id that is sent for it."""

    call: ToolCall
    id: str
    path: str
    answered: bool = False


@dataclass(slots=True)
class MessageGroup:
    """One message to send, with the tool results that must directly follow it."""

    role: str
    name: str | None = None
    texts: list[tuple[Text | Media, ...]] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    calls: list[GroupedCall] = field(default_factory=list)
    results: list[tuple[str, ToolResult]] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    extra_content: Any = None
    """Opaque fields of the message itself that the provider wants back (Gemini's signature of a text)."""
    place: int = 0
    """The position of the group in the conversation."""
    marks: set[str] = field(default_factory=set)
    """The keys of `_MARKS` that its messages have."""
    sources: list[Message] = field(default_factory=list)
    """The messages that it was made of, without those of the results."""


_MARKS = ("developer", "refusal")
"""Keys of `extra`: the role was `developer`, OpenAI's newer name for `system`, and the last text is a refusal."""
_REMEDY = (
    "add the assistant's function_call (tool_calls), or set extra.function_id (tool_call_id) to the id of the call"
)
"""What to do about a result without a call; in brackets the names of OpenAI's format."""


def group_messages(messages: Sequence[Message]) -> tuple[list[MessageGroup], list[Violation]]:
    """Return (groups, violations): one for each result without a call, second result and call without a result."""
    builder = _GroupBuilder()
    for message in messages:
        builder.add(message)
    return builder.finish()


def find_call_violations(messages: Sequence[Message]) -> list[Violation]:
    """Return the violations of `group_messages`. Without calls and results there are none, and nothing is grouped."""
    for message in messages:
        for part in message.parts:
            if type(part) in _PAIRED:
                return group_messages(messages)[1]
    return []


_PAIRED = (ToolCall, ToolResult)
_UNPAIRED = (Text, Media)
_TEXTUAL = (Text, Reasoning)


class _GroupBuilder:
    def __init__(self) -> None:
        self._groups: list[MessageGroup] = []
        self._open: MessageGroup | None = None
        self._turn: Turn | None = None
        """Of the assistant's group that is open."""
        self._pending_results: list[tuple[Message, ToolResult]] = []
        self._unanswered: list[tuple[MessageGroup, GroupedCall]] = []
        self._given_ids: set[str] = set()
        """Ids of calls as the caller gave them."""
        self._taken_ids: dict[str, int] = {}
        """Ids in use, each with the number of its last repetition."""
        self._violations: list[Violation] = []
        self._position = 0

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._pending_results += ((message, part) for part in message.parts if isinstance(part, ToolResult))
            self._position += len(message.parts)
            self._open = self._turn = None
            return
        self._match_results()
        parts = _drop_empty_parts(message)
        group = self._group_for(message, parts)
        if self._turn is not None and parts:
            self._turn.add(parts)
        group.sources.append(message)
        content: list[Text | Media] = []
        for part in parts:
            if isinstance(part, Reasoning):
                group.reasonings.append(part.text)
            elif isinstance(part, ToolCall):
                self._add_call(group, GroupedCall(part, self._make_id(part), message.path))
            elif isinstance(part, _UNPAIRED):
                content.append(part)
            self._position += 1
        if content:
            group.texts.append(tuple(content))
        if message.extra:
            group.marks.update(mark for mark in _MARKS if message.extra.get(mark) is True)
        details = message.extra.get("reasoning_details")
        if isinstance(details, list):
            group.details += details
        extra_content = message.extra.get("extra_content")
        if extra_content is not None and not all(isinstance(part, ToolCall) for part in message.parts):
            group.extra_content = extra_content

    def _add_call(self, group: MessageGroup, grouped: GroupedCall) -> None:
        group.calls.append(grouped)
        self._unanswered.append((group, grouped))
        if grouped.call.id:
            self._given_ids.add(grouped.call.id)

    def _group_for(self, message: Message, parts: Sequence[Part]) -> MessageGroup:
        assistant = message.role == "assistant"
        if assistant and self._open is not None and self._turn is not None and self._turn.accepts(message, parts):
            return self._open
        group = MessageGroup(message.role, message.name, place=len(self._groups))
        self._groups.append(group)
        self._open, self._turn = (group, Turn(message)) if assistant else (None, None)
        return group

    def _make_id(self, call: ToolCall) -> str:
        """Return the given id, numbered if it is repeated, or one derived from position, name and arguments."""
        given = call.id or make_call_id(self._position, call.name, call.arguments)
        unique, count = given, self._taken_ids.get(given, 0)
        while unique in self._taken_ids:
            count += 1
            unique = f"{given}_{count}"
        self._taken_ids[unique] = 1
        self._taken_ids[given] = max(count, 1)
        return unique

    def _match_results(self) -> None:
        """Match a run of results to calls. Results with an id go first, so that others do not take their calls."""
        run, self._pending_results = self._pending_results, []
        if not run:
            return
        candidates = sorted(self._unanswered, key=_nearest_first)
        matched = {
            id(result): self._match_result(message, result, candidates)
            for message, result in sorted(run, key=_without_id)
        }
        self._unanswered = [pair for pair in self._unanswered if not pair[1].answered]
        for _, result in run:
            match = matched[id(result)]
            if match is not None:
                group, grouped = match
                named = result if result.name else replace(result, name=grouped.call.name)
                group.results.append((grouped.id, named))

    def _match_result(
        self, message: Message, result: ToolResult, candidates: list[tuple[MessageGroup, GroupedCall]]
    ) -> tuple[MessageGroup, GroupedCall] | None:
        free = [pair for pair in candidates if not pair[1].answered]
        known = result.id in self._given_ids
        if known:
            chosen = [pair for pair in free if pair[1].call.id == result.id]
        else:
            chosen = [pair for pair in free if pair[1].call.name == result.name] or ([] if result.id else free)
        if chosen:
            chosen[0][1].answered = True
            return chosen[0]
        if known:
            text = f"the call {result.id!r} already has a result: remove one of the two"
        else:
            text = f"tool result{_describe_result(result)} has no matching call before it: {_REMEDY}"
        self._violations.append(Violation(message.path, text))
        return None

    def finish(self) -> tuple[list[MessageGroup], list[Violation]]:
        self._match_results()
        for _, grouped in self._unanswered:
            text = f"the call of {grouped.call.name!r} has no result in the messages after it: add its result"
            self._violations.append(Violation(grouped.call.path or f"{grouped.path}.function_call", text))
        return self._groups, self._violations


def _describe_result(result: ToolResult) -> str:
    function = f" for function {result.name!r}" if result.name else ""
    return f"{function} with the id {result.id!r}" if result.id else function


def _nearest_first(pair: tuple[MessageGroup, GroupedCall]) -> int:
    return -pair[0].place


def _without_id(pair: tuple[Message, ToolResult]) -> bool:
    return not pair[1].id


def _drop_empty_parts(message: Message) -> list[Part]:
    """Drop empty text and reasoning: some formats write an empty text where others write none."""
    return [part for part in message.parts if not isinstance(part, _TEXTUAL) or part.text]
