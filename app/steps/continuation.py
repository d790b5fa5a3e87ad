"""A last message that is the assistant's: the model goes on writing it, in the way that its server knows."""

from dataclasses import replace
from functools import reduce

from app.chat.messages import ChatRequest, Message, Reasoning, Text, ToolCall
from app.errors import BadRequest
from app.profiles import Profile
from app.steps.merge_messages import merge_messages, merge_parts


def fold_continuation(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, tuple[str, ...]]:
    """(the request, warnings). Raises BadRequest where the model can only begin a message of its own."""
    run = _find_assistant_tail(request.messages)
    parts = [part for message in run for part in message.parts]
    if not run or any(isinstance(part, ToolCall) for part in parts):
        return request, ()
    if profile.continuation == "refuse":
        raise BadRequest("this model cannot continue an assistant's message", run[0].path or None)
    before = request.messages[: -len(run)]
    last = reduce(merge_messages, run)
    if profile.continuation == "fold":
        return _fold_unsupported(request, profile, before, last)
    said = any(isinstance(part, Text) and part.text for part in parts)
    marked = said and profile.continuation != "send"
    return replace(request, messages=(*before, last), continue_last=marked), ()


def _fold_unsupported(
    request: ChatRequest, profile: Profile, before: tuple[Message, ...], last: Message
) -> tuple[ChatRequest, tuple[str, ...]]:
    """For a server that continues nothing. Most clients send it the message all the same, and it answers anew."""
    if request.policy.folds_last:
        return _fold_into_user(request, before, last)
    if profile.assistant_last or not last.parts:
        return request, ()
    folded, warnings = _fold_into_user(request, before, last)
    if folded == request:
        return request, warnings
    said = "was put behind the user's message: this model's server takes no assistant's message at the end"
    return folded, (f"{last.path or 'the last message'} {said}", *warnings)


def _find_assistant_tail(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The assistant messages at the end."""
    start = len(messages)
    while start and messages[start - 1].role == "assistant":
        start -= 1
    return messages[start:]


def _fold_into_user(
    request: ChatRequest, before: tuple[Message, ...], last: Message
) -> tuple[ChatRequest, tuple[str, ...]]:
    """The text goes to the end of the user's message, as Qwen-Agent does; what was thought before it cannot."""
    if not before or before[-1].role != "user":
        said = "was sent as it is: this model continues an assistant's message only directly after a user's"
        return request, (f"{last.path or 'the last message'} {said}",)
    kept = tuple(part for part in last.parts if not isinstance(part, Reasoning))
    user = replace(before[-1], parts=merge_parts(before[-1].parts, kept))
    folded = replace(request, messages=(*before[:-1], user))
    if len(kept) == len(last.parts):
        return folded, ()
    return folded, (f"{last.path or 'the last message'}: its reasoning was not sent, this model cannot continue it",)
