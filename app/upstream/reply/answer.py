"""Whether a reply has an answer: text, a call, a refusal or media (rule 14 of `docs/reference/assembly.md`).

A server may count tokens, or say `tool_calls`, and send nothing of them. Such a reply ends well, and its caller would
take it for an answer.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from app.chat.events import AnswerPart, Event, Extra, Finish, MediaOutput, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.token_usage import read_token_usage

_ANSWERS = (ToolCallDelta, MediaOutput, AnswerPart)


def has_answer(events: Sequence[Event], *, reasoning: bool, items: bool = False) -> bool:
    """Whether any of the events is a part of an answer. White space is none; `reasoning` says whether reasoning is, and
    `items` whether an item is that only the server's API has: its clients understand that."""
    for event in events:
        if type(event) is TextDelta or (reasoning and type(event) is ReasoningDelta):
            if event.text and not event.text.isspace():
                return True
        elif type(event) in _ANSWERS or (items and _has_item(event)):
            return True
    return False


def _has_item(event: Event) -> bool:
    details = event.fields.get("reasoning_details", ()) if type(event) is Extra else ()
    return any(isinstance(detail, dict) and detail.get("type") == "provider.item" for detail in details)


def may_lack_answer(finish: Finish) -> bool:
    """Whether the end explains that there is no answer: a filter, or a stop word at once."""
    return finish.reason == "content_filter" or finish.stopped_by is not None


def add_empty_warning(finish: Finish, *, reasoning: bool) -> Finish:
    """Return the end of a reply without an answer, with a warning, and so that the reply is not cached. `reasoning`: it
    may have reasoning, which is no answer."""
    return replace(finish, warnings=(*finish.warnings, _describe(finish, reasoning)), cacheable=False)


def _describe(finish: Finish, reasoning: bool) -> str:
    missing = "no text and no call, at most reasoning" if reasoning else "no text and no call"
    if finish.reason == "length":
        return f"the reply reached its limit of tokens before it had an answer: it has {missing}; raise max_tokens"
    tokens = read_token_usage(finish.usage)
    reasons = []
    if tokens is not None and tokens.output:
        reasons.append(f"counted {tokens.output} tokens of output")
    if finish.native_reason is not None:
        reasons.append(f"gave the finish reason {finish.native_reason[:100]!r}")
    although = f", although the model server {' and '.join(reasons)}" if reasons else ""
    return f"the model's reply is empty: it has {missing}{although}; it is not cached"
