"""Tool calls and their results as OpenAI's messages have them, for upstreams and for clients alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.chat.messages import Media, Text, ToolResult


def write_call(id_: str, name: str, arguments: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Write one item of `tool_calls`; `extra` has further fields, such as `extra_content`."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


def split_results(results: Sequence[tuple[str, ToolResult]]) -> tuple[list[list[Text]], list[Text | Media]]:
    """Return (lines, labelled): the lines of text of each result's tool message, and the parts of a user message that
    follows them. Tool messages have only text, so each media part is replaced by a line with its number."""
    lines: list[list[Text]] = []
    labelled: list[Text | Media] = []
    for _, result in results:
        lines.append([])
        for part in result.content:
            if isinstance(part, Text):
                lines[-1].append(part)
            else:
                number = len(labelled) // 2 + 1
                labelled += [Text(f"[{part.media} {number}]"), replace(part, mark=None)]
                lines[-1].append(Text(f"[{part.media} {number}: see below]", part.mark))
    return lines, labelled
