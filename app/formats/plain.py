"""Parses the messages that nearly every request has, a role and a text each, without a schema."""

from typing import Any, cast

from app.chat.messages import Message, Role, Text

_ROLES = frozenset(("system", "user", "assistant"))


def parse_plain_messages(messages: list[Any]) -> tuple[Message, ...] | None:
    """Parse messages that consist of a role and a text that is not empty. None if there is any other message.

    Every format that has such messages parses them alike. Two assistant messages in a row are left to the format.
    """
    parsed: list[Message] = []
    previous = ""
    for number, item in enumerate(messages):
        if type(item) is not dict or len(item) != 2:
            return None
        role, content = item.get("role"), item.get("content")
        if type(content) is not str or not content or type(role) is not str or role not in _ROLES:
            return None
        if role == previous == "assistant":
            return None
        previous = role
        parsed.append(Message(cast(Role, role), (Text(content),), path=f"messages[{number}]"))
    return tuple(parsed)
