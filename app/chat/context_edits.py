"""Edits of the context that a request asks for: which parts of its conversation are not sent any more."""

from typing import Literal, TypeAlias

from msgspec import Struct

CLEARED = "[cleared]"
"""The text of a tool result that is cleared."""


class ClearToolUses(Struct, frozen=True):
    """Clear the oldest tool results, once the conversation is longer than a bound."""

    trigger: Literal["input_tokens", "tool_uses"] = "input_tokens"
    above: int = 100_000
    keep: int = 3
    """How many of the newest stay."""
    at_least: int = 0
    """Nothing is cleared if that is fewer tokens."""
    exclude: frozenset[str] = frozenset()
    """The tools whose results stay."""
    inputs: bool | frozenset[str] = False
    """Whether the arguments of the calls go too, or of which tools."""
    path: str = ""
    """The JSON path in the request, for warnings."""


class ClearThinking(Struct, frozen=True):
    """Leave out the reasoning of older turns."""

    keep: int | None = 1
    """How many of the newest turns with reasoning keep it; None: all."""


ContextEdit: TypeAlias = ClearToolUses | ClearThinking


class AppliedEdit(Struct, frozen=True):
    kind: Literal["tool_uses", "thinking"]
    count: int
    """How many tool results, or turns with reasoning."""
    tokens: int
    """About how many tokens are not sent."""
