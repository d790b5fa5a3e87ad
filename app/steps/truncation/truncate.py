"""A conversation that is too long, cut in Qwen-Agent's order until it fits.

Oldest turn first: a turn that is less than what is too much goes whole. Of one that is more, first the tool results
are shortened, then middle steps go, each call with its results, then reasoning, then texts are shortened. The last
turn comes last; its newest step and its user message stay. System messages, tools, calls, names and ids are never
touched. Other than in Qwen-Agent, a call never loses its arguments or its result; reasoning, media and tools count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.chat.messages import ChatRequest, MediaKind, Message
from app.chat.token_counter import TokenCounter
from app.errors import ContextTooLong
from app.profiles import Profile
from app.steps.truncation.cutting import ConversationCutter, split_steps, split_turns
from app.steps.truncation.measure import TokenMeasure


def input_limit(params: Mapping[str, Any], profile: Profile) -> int | None:
    """How many tokens may be sent. None: as many as there are, which a caller also says by 0 and less."""
    given = params.get("max_input_tokens")
    limit: int | None = profile.max_input_tokens if given is None else given
    return limit if limit is not None and limit > 0 else None


def truncate(
    request: ChatRequest, limit: int, counter: TokenCounter, media_tokens: Mapping[MediaKind, int]
) -> tuple[ChatRequest, tuple[str, ...]]:
    """(the request, what was cut). Raises ContextTooLong.

    The request must be sound: every result answers a call before it, and every call has its result.
    """
    measure = TokenMeasure(counter, media_tokens)
    if measure.upper_bound(request) <= limit:
        return request, ()
    cutting = ConversationCutter(
        request.messages, measure, counter, limit - sum(map(measure.count_tool, request.tools))
    )
    total = cutting.excess + limit
    _cut(request.messages, cutting)
    if cutting.excess > 0:
        text = f"the conversation has {total} tokens, and cannot be cut to the {limit} of max_input_tokens"
        raise ContextTooLong(text, "messages")
    if total <= limit:
        return request, ()
    kept = tuple(message for message in cutting.messages if message is not None)
    return replace(request, messages=kept), _warnings(request.messages, cutting.messages, total, limit)


def _cut(messages: Sequence[Message], cutting: ConversationCutter) -> None:
    all_turns = split_turns(messages)
    for turn in all_turns[:-1]:
        if cutting.excess > 0:
            _cut_old(messages, turn, cutting)
    if cutting.excess > 0 and all_turns:
        _cut_last(messages, all_turns[-1], cutting)


def _cut_old(messages: Sequence[Message], turn: list[int], cutting: ConversationCutter) -> None:
    if cutting.tokens(turn) <= cutting.excess:
        cutting.drop(turn)
        return
    cutting.shorten_results(turn)
    parts = split_steps(messages, turn)
    _drop_until_fits(parts[1:-1], cutting)
    _drop_reasoning(turn, cutting)
    for place in turn:
        if cutting.excess > 0:
            cutting.shorten_or_omit(place)
    if cutting.excess > 0:
        # Nothing but calls is left, and those stay whole.
        cutting.drop(turn)


def _cut_last(messages: Sequence[Message], turn: list[int], cutting: ConversationCutter) -> None:
    parts = split_steps(messages, turn)
    asked = max((place for place in turn if messages[place].role == "user"), default=-1)
    middle = [step for step in parts[1:-1] if asked not in step]
    cutting.shorten_results(place for step in parts[:-1] for place in step)
    _drop_until_fits(middle, cutting)
    cutting.shorten_results(parts[-1])
    _drop_reasoning(turn, cutting)
    for place in sorted(turn, key=cutting.text_tokens, reverse=True):
        if cutting.excess > 0 and cutting.text_tokens(place) > 1:
            cutting.shorten_text(place)


def _drop_until_fits(middle: list[list[int]], cutting: ConversationCutter) -> None:
    for step in middle:
        if cutting.excess > 0:
            cutting.drop(step)


def _drop_reasoning(turn: list[int], cutting: ConversationCutter) -> None:
    for place in turn:
        if cutting.excess > 0:
            cutting.drop_reasoning(place)


def _warnings(before: Sequence[Message], after: Sequence[Message | None], total: int, limit: int) -> tuple[str, ...]:
    left_out = [_name(place, before) for place, message in enumerate(after) if message is None]
    shortened = [_name(place, before) for place, message in enumerate(after) if message not in (None, before[place])]
    cut = f"the conversation has {total} tokens, more than the {limit} of max_input_tokens"
    return tuple(
        f"{cut}: {_list_names(names)} {done}"
        for names, done in ((left_out, "left out"), (shortened, "shortened"))
        if names
    )


def _name(place: int, messages: Sequence[Message]) -> str:
    return messages[place].path or f"message {place + 1}"


def _list_names(names: list[str]) -> str:
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, … {names[-1]} ({len(names)} messages)"
