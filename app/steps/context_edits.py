"""Clears tool results and reasoning that a request no longer wants to be sent: `ContextEdit`.

A provider clears as soon as a conversation is too long, and sends the rest of it unchanged until it is too long again.
So would a gateway that remembered each session. This one goes through the conversation instead, and clears at each
earlier request what it would have cleared then: the beginning stays the same from request to request, which the
caches of model servers need, in every process and after a restart.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from app.chat.context_edits import CLEARED, AppliedEdit, ClearThinking, ClearToolUses, Compact, ContextEdit
from app.chat.messages import ChatRequest, Message, Reasoning, Text, ToolCall, ToolResult
from app.chat.token_estimate import BYTES_PER_TOKEN, MESSAGE_TOKENS, count_bytes, estimate_prompt_tokens

Kind: TypeAlias = Literal["tool_uses", "thinking"]
_CLEARED = (Text(CLEARED),)
_NO_INPUT = "{}"


def apply_edits(request: ChatRequest) -> tuple[ChatRequest, tuple[AppliedEdit, ...], Compact | None]:
    """Return the request with all edits, one after the other, and those that changed something. The last value is the
    edit for which it must be summarized then; those behind it find nothing that they could clear."""
    applied: list[AppliedEdit] = []
    for edit in request.edits:
        if type(edit) is Compact:
            if estimate_prompt_tokens(request) > edit.above and split_last_message(request.messages)[1] != ():
                return request, tuple(applied), edit
            continue
        messages, count = _apply(edit, request)
        if count:
            edited = replace(request, messages=messages, known=None)
            tokens = estimate_prompt_tokens(request) - estimate_prompt_tokens(edited)
            kind: Kind = "tool_uses" if type(edit) is ClearToolUses else "thinking"
            applied.append(AppliedEdit(kind, count, max(tokens, 0)))
            request = edited
    return request, tuple(applied), None


def split_last_message(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the system messages, and what the model must answer: the last message of the user, and with results of
    tools their calls too. Both are empty if there is nothing before it, or the last message is the model's."""
    start = len(messages)
    while start and messages[start - 1].role in ("user", "tool"):
        start -= 1
    end = start
    if any(message.role == "tool" for message in messages[start:]):
        while start and messages[start - 1].role == "assistant":
            start -= 1
    system = tuple(message for message in messages[:start] if message.role == "system")
    if end == len(messages) or len(system) == start:
        return (), ()
    return system, tuple(messages[start:])


def explain_unapplied(request: ChatRequest, applied: Sequence[AppliedEdit]) -> list[str]:
    """Return a warning for each edit that should shorten a long conversation and did not. `request` is the one without
    edits, of whose tokens the gateway has an estimate."""
    tokens, warnings = estimate_prompt_tokens(request), []
    for edit in request.edits:
        if type(edit) is ClearToolUses and all(one.kind != "tool_uses" for one in applied):
            warnings.append(f"{edit.path} has cleared nothing: the conversation has about {tokens} tokens")
        elif type(edit) is Compact and tokens > edit.above and not split_last_message(request.messages)[1]:
            warnings.append(f"{edit.path} has summarized nothing: nothing stands before the last message of the user")
    return warnings


def _apply(edit: ContextEdit, request: ChatRequest) -> tuple[tuple[Message, ...], int]:
    if type(edit) is ClearThinking:
        return _clear_thinking(edit, request.messages)
    assert type(edit) is ClearToolUses
    uses = _ToolUses(edit)
    size = estimate_prompt_tokens(replace(request, messages=(), known=None)) * BYTES_PER_TOKEN
    uses.read(request.messages, size)
    return uses.clear(request.messages), uses.cleared


class _Use(NamedTuple):
    """A tool result that may be cleared."""

    place: int
    """The place of its message."""
    call_place: int
    """That of the call's, if its arguments are cleared too; else -1."""
    id: str | None
    size: int
    """How many bytes fewer are sent."""


