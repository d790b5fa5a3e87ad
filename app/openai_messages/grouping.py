"""Groups the messages of a conversation as OpenAI's format orders them (docs/reference/formats/upstream-messages.md).

Assistant messages of one turn become one message with all its calls. The results follow it in the order in which they
came, and messages between the calls and their results follow the last result. Ids are kept; a missing id is derived
from the call's position, name and arguments, so that identical conversations give identical bytes. A result without a
call and a call without a result are violations.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.messages import (
    NO_CALLS,
    CallState,
    Media,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    make_call_id,
)
from app.chat.turns import Turn
from app.errors import Violation
from app.openai_messages.groups import GroupedCall, MessageGroup, UnmatchedCalls


class _UnansweredCalls:
    """Calls that are taken by results: those of the nearest assistant message first, in their order.

    A call may be in several of these. One that was answered by way of another is dropped when it is met.
    """

    def __init__(self) -> None:
        self._runs: list[list[tuple[MessageGroup, GroupedCall]]] = []
        """The calls of each message that still has any, the first one last."""
        self._last: list[tuple[MessageGroup, GroupedCall]] = []
        """Those of the last message that has calls, in their order."""

    def add(self, group: MessageGroup, call: GroupedCall) -> None:
        """Add a call of the last message."""
        if self._last and self._last[0][0] is not group:
            self._runs.append(self._last[::-1])
            self._last = []
        self._last.append((group, call))

    def take(self) -> tuple[MessageGroup, GroupedCall] | None:
        """Return the call that the next result answers, with its message; None if there is none."""
        if self._last:
            self._runs.append(self._last[::-1])
            self._last = []
        while self._runs:
            calls = self._runs[-1]
            while calls:
                group, call = calls.pop()
                if not call.answered:
                    call.answered = True
                    return group, call
            self._runs.pop()
        return None


_MARKS = ("developer", "refusal")
"""Keys of `extra`: the role was `developer`, OpenAI's newer name for `system`, and the last text is a refusal."""
_REMEDY = (
    "add the assistant's function_call (tool_calls), or set extra.function_id (tool_call_id) to the id of the call"
)
"""What to do about a result without a call; in brackets the names of OpenAI's format."""


def group_messages(
    messages: Sequence[Message], calls: CallState = NO_CALLS
) -> tuple[list[MessageGroup], list[Violation]]:
    """Return (groups, violations): one for each result without a call, second result and call without a result. `calls`
    are those before the messages."""
    builder = _GroupBuilder(calls)
    for message in messages:
        builder.add(message)
    return builder.finish()


def group_beginning(
    messages: Sequence[Message], calls: CallState = NO_CALLS
) -> tuple[list[MessageGroup], CallState] | None:
    """Return (groups, the calls with those of these messages); None if there are violations."""
    builder = _GroupBuilder(calls)
    for message in messages:
        builder.add(message)
    groups, violations = builder.finish()
    return None if violations else (groups, builder.calls)


def find_unmatched_calls(messages: Sequence[Message], calls: CallState = NO_CALLS) -> UnmatchedCalls:
    """Return the calls and results that are not pairs. Where they clearly are, nothing is grouped."""
    if _are_pairs(messages):
        return UnmatchedCalls((), (), ())
    builder = _GroupBuilder(calls)
    for message in messages:
        builder.add(message)
    violations = builder.finish()[1]
    return UnmatchedCalls(builder.list_unanswered(), builder.orphans, violations)


def _are_pairs(messages: Sequence[Message]) -> bool:
    """Whether each call has an id of its own, and one result after it that names the id."""
    ids: set[str] = set()
    unanswered: set[str] = set()
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall:
                if not part.id or part.id in ids or message.role == "tool":
                    return False
                ids.add(part.id)
                unanswered.add(part.id)
            elif type(part) is ToolResult:
                if part.id not in unanswered or message.role != "tool":
                    return False
                unanswered.remove(part.id)
    return not unanswered


_TEXTUAL = (Text, Reasoning)


