"""A conversation in brief."""

from app.chat.messages import Message, Text, ToolCall, ToolResult


def shown(messages: tuple[Message, ...]) -> list[str]:
    """`role:kind:what` of every message."""
    out = []
    for message in messages:
        for part in message.parts or (Text(""),):
            what = part.id if isinstance(part, ToolCall | ToolResult) else getattr(part, "text", "media")
            out.append(f"{message.role}:{part.kind}:{what}")
    return out