class _ToolUses:
    """The tool results of a conversation, of which the first `cleared` that may be cleared are."""

    def __init__(self, edit: ClearToolUses) -> None:
        self._edit = edit
        self._uses: list[_Use] = []
        self._sizes = [0]
        """How many bytes fewer are sent if the first n are cleared."""
        self._count = 0
        """Of all results."""
        self.cleared = 0

    def read(self, messages: Sequence[Message], size: int) -> None:
        """Go through the conversation, and clear at the end of each earlier request. `size` is that of the tools."""
        calls: dict[str | None, tuple[int, ToolCall]] = {}
        was_assistant = True
        for place, message in enumerate(messages):
            if message.role == "assistant":
                if not was_assistant:
                    self._end_request(size, place)
                calls |= {part.id: (place, part) for part in message.parts if type(part) is ToolCall}
            for part in message.parts:
                if type(part) is ToolResult:
                    self._add(place, part, calls.get(part.id))
            was_assistant = message.role == "assistant"
            size += count_bytes((message,)) + MESSAGE_TOKENS * BYTES_PER_TOKEN
        self._end_request(size, len(messages))

    def _add(self, place: int, result: ToolResult, call: tuple[int, ToolCall] | None) -> None:
        self._count += 1
        name = result.name if call is None else call[1].name
        if name in self._edit.exclude:
            return
        size = count_bytes((Message("tool", result.content),)) - len(CLEARED)
        call_place, inputs = -1, self._edit.inputs
        if call is not None and (inputs is True or (inputs is not False and name in inputs)):
            call_place = call[0]
            size += count_bytes((Message("tool", (Text(call[1].arguments),)),)) - len(_NO_INPUT)
        self._uses.append(_Use(place, call_place, result.id, size))
        self._sizes.append(self._sizes[-1] + size)

    def _end_request(self, size: int, place: int) -> None:
        """Clear, if the conversation up to this place is too long with what is cleared so far."""
        edit, end = self._edit, len(self._uses) - self._edit.keep
        if end <= self.cleared:
            return
        if edit.trigger == "tool_uses":
            length = self._count - self.cleared
        else:
            length = (size - self._sizes[self.cleared]) // BYTES_PER_TOKEN
        saved = (self._sizes[end] - self._sizes[self.cleared]) // BYTES_PER_TOKEN
        if length > edit.above and saved >= edit.at_least:
            self.cleared = end

    def clear(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        out = list(messages)
        for use in self._uses[: self.cleared]:
            out[use.place] = _clear_parts(out[use.place], use.id, result=True)
            if use.call_place >= 0:
                out[use.call_place] = _clear_parts(out[use.call_place], use.id, result=False)
        return tuple(out)


def _clear_parts(message: Message, id_: str | None, *, result: bool) -> Message:
    """Return the message without what its result, or its call, with this id says."""
    parts = tuple(
        replace(part, content=_CLEARED)
        if result and type(part) is ToolResult and part.id == id_
        else replace(part, arguments=_NO_INPUT)
        if not result and type(part) is ToolCall and part.id == id_
        else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _clear_thinking(edit: ClearThinking, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], int]:
    """A turn is all that the model says to one message of the user, with calls and their results."""
    turns: list[list[int]] = [[]]
    for place, message in enumerate(messages):
        if message.role == "user" and turns[-1]:
            turns.append([])
        elif message.role == "assistant" and _has_thinking(message):
            turns[-1].append(place)
    thinking = [turn for turn in turns if turn]
    old = thinking[: max(len(thinking) - edit.keep, 0)] if edit.keep is not None else []
    places = {place for turn in old for place in turn}
    stripped = (_strip_thinking(one) if place in places else one for place, one in enumerate(messages))
    return tuple(one for one in stripped if one.parts or one.extra), len(old)


def _has_thinking(message: Message) -> bool:
    return any(type(part) is Reasoning for part in message.parts) or "reasoning_details" in message.extra


def _strip_thinking(message: Message) -> Message:
    parts = tuple(part for part in message.parts if type(part) is not Reasoning)
    extra: Mapping[str, object] = {name: one for name, one in message.extra.items() if name != "reasoning_details"}
    return replace(message, parts=parts, extra=extra)
