"""A conversation into the messages that OpenAI's form wants: grouping, ids, order (docs/formats.md).

Assistant messages of one turn are joined into one with all its calls; results follow it in the order in which they
came, and what stood between them and the calls is sent after the last. Ids are kept, missing ones derived from
what they name, so that equal conversations give equal bytes. A result without a call and a call without a result are
refused with their place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.chat.ids import make_call_id
from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from app.chat.turns import Turn
from app.errors import Violation


@dataclass(slots=True)
class GroupedCall:
    """A call of the history with the id that it is sent under."""

    call: ToolCall
    id: str
    path: str
    answered: bool = False


@dataclass(slots=True)
class MessageGroup:
    """One message to be sent, with the tool results that must stand directly behind it."""

    role: str
    name: str | None = None
    texts: list[tuple[Text | Media, ...]] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    calls: list[GroupedCall] = field(default_factory=list)
    results: list[tuple[str, ToolResult]] = field(default_factory=list)
    details: list[Any] = field(default_factory=list)
    extra_content: Any = None
    """What a provider hung on the message itself, and wants back (Gemini's signature of a text)."""
    place: int = 0
    marks: set[str] = field(default_factory=set)
    """Those of _MARKS that its messages have."""


_MARKS = ("developer", "refusal")
"""Keys of `extra`: a system message in OpenAI's newer word, and that what was said last is a refusal."""
_REMEDY = (
    "add the assistant's function_call (tool_calls), or set extra.function_id (tool_call_id) to the id of the call"
)
"""What to do about a result without a call; in brackets, as OpenAI's form has it."""


def group_messages(messages: Sequence[Message]) -> tuple[list[MessageGroup], list[Violation]]:
    """(groups, violations): every orphan, duplicate and unanswered call with its place."""
    builder = _GroupBuilder()
    for message in messages:
        builder.add(message)
    return builder.finish()


class _GroupBuilder:
    def __init__(self) -> None:
        self._groups: list[MessageGroup] = []
        self._open: MessageGroup | None = None
        self._turn: Turn | None = None
        """Of the assistant's group that is open."""
        self._pending_results: list[tuple[Message, ToolResult]] = []
        self._unanswered: list[tuple[MessageGroup, GroupedCall]] = []
        self._given_ids: set[str] = set()
        """Ids of calls as they were given."""
        self._taken_ids: dict[str, int] = {}
        """Ids that are taken, each with the number that its last repetition got."""
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
        said: list[Text | Media] = []
        for part in parts:
            if isinstance(part, Reasoning):
                group.reasonings.append(part.text)
            elif isinstance(part, ToolCall):
                self._add_call(group, GroupedCall(part, self._make_id(part), message.path))
            elif isinstance(part, Text | Media):
                said.append(part)
            self._position += 1
        if said:
            group.texts.append(tuple(said))
        if message.extra:
            group.marks.update(mark for mark in _MARKS if message.extra.get(mark) is True)
        details = message.extra.get("reasoning_details")
        if isinstance(details, list):
            group.details += details
        own = message.extra.get("extra_content")
        if own is not None and not all(isinstance(part, ToolCall) for part in message.parts):
            group.extra_content = own

    def _add_call(self, group: MessageGroup, issued: GroupedCall) -> None:
        group.calls.append(issued)
        self._unanswered.append((group, issued))
        if issued.call.id:
            self._given_ids.add(issued.call.id)

    def _group_for(self, message: Message, parts: Sequence[Part]) -> MessageGroup:
        assistant = message.role == "assistant"
        if assistant and self._open is not None and self._turn is not None and self._turn.accepts(message, parts):
            return self._open
        group = MessageGroup(message.role, message.name, place=len(self._groups))
        self._groups.append(group)
        self._open, self._turn = (group, Turn(message)) if assistant else (None, None)
        return group

    def _make_id(self, call: ToolCall) -> str:
        """The id as given; a repeated one gets a number, a missing one is derived from place, name and arguments."""
        given = call.id or make_call_id(self._position, call.name, call.arguments)
        unique, count = given, self._taken_ids.get(given, 0)
        while unique in self._taken_ids:
            count += 1
            unique = f"{given}_{count}"
        self._taken_ids[unique] = 1
        self._taken_ids[given] = max(count, 1)
        return unique

    def _match_results(self) -> None:
        """Match a run of results. Those that name an id go first, so that none of their calls is taken by another."""
        run, self._pending_results = self._pending_results, []
        if not run:
            return
        view = sorted(self._unanswered, key=_nearest_first)
        matched = {
            id(result): self._match_result(message, result, view) for message, result in sorted(run, key=_without_id)
        }
        self._unanswered = [pair for pair in self._unanswered if not pair[1].answered]
        for _, result in run:
            match = matched[id(result)]
            if match is not None:
                group, issued = match
                named = result if result.name else replace(result, name=issued.call.name)
                group.results.append((issued.id, named))

    def _match_result(
        self, message: Message, result: ToolResult, view: list[tuple[MessageGroup, GroupedCall]]
    ) -> tuple[MessageGroup, GroupedCall] | None:
        free = [pair for pair in view if not pair[1].answered]
        known = result.id in self._given_ids
        if known:
            chosen = [pair for pair in free if pair[1].call.id == result.id]
        else:
            chosen = [pair for pair in free if pair[1].call.name == result.name] or ([] if result.id else free)
        if chosen:
            chosen[0][1].answered = True
            return chosen[0]
        if known:
            text = f"a second result for the call {result.id!r}"
        else:
            text = f"tool result{_describe_result(result)} has no matching call before it: {_REMEDY}"
        self._violations.append(Violation(message.path, text))
        return None

    def finish(self) -> tuple[list[MessageGroup], list[Violation]]:
        self._match_results()
        for _, issued in self._unanswered:
            text = f"the call of {issued.call.name!r} has no result in the messages after it"
            self._violations.append(Violation(issued.call.path or f"{issued.path}.function_call", text))
        return self._groups, self._violations


def _describe_result(result: ToolResult) -> str:
    named = f" for function {result.name!r}" if result.name else ""
    return f"{named} with the id {result.id!r}" if result.id else named


def _nearest_first(pair: tuple[MessageGroup, GroupedCall]) -> int:
    return -pair[0].place


def _without_id(pair: tuple[Message, ToolResult]) -> bool:
    return not pair[1].id


def _drop_empty_parts(message: Message) -> list[Part]:
    """The parts that say something: some formats write empty text where others write none."""
    return [part for part in message.parts if not isinstance(part, Text | Reasoning) or part.text]
