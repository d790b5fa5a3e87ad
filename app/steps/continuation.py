"""Handles a conversation that ends with an assistant message, which the model must continue."""

from msgspec.structs import replace

from app.chat.messages import ChatRequest, Message, Part, Reasoning, Text, ToolCall
from app.errors import BadRequest
from app.profiles import Profile
from app.steps.merge_messages import merge_messages, merge_parts


def drop_last_thought(request: ChatRequest) -> tuple[ChatRequest, tuple[str, ...]]:
    """Drop an assistant turn without text at the end, from a reply that was cut while the model thought; return (the
    request, warnings). A server would take it as the beginning of an empty answer, and several refuse that."""
    run = _find_assistant_tail(request.messages)
    before = request.messages[: len(request.messages) - len(run)]
    if not run or not before or not all(_is_thought(part) for message in run for part in message.parts):
        return request, ()
    text = "was not sent: it has only reasoning, which a model cannot continue"
    return replace(request, messages=before), (f"{run[0].path or 'the last message'} {text}",)


def _is_thought(part: Part) -> bool:
    return isinstance(part, Reasoning) or (isinstance(part, Text) and not part.text.strip())


def fold_continuation(request: ChatRequest, profile: Profile) -> tuple[ChatRequest, tuple[str, ...]]:
    """Return (request, warnings).

    Raises:
        BadRequest: the profile refuses conversations that end with an assistant message.
    """
    run = _find_assistant_tail(request.messages)
    parts = [part for message in run for part in message.parts]
    if not run or any(isinstance(part, ToolCall) for part in parts):
        return request, ()
    if profile.continuation == "refuse":
        raise BadRequest(
            "this model cannot continue an assistant message: end the conversation with a user message",
            run[0].path or None,
        )
    before = request.messages[: -len(run)]
    last = merge_messages(run)
    if profile.continuation == "fold":
        return _fold_unsupported(request, profile, before, last)
    has_text = any(isinstance(part, Text) and part.text for part in parts)
    marked = has_text and profile.continuation != "send"
    return replace(request, messages=(*before, last), continue_last=marked), ()


def _fold_unsupported(
    request: ChatRequest, profile: Profile, before: tuple[Message, ...], last: Message
) -> tuple[ChatRequest, tuple[str, ...]]:
    """Handle a server that cannot continue a message. Most clients send the message anyway, and get a new one."""
    if request.policy.folds_last:
        return _fold_into_user(request, before, last)
    if profile.assistant_last or not last.parts:
        return request, ()
    folded, warnings = _fold_into_user(request, before, last)
    if folded == request:
        return request, warnings
    text = "was appended to the user's message: this model's server accepts no assistant message at the end"
    return folded, (f"{last.path or 'the last message'} {text}", *warnings)


def _find_assistant_tail(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the assistant messages at the end of the conversation."""
    start = len(messages)
    while start and messages[start - 1].role == "assistant":
        start -= 1
    return messages[start:]


def _fold_into_user(
    request: ChatRequest, before: tuple[Message, ...], last: Message
) -> tuple[ChatRequest, tuple[str, ...]]:
    """Append the text to the user's message, as Qwen-Agent does, and drop its reasoning."""
    if not before or before[-1].role != "user":
        text = "was sent unchanged: this model continues an assistant message only directly after a user message"
        return request, (f"{last.path or 'the last message'} {text}",)
    kept = tuple(part for part in last.parts if not isinstance(part, Reasoning))
    user = replace(before[-1], parts=merge_parts((before[-1].parts, kept)))
    folded = replace(request, messages=(*before[:-1], user))
    if len(kept) == len(last.parts):
        return folded, ()
    return folded, (f"{last.path or 'the last message'}: its reasoning was not sent: this model cannot continue it",)