class _GroupBuilder:
    def __init__(self, before: CallState) -> None:
        self._before = before
        self._groups: list[MessageGroup] = []
        self._open: MessageGroup | None = None
        self._turn: Turn | None = None
        """Of the assistant's group that is open."""
        self._pending_results: list[tuple[Message, ToolResult]] = []
        self._calls: list[tuple[MessageGroup, GroupedCall]] = []
        self._unanswered_by_id: dict[str, _UnansweredCalls] = {}
        """By the ids that the caller gave; also those of which every call is answered."""
        self._unanswered: _UnansweredCalls | None = None
        """None until a result needs it that has no id: few have none."""
        self._unanswered_by_name: dict[str, _UnansweredCalls] = {}
        """Of the same calls."""
        self._taken_ids = dict(before.taken_ids)
        """Ids in use, each with the number of its last repetition."""
        self._violations: list[Violation] = []
        self.orphans: list[ToolResult] = []
        """The results without a call."""
        self._position = before.position

    def list_unanswered(self) -> list[ToolCall]:
        return [grouped.call for _, grouped in self._calls if not grouped.answered]

    @property
    def calls(self) -> CallState:
        """The calls, once all of them are answered."""
        return CallState(self._position, self._taken_ids, self._before.ids.union(self._unanswered_by_id))

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._pending_results += [(message, part) for part in message.parts if type(part) is ToolResult]
            self._position += len(message.parts)
            self._open = self._turn = None
            return
        if self._pending_results:
            self._match_results()
        parts = _drop_empty_parts(message)
        group = self._group_for(message, parts)
        if self._turn is not None and parts:
            self._turn.add(parts)
        group.sources.append(message)
        content: list[Text | Media] = []
        for part in parts:
            if type(part) is Text or type(part) is Media:
                content.append(part)
            elif type(part) is Reasoning:
                group.reasonings.append(part.text)
            elif type(part) is ToolCall:
                self._add_call(group, GroupedCall(part, self._make_id(part), message.path))
            self._position += 1
        if content:
            group.texts.append(tuple(content))
        if not message.extra:
            return
        group.marks.update([mark for mark in _MARKS if message.extra.get(mark) is True])
        details = message.extra.get("reasoning_details")
        if isinstance(details, list):
            group.details += details
        extra_content = message.extra.get("extra_content")
        if extra_content is not None and not all(isinstance(part, ToolCall) for part in message.parts):
            group.extra_content = extra_content

    def _add_call(self, group: MessageGroup, grouped: GroupedCall) -> None:
        group.calls.append(grouped)
        self._calls.append((group, grouped))
        if self._unanswered is not None:
            self._add_unanswered(self._unanswered, group, grouped)
        if grouped.call.id:
            calls = self._unanswered_by_id.get(grouped.call.id)
            if calls is None:
                calls = self._unanswered_by_id[grouped.call.id] = _UnansweredCalls()
            calls.add(group, grouped)

    def _add_unanswered(self, unanswered: _UnansweredCalls, group: MessageGroup, grouped: GroupedCall) -> None:
        unanswered.add(group, grouped)
        self._unanswered_by_name.setdefault(grouped.call.name, _UnansweredCalls()).add(group, grouped)

    def _list_unanswered(self) -> _UnansweredCalls:
        """Return the calls for results whose id no call has."""
        if self._unanswered is None:
            self._unanswered = _UnansweredCalls()
            for group, grouped in self._calls:
                self._add_unanswered(self._unanswered, group, grouped)
        return self._unanswered

    def _group_for(self, message: Message, parts: Sequence[Part]) -> MessageGroup:
        assistant = message.role == "assistant"
        if assistant and self._open is not None and self._turn is not None and self._turn.accepts(message, parts):
            return self._open
        group = MessageGroup(message.role, message.name)
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
        ordered = run if len(run) == 1 else sorted(run, key=_without_id)
        matched = {id(result): self._match_result(message, result) for message, result in ordered}
        for message, result in run:
            match = matched[id(result)]
            if match is not None:
                group, grouped = match
                group.answers.append(message)
                named = result if result.name else replace(result, name=grouped.call.name)
                group.results.append((grouped.id, named))

    def _match_result(self, message: Message, result: ToolResult) -> tuple[MessageGroup, GroupedCall] | None:
        calls = self._unanswered_by_id.get(result.id) if result.id else None
        known = calls is not None or result.id in self._before.ids
        if known:
            match = None if calls is None else calls.take()
        else:
            unanswered = self._list_unanswered()
            named = self._unanswered_by_name.get(result.name) if result.name is not None else None
            match = (named.take() if named else None) or (None if result.id else unanswered.take())
        if match is not None:
            return match
        if known:
            text = f"the call {result.id!r} already has a result: remove one of the two"
        else:
            text = f"tool result{_describe_result(result)} has no matching call before it: {_REMEDY}"
        self._violations.append(Violation(message.path, text))
        self.orphans.append(result)
        return None

    def finish(self) -> tuple[list[MessageGroup], list[Violation]]:
        self._match_results()
        for _, grouped in self._calls:
            if grouped.answered:
                continue
            text = f"the call of {grouped.call.name!r} has no result in the messages after it: add its result"
            self._violations.append(Violation(grouped.call.path or f"{grouped.path}.function_call", text))
        return self._groups, self._violations


def _describe_result(result: ToolResult) -> str:
    function = f" for function {result.name!r}" if result.name else ""
    return f"{function} with the id {result.id!r}" if result.id else function


def _without_id(pair: tuple[Message, ToolResult]) -> bool:
    return not pair[1].id


def _drop_empty_parts(message: Message) -> list[Part]:
    """Drop empty text and reasoning: some formats write an empty text where others write none."""
    return [part for part in message.parts if not isinstance(part, _TEXTUAL) or part.text]
