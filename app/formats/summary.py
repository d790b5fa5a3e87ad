"""The summary that replaces the beginning of a conversation, as the message that a model is sent for it."""

from app.chat.messages import Message, Text

_HEAD = "Summary of the conversation so far:"


def make_summary(text: str, path: str) -> Message:
    """Return the summary as a message of the user: many chat templates want a conversation to begin with one."""
    return Message("user", (Text(f"{_HEAD}\n\n{text}"),), path=path)
