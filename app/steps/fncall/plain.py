"""Old calls and results told as the user's words, for a model that is not to call anything."""

from collections.abc import Sequence

from app.chat.messages import ChatRequest, Message, Part, Text, ToolCall, ToolResult
from app.steps.fncall.wording import appended, said
from app.steps.language import Language, language

_CALLED: dict[Language, str] = {
    "en": '\n\nThe tool "{name}" was called with these arguments: \n{arguments}',
    "zh": '\n\n工具"{name}"被调用时使用了以下参数：\n{arguments}',
}
_RETURNED: dict[Language, str] = {
    "en": "\n\nThe tool has returned the following result: \n",
    "zh": "\n\n该工具返回了以下结果：\n",
}


def has_calls(messages: Sequence[Message]) -> bool:
    return any(isinstance(part, ToolCall | ToolResult) for message in messages for part in message.parts)


def plain_messages(request: ChatRequest) -> tuple[Message, ...]:
    """The conversation without calls and results."""
    lang, joiner = language(request), request.text_joiner
    out: list[Message] = []
    for message in request.messages:
        told = [piece for part in message.parts for piece in _told(part, lang, joiner)]
        rest = tuple(part for part in message.parts if not isinstance(part, ToolCall | ToolResult))
        if not told:
            if request.policy.separates_users and message.role == "user" and out and out[-1].role == "user":
                out.append(Message("assistant", (Text("..."),)))
            out.append(message)
            continue
        if any(isinstance(part, Text) and part.text.strip() for part in rest):
            out.append(Message(message.role, rest, message.name, message.turn, message.path))
        last = out.pop() if out and out[-1].role == "user" else Message("user", (), path=message.path)
        parts = appended(said(last.parts, joiner), told)
        out.append(Message("user", parts, last.name, None, last.path, last.extra))
    return tuple(out)


def _told(part: Part, lang: Language, joiner: str) -> tuple[Part | str, ...]:
    if isinstance(part, ToolCall):
        return (_CALLED[lang].format(name=part.name, arguments=part.arguments),)
    if isinstance(part, ToolResult):
        return (_RETURNED[lang], *said(part.content, joiner))
    return ()
