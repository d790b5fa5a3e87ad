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


COMPACTION = "compaction"
"""The key of a summary in the `extra` of what follows it, and the reason for which a reply ends behind one."""


class Compact(Struct, frozen=True):
    """Let the model summarize a conversation that is longer than a bound, and go on from the summary."""

    above: int = 150_000
    """In tokens."""
    instructions: str | None = None
    """What the model is asked for; None: a text of the gateway."""
    pauses: bool = False
    """The reply ends behind the summary."""
    path: str = ""
    """The JSON path in the request, for warnings."""


ContextEdit: TypeAlias = ClearToolUses | ClearThinking | Compact


class AppliedEdit(Struct, frozen=True):
    kind: Literal["tool_uses", "thinking"]
    count: int
    """How many tool results, or turns with reasoning."""
    tokens: int
    """About how many tokens are not sent."""
