"""A conversation of the vocabulary as OpenAI messages."""

from collections.abc import Sequence
from typing import Any

from app.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from app.errors import Violation

_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
