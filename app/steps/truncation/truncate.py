"""Truncates a conversation that is too long, in Qwen-Agent's order.

The oldest turn is cut first. A turn with no more tokens than the excess is dropped. In a longer one, first the tool
results are shortened, then the middle steps are dropped, each call with its results, then the reasoning, then texts are
shortened. The last turn is cut last; its newest step and its user message stay. System messages, summaries, tools,
calls, names and ids are not changed. Unlike in Qwen-Agent, a call never loses its arguments or its result, and
reasoning, media and tools count.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import ChatRequest, MediaKind, Message, TokenCounter
from app.errors import ContextTooLong
from app.profiles import Profile
from app.steps.truncation.cutting import ConversationCutter, split_steps, split_turns
from app.steps.truncation.measure import TokenMeasure


def input_limit(params: Mapping[str, Any], profile: Profile) -> int | None:
    """Return the limit of input tokens, or None for no limit, which a caller can also request with 0 or less."""
    given = params.get("max_input_tokens")
    limit: int | None = profile.max_input_tokens if given is None else given
    return limit if limit is not None and limit > 0 else None


def truncate(
    request: ChatRequest, limit: int, counter: TokenCounter, media_tokens: Mapping[MediaKind, int]
) -> tuple[ChatRequest, tuple[str, ...]]:
    """Return (the request, a warning for each kind of cut).

    Every call of the request must have its result, and every result its call.

    Raises:
        ContextTooLong: the request exceeds the limit after all cuts.
    """
    measure = TokenMeasure(counter, media_tokens)
    if measure.upper_bound(request) <= limit:
        return request, ()
    cutter = ConversationCutter(request.messages, measure, counter, limit - sum(map(measure.count_tool, request.tools)))
    total = cutter.excess + limit
    _cut(request.messages, cutter)
    if cutter.excess > 0:
        text = f"the conversation has {total} tokens, and cannot be truncated to max_input_tokens ({limit})"
        raise ContextTooLong(text, request.paths.conversation, total, limit)
    if total <= limit:
        return request, ()
    kept = tuple(message for message in cutter.messages if message is not None)
    return replace(request, messages=kept), _warnings(request.messages, cutter.messages, total, limit)


def _cut(messages: Sequence[Message], cutter: ConversationCutter) -> None:
    all_turns = split_turns(messages)
    for turn in all_turns[:-1]:
        if cutter.excess > 0:
            _cut_old(messages, turn, cutter)
    if cutter.excess > 0 and all_turns:
        _cut_last(messages, all_turns[-1], cutter)


def _cut_old(messages: Sequence[Message], turn: list[int], cutter: ConversationCutter) -> None:
    if cutter.tokens(turn) <= cutter.excess:
        cutter.drop(turn)
        return
    cutter.shorten_results(turn)
    steps = split_steps(messages, turn)
    _drop_until_fits(steps[1:-1], cutter)
    _drop_reasoning(turn, cutter)
    for position in turn:
        if cutter.excess > 0:
            cutter.shorten_or_omit(position)
    if cutter.excess > 0:
        # Only calls are left, which are not shortened.
        cutter.drop(turn)


def _cut_last(messages: Sequence[Message], turn: list[int], cutter: ConversationCutter) -> None:
    steps = split_steps(messages, turn)
    last_user = max((position for position in turn if messages[position].role == "user"), default=-1)
    middle = [step for step in steps[1:-1] if last_user not in step]
    cutter.shorten_results(position for step in steps[:-1] for position in step)
    _drop_until_fits(middle, cutter)
    cutter.shorten_results(steps[-1])
    _drop_reasoning(turn, cutter)
    for position in sorted(turn, key=cutter.text_tokens, reverse=True):
        if cutter.excess > 0 and cutter.text_tokens(position) > 1:
            cutter.shorten_text(position)


def _drop_until_fits(middle: list[list[int]], cutter: ConversationCutter) -> None:
    for step in middle:
        if cutter.excess > 0:
            cutter.drop(step)


def _drop_reasoning(turn: list[int], cutter: ConversationCutter) -> None:
    for position in turn:
        if cutter.excess > 0:
            cutter.drop_reasoning(position)


def _warnings(before: Sequence[Message], after: Sequence[Message | None], total: int, limit: int) -> tuple[str, ...]:
    dropped = [_name(position, before) for position, message in enumerate(after) if message is None]
    shortened = [
        _name(position, before) for position, message in enumerate(after) if message not in (None, before[position])
    ]
    reason = f"the conversation has {total} tokens, more than max_input_tokens ({limit})"
    return tuple(
        f"{reason}: {_list_names(names)} {change}"
        for names, change in ((dropped, "dropped"), (shortened, "shortened"))
        if names
    )


def _name(position: int, messages: Sequence[Message]) -> str:
    return messages[position].path or f"message {position + 1}"


def _list_names(names: list[str]) -> str:
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, … {names[-1]} ({len(names)} messages)"
